"""A provider with batch interfaces, after the published schemas of OpenAI's Batch API and Anthropic's Message Batches.

Every document that it sends is checked by the strict model of the provider's own SDK.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse
from openai.types import Batch, FileObject

from tests.llm.provider_stand import completion, message

Json = dict[str, Any]


@dataclass(kw_only=True)
class SentBatch:
    """A batch that was submitted."""

    id: str
    created_at: datetime
    requests: dict[str, Json]
    """Bodies by the ids of the requests."""
    metadata: Json | None = None
    status: str = "running"
    """`running`, `ended`, `expired` or `errored`."""


@dataclass(kw_only=True)
class BatchProvider:
    """Answers each question, at once or in a batch, by `reply`, which takes the body of the request."""

    reply: Callable[[Json], str]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    url: str = ""
    batches: list[SentBatch] = field(default_factory=list[SentBatch])
    asked_at_once: list[Json] = field(default_factory=list[Json])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    looks: int = 0
    """How often a batch was looked at."""
    refuse_with: int | None = None
    """Status of the answer to every submission."""
    fail_lists: bool = False
    """Answer 500 to who lists batches."""
    lose_answers: bool = False
    """Accept a submission and break off instead of answering."""
    hang_at: str = ""
    """`upload` or `create`: do that, and never answer."""
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a request hangs."""
    lists: int = 0
    """How often batches were listed."""
    betas: set[str] = field(default_factory=set[str])
    failing: set[str] = field(default_factory=set[str])
    """Ids of requests that have no answer although their batch ended well; `errored` in Anthropic's terms."""
    spoil: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
    """Changes the lines of the results before they are sent."""

    def end(self, status: str = "ended") -> None:
        """Let all batches come to their end."""
        for batch in self.batches:
            if batch.status == "running":
                batch.status = status

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/files", self._upload),
            web.get("/v1/files/{file}/content", self._content),
            web.post("/v1/batches", self._create),
            web.get("/v1/batches", self._list),
            web.get("/v1/batches/{batch}", self._show),
            web.post("/v1/messages/batches", self._create_messages),
            web.get("/v1/messages/batches", self._list_messages),
            web.get("/v1/messages/batches/{batch}", self._show_messages),
            web.get("/v1/messages/batches/{batch}/results", self._results),
            web.post("/v1/chat/completions", self._complete),
            web.post("/v1/messages", self._complete),
        ]

    def answer(self, path: str, body: Json) -> Json:
        text = self.reply(body)
        made = message({"type": "text", "text": text}) if path == "/v1/messages" else completion({"content": text})
        return json.loads(made)

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked_at_once.append(body)
        return web.json_response(self.answer(request.path, body))

    async def _accept(self, requests: dict[str, Json], metadata: Json | None = None) -> SentBatch:
        if self.refuse_with is not None:
            raise _refusal(self.refuse_with)
        batch = SentBatch(
            id=f"batch_{len(self.batches) + 1}", created_at=self.now(), requests=requests, metadata=metadata
        )
        self.batches.append(batch)
        return batch

    async def _hang(self, where: str, request: web.Request) -> None:
        if self.hang_at == where:
            self.hanging.set()
            await asyncio.Event().wait()
        if self.lose_answers and where == "create":
            assert request.transport is not None
            request.transport.abort()

    def _find(self, request: web.Request) -> SentBatch:
        self.looks += 1
        found = next((batch for batch in self.batches if batch.id == request.match_info["batch"]), None)
        if found is None:
            raise web.HTTPNotFound(text="{}", content_type="application/json")
        return found

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        part = form["file"]
        assert isinstance(part, web.FileField)
        assert form["purpose"] == "batch"
        key = f"file_{len(self.files) + 1}"
        with part.file:
            self.files[key] = part.file.read()
        await self._hang("upload", request)
        document = {
            "id": key, "object": "file", "bytes": len(self.files[key]), "created_at": int(self.now().timestamp()),
            "filename": part.filename, "purpose": "batch", "status": "processed",
        }  # fmt: skip
        FileObject.model_validate(document, strict=True)
        return web.json_response(document)

    async def _content(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["file"]])

    async def _create(self, request: web.Request) -> web.Response:
        given = await request.json()
        assert (given["endpoint"], given["completion_window"]) == ("/v1/chat/completions", "24h")
        lines = [json.loads(line) for line in self.files[given["input_file_id"]].splitlines()]
        assert all((line["method"], line["url"]) == ("POST", given["endpoint"]) for line in lines)
        batch = await self._accept({line["custom_id"]: line["body"] for line in lines}, given.get("metadata"))
        await self._hang("create", request)
        return web.json_response(self._batch(batch))

    async def _list(self, request: web.Request) -> web.Response:
        self.lists += 1
        if self.fail_lists:
            raise _refusal(500)
        newest = [self._batch(batch) for batch in reversed(self.batches)]
        return web.json_response({"object": "list", "data": newest, "has_more": False})

    async def _show(self, request: web.Request) -> web.Response:
        return web.json_response(self._batch(self._find(request)))

    def _batch(self, batch: SentBatch) -> Json:
        created, output, errors = int(batch.created_at.timestamp()), None, None
        if batch.status == "ended":
            lines = [self._line(key, body) for key, body in batch.requests.items() if key not in self.failing]
            output = self._store(f"output_{batch.id}", lines)
        if failed := [key for key in batch.requests if batch.status == "errored" or key in self.failing]:
            error = {"code": "invalid_request_error", "message": "the question is quoted here"}
            lines = [
                {"id": f"r_{key}", "custom_id": key, "response": {"status_code": 400, "request_id": "q", "body": error},
                 "error": None}
                for key in failed
            ]  # fmt: skip
            errors = self._store(f"errors_{batch.id}", lines)
        status = {"running": "in_progress", "ended": "completed", "errored": "completed"}.get(
            batch.status, batch.status
        )
        document = {
            "id": batch.id, "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h",
            "created_at": created, "input_file_id": "file_1", "status": status, "output_file_id": output,
            "error_file_id": errors, "metadata": batch.metadata,
            "request_counts": {"total": len(batch.requests), "completed": 0, "failed": 0},
        }  # fmt: skip
        Batch.model_validate(document, strict=True)
        return document

    def _line(self, key: str, body: Json) -> Json:
        response = {"status_code": 200, "request_id": "q", "body": self.answer("/v1/chat/completions", body)}
        return {"id": f"r_{key}", "custom_id": key, "response": response, "error": None}

    def _store(self, key: str, lines: list[Json]) -> str:
        encoded = self.spoil([json.dumps(line).encode() for line in reversed(lines)])
        self.files[key] = b"".join(line + b"\n" for line in encoded)
        return key

    async def _create_messages(self, request: web.Request) -> web.Response:
        given = await request.json()
        self.betas |= set(filter(None, request.headers.get("anthropic-beta", "").split(",")))
        assert all("stream" not in entry["params"] for entry in given["requests"])
        batch = await self._accept({entry["custom_id"]: entry["params"] for entry in given["requests"]})
        await self._hang("create", request)
        return web.json_response(self._message_batch(batch))

    async def _list_messages(self, request: web.Request) -> web.Response:
        self.lists += 1
        if self.fail_lists:
            raise _refusal(500)
        newest = [self._message_batch(batch) for batch in reversed(self.batches)]
        return web.json_response({"data": newest, "has_more": False, "first_id": None, "last_id": None})

    async def _show_messages(self, request: web.Request) -> web.Response:
        return web.json_response(self._message_batch(self._find(request)))

    async def _results(self, request: web.Request) -> web.Response:
        batch = self._find(request)
        lines: list[bytes] = []
        for key, body in reversed(batch.requests.items()):
            result: Json = {"type": "expired"}
            if batch.status == "ended" and key not in self.failing:
                result = {"type": "succeeded", "message": self.answer("/v1/messages", body)}
            elif batch.status in ("ended", "errored"):
                error = {"type": "invalid_request_error", "message": "the question is quoted here"}
                result = {"type": "errored", "error": {"type": "error", "error": error, "request_id": None}}
            document = {"custom_id": key, "result": result}
            MessageBatchIndividualResponse.model_validate(document)
            lines.append(json.dumps(document).encode())
        lines = self.spoil(lines)
        return web.Response(body=b"\n".join(lines) + b"\n", content_type="application/x-jsonl")

    def _message_batch(self, batch: SentBatch) -> Json:
        running, count = batch.status == "running", len(batch.requests)
        kinds = {"ended": "succeeded", "errored": "errored", "expired": "expired", "running": "processing"}
        names = ("processing", "succeeded", "errored", "canceled", "expired")
        counts: dict[str, int] = dict.fromkeys(names, 0)
        counts[kinds[batch.status]] = count
        created = batch.created_at.isoformat()
        document = {
            "id": batch.id, "type": "message_batch", "created_at": created, "expires_at": created,
            "processing_status": "in_progress" if running else "ended", "request_counts": counts,
            "ended_at": None if running else created, "archived_at": None, "cancel_initiated_at": None,
            "results_url": None if running else f"{self.url}/v1/messages/batches/{batch.id}/results",
        }  # fmt: skip
        MessageBatch.model_validate_json(json.dumps(document), strict=True)
        return document


def _refusal(status: int) -> web.HTTPException:
    body = json.dumps({"type": "error", "error": {"type": "not_found_error", "message": "no batches"}})
    refusal: Mapping[int, type[web.HTTPException]] = {404: web.HTTPNotFound, 500: web.HTTPInternalServerError}
    return refusal[status](text=body, content_type="application/json")


@asynccontextmanager
async def batch_provider(
    reply: Callable[[Json], str], now: Callable[[], datetime] | None = None
) -> AsyncGenerator[BatchProvider]:
    """Run the provider; `now` is its clock."""
    provider = BatchProvider(reply=reply) if now is None else BatchProvider(reply=reply, now=now)
    app = web.Application()
    app.add_routes(provider.routes())
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        provider.url = f"http://{host}:{port}"
        yield provider
    finally:
        await runner.cleanup()
