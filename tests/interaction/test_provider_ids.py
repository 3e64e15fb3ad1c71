"""Ids of files, batches, caches, stores and containers: one provider key serves all agents, an id one of them."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.interaction.live import CHAT, Live, live

JSON = {"content-type": "application/json"}
OPENAI = [
    "POST /v1/files", "POST /v1/batches", "GET /v1/batches/{own}", "GET /v1/files/{own}/content",
    "POST /v1/vector_stores/{own}/files",
]  # fmt: skip
GEMINI = ["POST /v1beta/cachedContents", "POST /upload/v1beta/files", "GET /v1beta/files/{own}"]
ASKED = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
GENERATED = {"candidates": [{"content": {"parts": [{"text": "hi"}], "role": "model"}, "finishReason": "STOP"}]}
HELLO: dict[str, Any] = {"role": "user", "content": "hello"}
MESSAGE: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [HELLO]}


async def expect(
    status: int, at: Live, token: str, path: str, body: object, answer: dict[str, Any], *, method: str = "POST",
    upstream: str = "openai",
) -> None:  # fmt: skip
    """Make a call that gets this status: 200 with the provider's answer, or 404 before anything is sent."""
    sent = len(at.upstream.requests)
    if status == 200:
        at.upstream.next(status=200, body=answer, headers=JSON)
    async with at.call(token, path, body, method=method, upstream=upstream) as response:
        assert response.status == status, await response.text()
        await response.read()
    assert len(at.upstream.requests) == sent + (status == 200)


@pytest.mark.spec("GATE-99", "GATE-60")
async def test_the_files_and_batches_of_openai_are_their_makers_alone(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"paths": OPENAI}) as at:
        ann, bob = await at.agent(), await at.agent("bob")
        await expect(200, at, ann, "/v1/files", {"purpose": "batch"}, {"id": "file-in", "object": "file"})
        asked = {"input_file_id": "file-in", "endpoint": "/v1/responses"}
        await expect(404, at, bob, "/v1/batches", asked, {"id": "batch_2"})
        await expect(200, at, ann, "/v1/batches", asked, {"id": "batch_1", "object": "batch"})
        done = {"id": "batch_1", "output_file_id": "file-out", "error_file_id": None}
        await expect(200, at, ann, "/v1/batches/batch_1", None, done, method="GET")
        for token, expected in ((bob, 404), (ann, 200)):
            await expect(expected, at, token, "/v1/files/file-out/content", None, {}, method="GET")


REFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "X"}}]}]}),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "X"}]}]}),
    ("/v1/responses", {"input": "a", "tools": [{"type": "file_search", "vector_store_ids": ["X"]}]}),
    ("/v1/responses", {"input": "a", "tools": [{"type": "code_interpreter", "container": "X"}]}),
    ("/v1/responses", {"input": "a", "tools": [{"type": "code_interpreter", "container": {"file_ids": ["X"]}}]}),
    ("/v1/vector_stores/vs_own/files", {"file_id": "X"}),
]  # fmt: skip


@pytest.mark.spec("GATE-99", "GATE-60")
@pytest.mark.parametrize(("path", "asked"), REFERENCES)
async def test_a_body_refers_to_its_agents_own_ids_only(tmp_path: Path, path: str, asked: dict[str, Any]) -> None:
    async with live(tmp_path, upstream={"paths": OPENAI}) as at:
        ann, bob = await at.agent(), await at.agent("bob")
        for token, made in ((ann, "X"), (bob, "vs_own")):
            await expect(200, at, token, "/v1/files", {}, {"id": made})
        body = {"model": "gpt-4o-mini", **asked}
        made_elsewhere = orjson.loads(orjson.dumps(body).replace(b'"X"', b'"made-in-the-console"'))
        await expect(200, at, bob, path, made_elsewhere, {"id": "r"})
        await expect(404, at, bob, path, body, {"id": "r"})
        hidden = str(asked).replace("'", '"').replace("file_id", "fil\\u0065_id").replace("con", "c\\u006fn")
        await expect(404, at, bob, path, b' {"model":"gpt-4o-mini",' + hidden[1:].encode(), {"id": "r"})
        if "vs_own" not in path:
            await expect(200, at, ann, path, body, {"id": "r"})


@pytest.mark.spec("GATE-99", "GATE-60")
async def test_what_only_looks_like_an_id_is_the_callers_own(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"file_id": {"type": "string"}}, "examples": [{"file_id": "f"}]}
    tools = [{"type": "function", "function": {"name": "open", "parameters": schema}}]
    used = {"type": "tool_use", "id": "t", "name": "open", "input": {"file_id": "my own"}}
    messages = [HELLO, {"role": "assistant", "content": [used]}, HELLO]
    async with live(tmp_path) as at:
        ann = await at.agent()
        async with at.call(ann, body={**CHAT, "tools": tools, "metadata": {"file_id": "x"}}) as response:
            assert response.status == 200
        async with at.call(ann, "/v1/messages", {**MESSAGE, "messages": messages}, upstream="anthropic") as response:
            assert response.status == 200


@pytest.mark.spec("GATE-99", "GATE-60")
async def test_caches_and_files_of_gemini_work_for_their_maker_alone(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"api": "gemini", "paths": GEMINI}) as at:
        ann, bob = await at.agent(), await at.agent("bob")
        await expect(200, at, ann, "/v1beta/cachedContents", ASKED, {"name": "cachedContents/c1"})
        uploaded = {"file": {"name": "files/f1", "uri": "https://host.example/v1beta/files/f1"}}
        await expect(200, at, ann, "/upload/v1beta/files", {"file": {}}, uploaded)
        path = "/v1beta/models/gemini-2.5-pro:generateContent"
        cached = {**ASKED, "cachedContent": "cachedContents/c1"}
        filed = {"contents": [{"parts": [{"fileData": {"fileUri": uploaded["file"]["uri"]}}]}]}
        bucket = {"contents": [{"parts": [{"file_data": {"file_uri": "gs://bucket/files/f1"}}]}]}
        for token, body, expected in (
            (ann, cached, 200), (ann, filed, 200), (bob, cached, 404), (bob, filed, 404), (bob, bucket, 200),
        ):  # fmt: skip
            await expect(expected, at, token, path, body, GENERATED)
        for token, expected in ((ann, 200), (bob, 404)):
            await expect(expected, at, token, "/v1beta/files/f1", None, uploaded["file"], method="GET")


@pytest.mark.spec("GATE-99", "GATE-60")
async def test_files_that_a_tool_of_the_provider_made_belong_to_the_caller(tmp_path: Path) -> None:
    output = {"type": "code_execution_output", "file_id": "file_made"}
    result = {"type": "code_execution_tool_result", "content": {"type": "code_execution_result", "content": [output]}}
    said = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [result]}
    block = {"role": "user", "content": [{"type": "container_upload", "file_id": "file_made"}]}
    note = {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1"}
    ran = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1"}
    message = {"type": "message", "id": "msg", "content": [{"type": "output_text", "text": "a", "annotations": [note]}]}
    async with live(tmp_path) as at:
        ann, bob = await at.agent(), await at.agent("bob")
        await expect(200, at, ann, "/v1/messages", MESSAGE, said, upstream="anthropic")
        made = {"id": "resp_1", "status": "completed", "output": [ran, message]}
        await expect(200, at, ann, "/v1/responses", {"model": "m", "input": "a"}, made)
        tool = {"type": "code_interpreter", "container": "cntr_1"}
        for token, expected in ((bob, 404), (ann, 200)):
            again = {**MESSAGE, "messages": [block]}
            await expect(expected, at, token, "/v1/messages", again, said, upstream="anthropic")
            await expect(expected, at, token, "/v1/responses", {"input": "a", "tools": [tool]}, made)
