"""Streamed answers whose caller's connection broke: the rest is fetched, and no model is called again (WAKE-85)."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk

from circadia.client import Client
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, CHAT, Live, live
from tests.interaction.test_launched_agents import BOB, end, hooked, started
from tests.interaction.test_wakes import PulseReceiver, until

pytestmark = pytest.mark.spec("WAKE-85")

TEXT = "one two three four five six"
ASKED = {**CHAT, "stream": True}
KEEP: Mapping[str, Any] = {"resume_seconds": 60.0}


@pytest.fixture(params=["sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    if request.param == "sqlite":
        return {}
    return {"server": {"database_url": request.getfixturevalue("postgres_url")}}


async def read_some(at: Live, token: str, events: int, **given: Any) -> tuple[str, bytes]:
    """Break the connection after so many events; return the id of the call and what was read."""
    async with at.call(token, body=ASKED, **given) as response:
        assert response.status == 200
        read = b""
        while read.count(b"data: ") < events:
            read += await response.content.readuntil(b"\n\n")
        response.close()
        return response.headers["x-circadia-call"], read


async def rest(at: Live, token: str, call: str, after: int = 0) -> tuple[int, bytes]:
    headers = {"authorization": f"Bearer {token}"}
    url = f"{at.url}/api/v1/calls/{call}/answer?after={after}"
    async with at.http.get(url, headers=headers) as response:
        return response.status, await response.read()


def words(stream: bytes) -> str:
    chunks = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: {")]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])


async def test_the_rest_of_a_broken_stream_is_fetched_by_its_own_token_without_a_second_call(
    tmp_path: Path, sections: Mapping[str, Any]
) -> None:
    async with live(tmp_path, **sections) as at:
        token, other = await at.agent(**KEEP), await at.agent("bob", **KEEP)
        resume = asyncio.Event()
        at.upstream.next(text=TEXT, pause_after_chunks=3, resume=resume)
        call, first = await read_some(at, token, 3)
        assert (await rest(at, other, call))[0] == 403
        async with at.http.get(f"{at.url}/api/v1/calls/{call}/answer") as response:
            assert response.status == 401
        assert (await at.rest("GET", f"/calls/{call}/answer"))[0] == 403, "an operator did not make the call"
        assert (await rest(at, token, "call_of_nobody"))[0] == 404
        pending = asyncio.create_task(rest(at, token, call, after=3))
        await asyncio.sleep(0)
        resume.set()
        status, second = await pending
        assert status == 200
        assert words(first + second) == TEXT
        assert second.endswith(b"data: [DONE]\n\n")
        assert (await rest(at, token, call, after=2))[1].endswith(second), "it can break again"
        assert words((await rest(at, token, call))[1]) == TEXT
        assert len(at.upstream.requests) == 1
        assert at.upstream.cancelled == []
        events = [event["data"] for event in await at.events("resumed")]
        assert {event["call"] for event in events} == {call}
        assert events[0]["after"] == 3
        (usage,) = await at.usage()
        assert (usage["calls"], usage["failed"], usage["unknown"]) == (1, 0, 0)


async def test_without_the_setting_a_broken_connection_ends_the_call_as_ever(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        at.upstream.next(text=TEXT, pause_after_chunks=2)
        async with at.call(token, body=ASKED) as response:
            assert "x-circadia-call" not in response.headers
            await response.content.readuntil(b"\n\n")
            response.close()
        await at.upstream.wait_for_drops(1)


@pytest.mark.setting("defaults.resume_seconds")
async def test_what_nobody_fetches_in_time_ends_at_the_provider_and_is_forgotten(tmp_path: Path) -> None:
    clock = LeapClock()
    async with live(tmp_path, clock=clock, defaults={"resume_seconds": 100.0}) as at:
        token = await at.agent()
        at.upstream.next(text=TEXT, pause_after_chunks=3)
        call, _ = await read_some(at, token, 2)
        await until_kept(at, 1)
        clock.leap(50)
        await asyncio.sleep(0.2)
        assert at.upstream.cancelled == []
        clock.leap(60)
        await at.upstream.wait_for_drops(1)
        assert (await rest(at, token, call))[0] == 404
        async with at.call(token, body=ASKED) as response:
            done = response.headers["x-circadia-call"]
            await response.read()
        assert words((await rest(at, token, done))[1]) == "hello"
        clock.leap(110)
        await until_kept(at, 0)
        assert (await rest(at, token, done))[0] == 404


async def until_kept(at: Live, count: int) -> None:
    async with asyncio.timeout(60):
        while f"circadia_resumable_answers {count:.1f}" not in await metrics(at):
            await asyncio.sleep(0.01)


async def metrics(at: Live) -> str:
    async with at.http.get(f"{at.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as it:
        return await it.text()


@pytest.mark.setting("limits.max_resume_bytes")
async def test_answers_are_kept_within_a_number_of_bytes_and_a_too_large_one_goes_on_without(tmp_path: Path) -> None:
    async with live(tmp_path, limits={"max_resume_bytes": 4_000}) as at:
        token = await at.agent(**KEEP)
        calls: list[str] = []
        for _ in range(4):
            at.upstream.next(text="word " * 5)
            async with at.call(token, body=ASKED) as response:
                calls.append(response.headers["x-circadia-call"])
                await response.read()
        kept = [(await rest(at, token, call))[0] for call in calls]
        assert kept == sorted(kept, reverse=True)
        assert (kept[0], kept[-1]) == (404, 200)
        at.upstream.next(text="word " * 100)
        async with at.call(token, body=ASKED) as response:
            large = response.headers["x-circadia-call"]
            assert words(await response.read()).split() == ["word"] * 100
        assert (await rest(at, token, large))[0] == 404


async def test_a_stream_that_breaks_off_at_the_provider_ends_with_its_error_for_who_resumes_it(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(**KEEP)
        resume = asyncio.Event()
        at.upstream.next(text=TEXT, pause_after_chunks=3, resume=resume, die_after_chunks=4)
        call, _ = await read_some(at, token, 2)
        pending = asyncio.create_task(rest(at, token, call, after=2))
        resume.set()
        status, answer = await pending
        assert (status, b'"error"' in answer) == (200, True)


async def test_a_held_call_that_opened_its_stream_is_resumed_and_one_cut_while_held_is_gone(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(on_wake="forward", **KEEP)
        await at.sleeping(True)
        async with at.call(token, body=ASKED) as response:
            await response.content.readuntil(b"\n\n")
            response.close()
        await at.held(0)
        resume = asyncio.Event()
        at.upstream.next(text=TEXT, pause_after_chunks=3, resume=resume)
        async with at.call(token, body=ASKED) as response:
            assert await response.content.readuntil(b"\n\n") == b": keep-alive\n\n"
            await at.sleeping(False)
            while b"data: " not in await response.content.readuntil(b"\n\n"):
                pass
            response.close()
            call = response.headers["x-circadia-call"]
        await until_kept(at, 1)
        resume.set()
        status, answer = await rest(at, token, call)
        assert (status, words(answer)) == (200, TEXT)
        assert len(at.upstream.requests) == 1


async def test_official_sdks_and_the_client_read_the_rest_with_their_own_parsers(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(**KEEP)

        async with openai.AsyncOpenAI(base_url=f"{at.url}/llm/openai/v1", api_key=token) as sdk:
            at.upstream.next(text=TEXT)
            stream = await sdk.chat.completions.create(
                model="gpt-4o-mini", messages=[{"role": "user", "content": "hello"}], stream=True
            )
            call, read = stream.response.headers["x-circadia-call"], [await anext(stream) for _ in range(3)]
            await stream.close()
            again = await sdk.get(
                f"{at.url}/api/v1/calls/{call}/answer?after={len(read)}",
                cast_to=ChatCompletionChunk, stream=True, stream_cls=openai.AsyncStream[ChatCompletionChunk],
            )  # fmt: skip
            read += [chunk async for chunk in again]
            assert "".join(chunk.choices[0].delta.content or "" for chunk in read if chunk.choices) == TEXT
        async with Client(at.url, token) as client:
            assert words(b"".join([chunk async for chunk in client.resume_answer(call)])) == TEXT

        async with anthropic.AsyncAnthropic(base_url=f"{at.url}/llm/anthropic", api_key=token) as sdk:
            at.upstream.next(text=TEXT)
            parts = await sdk.messages.create(
                model="claude", max_tokens=99, messages=[{"role": "user", "content": "hello"}], stream=True
            )
            call, seen = parts.response.headers["x-circadia-call"], [await anext(parts) for _ in range(3)]
            await parts.close()
            more: Any = await sdk.get(
                f"{at.url}/api/v1/calls/{call}/answer?after={len(seen)}",
                cast_to=RawMessageStreamEvent, stream=True, stream_cls=anthropic.AsyncStream[RawMessageStreamEvent],
            )  # fmt: skip
            seen += [part async for part in more]
            assert (
                "".join(
                    part.delta.text
                    for part in seen
                    if part.type == "content_block_delta" and part.delta.type == "text_delta"
                )
                == TEXT
            )
        assert len(at.upstream.requests) == 2


async def test_a_stop_of_the_server_ends_what_nobody_reads(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(**KEEP)
        at.upstream.next(text=TEXT, pause_after_chunks=3)
        await read_some(at, token, 2)
        await until_kept(at, 1)
    assert len(at.upstream.cancelled) == 1


async def test_the_header_has_the_id_of_the_call_in_the_ledger_also_if_it_had_to_wait_again(
    tmp_path: Path, sections: Mapping[str, Any]
) -> None:
    async with live(tmp_path, **sections) as at:
        token = await at.agent(**KEEP, max_calls_per_day=2, approve_models=["*"])
        calls = [asyncio.create_task(read_all(at, token)) for _ in range(2)]
        for _ in calls:  # one approval is for one of two equal calls, and the other one is held again
            await approve_next(at)
        ids = {await call for call in calls}
        assert len(ids) == 2
        async with at.call(token, body=ASKED) as response:
            assert response.status == 429, "both count"
        await at.server.journal.flush()
        ledger = (await at.rest("GET", "/calls"))[1]["calls"]
        assert {(each["id"], each["status"]) for each in ledger} == {(call, "done") for call in ids}
        for call in ids:
            assert (await at.rest("GET", f"/calls/{call}"))[1]["streamed"]


async def read_all(at: Live, token: str) -> str:
    async with at.call(token, body=ASKED) as response:
        await response.read()
        return response.headers["x-circadia-call"]


async def approve_next(at: Live) -> None:
    async with asyncio.timeout(60):
        while not (waiting := (await at.rest("GET", "/approvals?status=pending"))[1]["approvals"]):
            await asyncio.sleep(0.02)
    assert (await at.rest("POST", f"/approvals/{waiting[0]['id']}/approve"))[0] == 200


async def test_the_token_of_a_pulse_and_that_of_its_agent_are_two(tmp_path: Path) -> None:
    bob = {"bob": {**BOB["bob"], "resume_seconds": 60.0}}
    async with PulseReceiver().open() as program, live(tmp_path, agents=bob, **hooked(program)) as at:
        status, _ = await at.rest("POST", "/wakes", {"to": "bob", "message": "go", "reason": "blocker"})
        assert status == 201
        run = await started(program)
        await until(at, run["pulse"], "running")
        at.upstream.next(text=TEXT)
        call, _ = await read_some(at, run["token"], 2)
        assert words((await rest(at, run["token"], call))[1]) == TEXT
        assert (await rest(at, "cdt_bob_of_the_tests", call))[0] == 403
        await end(at, run)
        assert (await rest(at, run["token"], call))[0] == 401, "the pulse is over"


async def test_another_server_answers_that_it_has_none(tmp_path: Path, postgres_url: str) -> None:
    shared: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with live(tmp_path / "a", **shared) as here, live(tmp_path / "b", **shared) as there:
        token = await here.agent(**KEEP)
        here.upstream.next(text=TEXT)
        call, _ = await read_some(here, token, 2)
        status, answer = await rest(there, token, call)
        assert (status, b"another server" in answer) == (404, True)
        assert words((await rest(here, token, call))[1]) == TEXT
