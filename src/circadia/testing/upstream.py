"""A mock model provider: a real HTTP server for OpenAI's and Anthropic's formats that follows a test's script.

    async with MockUpstream() as up:
        client = AsyncOpenAI(base_url=f"{up.base_url}/v1", api_key="any")
        await client.chat.completions.create(model="mock-1", messages=[{"role": "user", "content": "hello"}])
        assert up.requests[0].json()["model"] == "mock-1"

It serves chat completions, responses (also get, cancel and delete by id), completions, embeddings and models, and
Anthropic's messages, token counts and models; plain and streamed; with usage that can be computed by hand: one word is
one token. It answers with the last user message, or with `reply`.

Failures are scripted, one request each, in the order of requests:

    up.next(status=429, headers={"retry-after": "1"})
    up.next(path="/messages", die_after_chunks=2)

It takes no time by itself. A test waits for `await up.arrived(1)`, not for seconds. While `up.gate` is cleared, all
answers wait; with `delay=event`, one answer waits for that event.

`python -m circadia.testing.upstream --port 9000` runs it as a process and prints its base URL.
"""

import argparse
import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Self

import orjson
from aiohttp import web

from circadia.clock import Clock, SystemClock
from circadia.testing.upstream_formats import AnthropicApi, OpenAIApi
from circadia.testing.upstream_script import (
    RecordedRequest,
    ResponseScript,
    ScriptedResponse,
    ScriptedToolCall,
    find_last_user_text,
)

_WAIT_SECONDS = 20.0
_BODY_BYTES = 256 * 1024 * 1024
_LARGE_BYTES = 100_000  # its answer is composed off the event loop


class MockUpstream:
    """A model provider on a free loopback port while its `async with` block runs.

    `requests` holds all requests as received, `cancelled` those whose client disconnected before the end of the answer,
    `answered` those whose answer was sent completely. With `key`, a request without it (bearer or `x-api-key`) gets a
    401 in the provider's format. `reply` is the model's answer: a text, or a function of the parsed request that
    returns a text or a `ScriptedToolCall`.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        reply: str | Callable[[dict[str, Any]], str | ScriptedToolCall] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.requests: list[RecordedRequest] = []
        self.cancelled: list[RecordedRequest] = []
        self.answered: list[RecordedRequest] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.base_url = ""
        self._host = host
        self._port = port
        self._key = key
        self._reply = reply
        self._clock = clock or SystemClock()
        self._openai = OpenAIApi()
        self._anthropic = AnthropicApi()
        self._scripts: list[ResponseScript] = []
        self._changed = asyncio.Condition()
        self._closing = False
        self._runner: web.ServerRunner | None = None

    async def __aenter__(self) -> Self:
        """Start to listen, and set `base_url` (without trailing slash or `/v1`)."""
        server = web.Server(self._handle, handler_cancellation=True, auto_decompress=False, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = site.port
        self.base_url = f"http://{self._host}:{site.port}"
        self._closing = False
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and close open connections. A re-entered block keeps the port."""
        self._closing = True
        if self._runner is not None:
            await self._runner.cleanup()

    def next(
        self,
        *,
        times: int = 1,
        text: str | None = None,
        path: str | None = None,
        status: int | None = None,
        body: bytes | str | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        usage: bool = True,
        delay: asyncio.Event | None = None,
        pause_after_chunks: int | None = None,
        resume: asyncio.Event | None = None,
        die_after_chunks: int | None = None,
        garbage: bool = False,
        hang: bool = False,
        reset: bool = False,
    ) -> None:
        """Script the answers of the next `times` requests, with the fields of `ResponseScript`.

        A script waits for a request that fits its `path`; requests without a script get a normal answer.
        """
        raw = orjson.dumps(body) if isinstance(body, Mapping) else body
        script = ResponseScript(
            path=path,
            text=text,
            status=status,
            body=raw.encode() if isinstance(raw, str) else raw,
            headers=dict(headers or {}),
            usage=usage,
            delay=delay,
            pause_after_chunks=pause_after_chunks,
            resume=resume,
            die_after_chunks=die_after_chunks,
            garbage=garbage,
            hang=hang,
            reset=reset,
        )
        self._scripts += [script] * times

    async def wait_for_requests(self, count: int, timeout_seconds: float = _WAIT_SECONDS) -> list[RecordedRequest]:
        """Wait for `count` requests in all, and return them. Raises TimeoutError."""
        return await self._wait_for_count(self.requests, count, timeout_seconds)

    async def wait_for_drops(self, count: int, timeout_seconds: float = _WAIT_SECONDS) -> list[RecordedRequest]:
        """Wait until the clients of `count` requests in all have disconnected; return those. Raises TimeoutError."""
        return await self._wait_for_count(self.cancelled, count, timeout_seconds)

    async def _wait_for_count(
        self, seen: list[RecordedRequest], count: int, timeout_seconds: float
    ) -> list[RecordedRequest]:
        async with asyncio.timeout(timeout_seconds), self._changed:
            await self._changed.wait_for(lambda: len(seen) >= count)
        return list(seen)

    async def _record(self, seen: RecordedRequest, where: list[RecordedRequest]) -> None:
        async with self._changed:
            where.append(seen)
            self._changed.notify_all()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        recorded_request = await self._receive(request)
        try:
            response = await self._respond(request, recorded_request, self._take_script(recorded_request))
        except (asyncio.CancelledError, ConnectionError):
            if not self._closing:
                await asyncio.shield(self._record(recorded_request, self.cancelled))
            raise
        await self._record(recorded_request, self.answered)
        return response

    async def _receive(self, request: web.BaseRequest) -> RecordedRequest:
        body = bytearray()
        async for part in request.content.iter_any():
            body += part
            if len(body) > _BODY_BYTES:
                raise web.HTTPRequestEntityTooLarge(max_size=_BODY_BYTES, actual_size=len(body))
        path, _, query = request.raw_path.partition("?")
        recorded_request = RecordedRequest(
            number=len(self.requests) + 1,
            method=request.method,
            path=path,
            query=query,
            headers=tuple((k.decode("latin-1"), v.decode("latin-1")) for k, v in request.raw_headers),
            body=bytes(body),
            arrived_at=self._clock.now(),
        )
        await self._record(recorded_request, self.requests)
        return recorded_request

    def _take_script(self, seen: RecordedRequest) -> ResponseScript:
        for index, script in enumerate(self._scripts):
            if script.path is None or seen.path.endswith(script.path):
                return self._scripts.pop(index)
        return ResponseScript()

    async def _respond(
        self, request: web.BaseRequest, seen: RecordedRequest, script: ResponseScript
    ) -> web.StreamResponse:
        if script.reset:
            _abort(request, reset=True)
            return web.Response()
        await self.gate.wait()
        if script.delay is not None:
            await script.delay.wait()
        if script.hang:
            await asyncio.Event().wait()
        is_large = len(seen.body) > _LARGE_BYTES
        answer = await asyncio.to_thread(self._answer, seen, script) if is_large else self._answer(seen, script)
        headers = {"content-type": answer.content_type, "x-request-id": f"req_mock{seen.number}"}
        headers |= {name.lower(): value for name, value in script.headers.items()}
        response = web.StreamResponse(status=answer.status, headers=headers)
        if not answer.streamed:
            response.content_length = sum(len(piece) for piece in answer.pieces)
        await response.prepare(request)
        for index in range(len(answer.pieces) + 1):
            if index == script.die_after_chunks:
                _abort(request)
                return response
            if index == script.pause_after_chunks:
                await (script.resume or asyncio.Event()).wait()
            if index < len(answer.pieces):
                await response.write(answer.pieces[index])
        await response.write_eof()
        return response

    def _answer(self, seen: RecordedRequest, script: ResponseScript) -> ScriptedResponse:
        anthropic = seen.path.startswith("/v1/messages") or seen.header("anthropic-version") is not None
        api = self._anthropic if anthropic else self._openai
        try:
            body = seen.json()
        except orjson.JSONDecodeError as error:
            return api.error(400, f"the body is not JSON: {error}")
        if self._key is not None and not self._has_key(seen):
            return api.error(401, "wrong API key")
        if script.status is not None and script.status >= 400 and script.body is None:
            return api.error(script.status, f"scripted error {script.status}")
        answer = api.answer(seen, self._compose_reply(body, script), usage=script.usage)
        return _apply_script(answer, script)

    def _has_key(self, seen: RecordedRequest) -> bool:
        bearer = (seen.header("authorization") or "").partition(" ")[2]
        return self._key in (bearer, *(seen.header(name) for name in ("x-api-key", "api-key", "x-goog-api-key")))

    def _compose_reply(self, asked: dict[str, Any], script: ResponseScript) -> str | ScriptedToolCall:
        if script.text is not None:
            return script.text
        if callable(self._reply):
            return self._reply(asked)
        if self._reply is not None:
            return self._reply
        return find_last_user_text(asked.get("messages") or asked.get("input") or asked.get("prompt") or "")


def _apply_script(answer: ScriptedResponse, script: ResponseScript) -> ScriptedResponse:
    pieces = answer.pieces
    if script.body is not None:
        pieces = (script.body,)
    elif script.garbage:
        pieces = (b"data: {not json\n\n", b"\x00\xff<html>") if answer.streamed else (b"<html>not json \xff",)
    if len(pieces) == 1 and (script.die_after_chunks is not None or script.pause_after_chunks is not None):
        half = len(pieces[0]) // 2
        pieces = (pieces[0][:half], pieces[0][half:])
    return ScriptedResponse(
        status=script.status or answer.status,
        content_type=answer.content_type,
        pieces=pieces,
        streamed=answer.streamed and script.body is None,
    )


def _abort(request: web.BaseRequest, *, reset: bool = False) -> None:
    """Abort the connection; with `reset`, by a TCP reset, as from a crashed or firewalled host."""
    transport = request.transport
    if transport is None:
        return
    if reset:
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def _serve(host: str, port: int, key: str | None, reply: str | None) -> None:
    async with MockUpstream(host=host, port=port, key=key, reply=reply) as up:
        print(up.base_url, flush=True)  # noqa: T201 - the caller reads the address here
        await asyncio.Event().wait()


def main() -> None:
    """Run the mock upstream until it is interrupted; print its base URL first."""
    parser = argparse.ArgumentParser(prog="python -m circadia.testing.upstream", description="Mock model provider")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--key", default=None, help="refuse requests without this API key")
    parser.add_argument("--reply", default=None, help="what the model always says")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.host, options.port, options.key, options.reply))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
