"""Gemini's own API, and the compaction and counting of responses, through the model door."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.bound_agent import bound
from tests.interaction.live import KEY, Live, live

MODEL = "gemini-2.5-flash"
AT = f"/v1beta/models/{MODEL}"
TALK = [{"role": "user", "parts": [{"text": "Is the pier open?"}]}]
ASKED: dict[str, Any] = {"contents": TALK, "generationConfig": {"maxOutputTokens": 100}}
SAID: dict[str, Any] = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "It is closed."}]}, "finishReason": "STOP", "index": 0}
    ],
    "usageMetadata": {
        "promptTokenCount": 7, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 2,
        "totalTokenCount": 14,
    },
    "modelVersion": MODEL,
}  # fmt: skip
BEGUN = {"candidates": [{"content": {"role": "model", "parts": [{"text": "It "}]}, "index": 0}], "modelVersion": MODEL}
JSON, EVENTS = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
GOOGLE = {"api": "gemini"}


def stream(*answers: object) -> bytes:
    return b"".join(b"data: %b\r\n\r\n" % json.dumps(answer).encode() for answer in answers)


async def ask(at: Live, token: str, method: str, body: object = ASKED) -> tuple[int, str]:
    """Call a method of the model with the token where Google's SDKs put it."""
    headers = {"authorization": "", "x-goog-api-key": token}
    async with at.call("", f"{AT}:{method}", body, headers=headers) as response:
        return response.status, await response.text()


@pytest.mark.spec("GATE-60", "GATE-64")
@pytest.mark.parametrize(
    ("method", "sent", "kind"),
    [
        ("generateContent", json.dumps(SAID).encode(), JSON),
        ("streamGenerateContent?alt=sse", stream(BEGUN, SAID), EVENTS),
        ("streamGenerateContent", json.dumps([BEGUN, SAID]).encode(), JSON),
    ],
    ids=["whole", "events", "list"],
)
async def test_a_call_of_gemini_passes_with_the_providers_key_and_its_usage_and_price_are_counted(
    tmp_path: Path, method: str, sent: bytes, kind: dict[str, str]
) -> None:
    async with live(tmp_path, upstream=GOOGLE) as at:
        token = await at.agent(models=[MODEL])
        at.upstream.next(body=sent, headers=kind, status=200)
        assert await ask(at, token, method) == (200, sent.decode())
        seen = at.upstream.requests[-1]
        assert (seen.header("x-goog-api-key"), seen.body) == (KEY, json.dumps(ASKED).encode())
        (line,) = await at.usage("model")
        assert (line["key"], line["calls"], line["failed"], line["unknown"], line["unpriced"]) == (MODEL, 1, 0, 0, 0)
        assert [line[f"{name}_tokens"] for name in ("input", "cached", "output", "reasoning")] == [7, 4, 7, 2]


@pytest.mark.spec("GATE-61", "GATE-99", "MEM-15")
async def test_a_script_that_writes_one_content_without_a_list_keeps_its_system_prompt_beside_memory(
    tmp_path: Path,
) -> None:
    async with bound(tmp_path, sections={"upstream": GOOGLE}) as ann:
        await ann.make(block="Ann likes tea.")
        kind = {"parts": {"text": "You are a cat."}}
        asked = {"system_instruction": kind, "contents": {"parts": {"text": "What do I like to drink?"}}}
        for _ in range(2):
            ann.at.upstream.next(body=json.dumps(SAID), headers=JSON, status=200)
            assert (await ask(ann.at, ann.token, "generateContent", asked))[0] == 200
        told, memory = ann.sent["system_instruction"]["parts"]
        assert (told, "Ann likes tea." in memory["text"]) == (kind["parts"], True)
        assert ann.sent["contents"] == asked["contents"], "nothing else is remembered"
        assert await ann.texts() == [("user", "What do I like to drink?"), ("ann", "It is closed.")]


@pytest.mark.spec("GATE-40", "GATE-50", "GATE-65")
@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent?alt=sse"])
async def test_a_call_of_gemini_is_held_and_a_stream_kept_alive_by_empty_lines(tmp_path: Path, method: str) -> None:
    """Google's SDK for Python takes any other line for JSON."""
    async with live(tmp_path, upstream=GOOGLE) as at:
        token = await at.agent()
        await at.sleeping(True)
        streamed = "alt=sse" in method
        at.upstream.next(
            body=stream(SAID) if streamed else json.dumps(SAID), status=200, headers=EVENTS if streamed else JSON
        )
        asking = asyncio.create_task(ask(at, token, method))
        while (await at.held(1))[0]["phase"] != "opened":
            await asyncio.sleep(0.01)
        assert at.upstream.requests == []
        await at.sleeping(False)
        status, text = await asking
        blank = "\n" if streamed else " "
        assert text.startswith(blank)
        assert text.lstrip(blank) == (stream(SAID).decode() if streamed else json.dumps(SAID))
        assert status == 200
        parts = at.upstream.requests[-1].json()["contents"][-1]["parts"]
        assert parts[0] == TALK[0]["parts"][0]
        assert "<circadia-notice>" in parts[1]["text"]


@pytest.mark.spec("GATE-50")
@pytest.mark.parametrize("own", [True, False])
async def test_an_error_in_a_stream_of_gemini_is_what_googles_sdks_take_for_one(tmp_path: Path, own: bool) -> None:
    """js-genai raises for a chunk that is JSON with `error`, and python-genai for a line that begins with it."""
    refused = {"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}
    async with live(tmp_path, upstream={**GOOGLE, "retries": 0}) as at:
        token = await at.agent()
        await at.sleeping(True)
        at.upstream.next(status=429, body=json.dumps(refused), headers=JSON) if own else at.upstream.next(reset=True)
        asking = asyncio.create_task(ask(at, token, "streamGenerateContent?alt=sse"))
        while (await at.held(1))[0]["phase"] != "opened":
            await asyncio.sleep(0.01)
        await at.sleeping(False)
        status, text = await asking
        error = json.loads(text)["error"]
        assert (status, text.lstrip("\n")[:9], text[-1]) == (200, '{"error":', "}")
        assert (error["code"], error["status"]) == ((429, "RESOURCE_EXHAUSTED") if own else (502, "UNAVAILABLE"))
        assert error["message"] == "Quota exceeded" or not own


@pytest.mark.spec("GATE-60", "GATE-63", "GATE-66")
async def test_what_goes_wrong_is_told_in_googles_shape(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={**GOOGLE, "retries": 0}) as at:
        ann = await at.agent(models=["gemini-2.5-pro"])
        bob = await at.agent("bob", max_calls_per_day=0)
        eve = await at.agent("eve")
        at.upstream.next(reset=True)
        cached = {**ASKED, "cachedContent": "cachedContents/of-another"}
        filed = {"contents": [{"parts": [{"fileData": {"fileUri": "https://host.example/v1beta/files/of-another"}}]}]}
        for token, method, body, status, grpc in (
            (eve, "generateContent", ASKED, 502, "UNAVAILABLE"),
            (ann, "generateContent", ASKED, 403, "PERMISSION_DENIED"),
            (ann, "countTokens", ASKED, 403, "PERMISSION_DENIED"),
            (bob, "generateContent", ASKED, 429, "RESOURCE_EXHAUSTED"),
            (eve, "generateContent", {"contents": "hello"}, 400, "INVALID_ARGUMENT"),
            (eve, "generateContent", cached, 404, "NOT_FOUND"),
            (eve, "generateContent", filed, 404, "NOT_FOUND"),
        ):
            got, text = await ask(at, token, method, body)
            error = json.loads(text)["error"]
            assert (got, error["code"], error["status"]) == (status, status, grpc), text
        assert len(at.upstream.requests) == 1


@pytest.mark.spec("GATE-41")
@pytest.mark.parametrize(
    ("path", "body", "counted"),
    [
        (f"{AT}:countTokens", {"contents": TALK}, {"totalTokens": 9}),
        (f"{AT}:countTokens", {"generateContentRequest": {"model": f"models/{MODEL}", **ASKED}}, {"totalTokens": 9}),
        ("/v1/responses/input_tokens", {"model": "gpt-4o-mini", "input": "Is the pier open?"}, {"input_tokens": 9}),
    ],
    ids=["gemini", "gemini, whole request", "responses"],
)
async def test_counts_of_tokens_pass_while_the_agent_sleeps_and_are_no_call_of_a_model(
    tmp_path: Path, path: str, body: object, counted: object
) -> None:
    async with live(tmp_path, upstream=GOOGLE) as at:
        token = await at.agent(max_calls_per_day=0)
        await at.sleeping(True)
        at.upstream.next(body=json.dumps(counted), headers=JSON, status=200)
        async with asyncio.timeout(60), at.call(token, path, body) as response:
            assert (response.status, await response.json()) == (200, counted)
        assert at.upstream.requests[-1].json() == body
        assert await at.usage() == []


@pytest.mark.spec("GATE-40", "GATE-64")
async def test_a_conversation_is_compacted_with_usage_once_its_agent_is_awake_and_what_it_names_is_its_own(
    tmp_path: Path,
) -> None:
    output = [{"id": "cmp_1", "type": "compaction", "encrypted_content": "x"}]
    usage = {"input_tokens": 70, "output_tokens": 5, "total_tokens": 75}
    said = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": output, "usage": usage}
    body = {"model": "gpt-4o-mini", "input": [{"role": "user", "content": "Is the pier open?"}]}
    async with live(tmp_path) as at:
        token = await at.agent(max_calls_per_day=1)
        await at.sleeping(True)
        at.upstream.next(body=json.dumps(said), headers=JSON, status=200)
        asking = asyncio.create_task(_compacted(at, token, body))
        await at.held(1)
        assert at.upstream.requests == []
        await at.sleeping(False)
        assert await asking == (200, said)
        assert at.upstream.requests[-1].json() == body
        (line,) = await at.usage()
        assert [line[name] for name in ("calls", "failed", "input_tokens", "output_tokens")] == [1, 0, 70, 5]
        assert (await _compacted(at, token, body))[0] == 429
        other = await at.agent("bob")
        assert (await _compacted(at, other, {**body, "previous_response_id": "resp_c"}))[0] == 404


async def _compacted(at: Live, token: str, body: object) -> tuple[int, Any]:
    async with at.call(token, "/v1/responses/compact", body) as response:
        return response.status, json.loads(await response.read())


@pytest.mark.spec("GATE-99", "MEM-13", "MEM-14")
@pytest.mark.parametrize(
    ("method", "sent", "kind"),
    [
        ("generateContent", json.dumps(SAID).encode(), JSON),
        ("streamGenerateContent?alt=sse", stream(BEGUN, SAID), EVENTS),
        ("streamGenerateContent", json.dumps([BEGUN, SAID]).encode(), JSON),
    ],
    ids=["whole", "events", "list"],
)
@pytest.mark.parametrize("system", [None, "systemInstruction", "system_instruction"])
async def test_calls_of_gemini_get_context_and_are_remembered(
    tmp_path: Path, method: str, sent: bytes, kind: dict[str, str], system: str | None
) -> None:
    async with bound(tmp_path, sections={"upstream": GOOGLE}) as ann:
        await ann.make(block="Ann is at the harbour.")
        ann.at.upstream.next(body=sent, headers=kind, status=200)
        lead: dict[str, Any] = {} if system is None else {system: {"parts": [{"text": "Be brief."}]}}
        assert (await ask(ann.at, ann.token, method, {**lead, **ASKED}))[0] == 200
        instruction = ann.sent.pop(system or "systemInstruction")
        *own, added = instruction["parts"]
        assert own == ([] if system is None else lead[system]["parts"])
        assert "Ann is at the harbour." in added["text"]
        assert {key: value for key, value in ann.sent.items() if key not in (system, "systemInstruction")} == ASKED
        answer = "It is closed." if method == "generateContent" else "It It is closed."
        assert await ann.texts() == [("user", "Is the pier open?"), ("ann", answer)]


@pytest.mark.spec("GATE-99", "MEM-15")
async def test_what_fits_a_question_to_gemini_stays_while_the_model_works_on_it_with_tools(tmp_path: Path) -> None:
    async with bound(tmp_path, sections={"upstream": GOOGLE}) as ann:
        await ann.make()
        told = {"text": "The pier closes in winter, in November."}
        assert (await ann.at.rest("POST", "/banks/memory/episodes", told))[0] == 201
        call = {"functionCall": {"name": "read_sign", "args": {"pier": 3}}}
        result = {"functionResponse": {"name": "read_sign", "response": {"closed": True, "since": 1700000000}}}
        called = {"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}]}
        loop = [*TALK, {"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
        turns: list[Any] = []
        for contents, said in ((TALK, called), (loop, SAID)):
            ann.at.upstream.next(body=json.dumps(said), headers=JSON, status=200)
            assert (await ask(ann.at, ann.token, "generateContent", {**ASKED, "contents": contents}))[0] == 200
            turns.append(ann.sent["contents"])
        assert turns[0][0]["parts"][0] == TALK[0]["parts"][0]
        assert "The pier closes in winter" in turns[0][0]["parts"][1]["text"]
        assert turns[1] == [turns[0][0], *loop[1:]]
        assert [each["calls"] for each in await ann.at.usage("conversation")] == [2]
        texts = [text for _, text in await ann.texts()]
        assert texts == [told["text"], "Is the pier open?", "It is closed."]
