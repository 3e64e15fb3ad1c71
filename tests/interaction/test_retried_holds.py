"""A held call whose caller breaks off and asks again keeps its place and its time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.clock import ManualClock
from tests.interaction.live import CHAT, Live, live

pytestmark = pytest.mark.spec("GATE-93")

GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
STREAMED = {**CHAT, "stream": True}
OTHER = {**CHAT, "messages": [{"role": "user", "content": "something else"}]}


class Callers:
    """Makes calls in the background."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[bytes]] = []

    def __call__(self, at: Live, token: str, body: object, path: str = "/v1/chat/completions") -> asyncio.Task[bytes]:
        async def read() -> bytes:
            async with at.call(token, path, body) as response:
                return await response.read()

        self._tasks.append(asyncio.create_task(read()))
        return self._tasks[-1]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def server(folder: Path, **options: Any) -> AsyncGenerator[tuple[Live, Callers]]:
    async with live(folder, **options) as at:
        callers = Callers()
        try:
            yield at, callers
        finally:
            await callers.end()


async def break_off(at: Live, asking: "asyncio.Task[bytes]", left: int) -> None:
    """Disconnect a held caller; return when its call is gone."""
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    await at.held(left)


async def hold_events(at: Live) -> list[dict[str, Any]]:
    return [event["data"] for event in await at.events("held")]


async def test_a_call_that_is_asked_again_unstreamed_keeps_its_place_and_its_time_and_has_one_ledger_line(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with server(tmp_path, clock=clock, timings={}) as (at, ask):
        token = await at.agent(on_wake="forward")
        await at.sleeping(True)
        streamed = ask(at, token, STREAMED)
        (first,) = await at.held(1)
        clock.advance(1)
        other = ask(at, token, OTHER)
        await at.held(2)
        clock.advance(300)
        await break_off(at, streamed, left=1)
        clock.advance(59)
        again = ask(at, token, CHAT)
        continued, _ = await at.held(2)
        assert continued["since"] == first["since"]
        assert continued["waited_seconds"] == 360
        assert continued["phase"] == "silent", "its new connection has waited for no time"
        assert [data.get("continues") for data in await hold_events(at)] == [None, None, first["id"]]
        assert (await hold_events(at))[2]["hold"] == continued["id"] != first["id"]
        clock.advance(1)
        await at.sleeping(False)
        assert b"hello" in await again
        await other
        asked = [request.json()["messages"][0]["content"] for request in at.upstream.requests]
        assert asked == ["hello", "something else"], "in the order in which they first came"
        (usage,) = await at.usage()
        assert (usage["calls"], usage["held_seconds"]) == (2, 361 + 360)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("/v1/messages", {**STREAMED, "max_tokens": 99}), ("/v1/messages", {**CHAT, "max_tokens": 99})),
        (
            ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", GEMINI),
            ("/v1beta/models/gemini-2.5-pro:generateContent", GEMINI),
        ),
        (("/v1/responses", {"input": "hello", "stream": True}), ("/v1/responses", {"input": "hello"})),
    ],
    ids=["messages", "gemini", "responses"],
)
async def test_a_retry_is_known_in_each_api(
    tmp_path: Path, before: tuple[str, object], after: tuple[str, object]
) -> None:
    async with server(tmp_path) as (at, ask):
        token = await at.agent()
        await at.sleeping(True)
        asking = ask(at, token, before[1], before[0])
        (first,) = await at.held(1)
        await break_off(at, asking, left=0)
        ask(at, token, after[1], after[0])
        await at.held(1)
        assert [data.get("continues") for data in await hold_events(at)] == [None, first["id"]]


async def test_two_connected_callers_are_two_calls_and_so_are_other_calls(tmp_path: Path) -> None:
    clock = ManualClock()
    async with server(tmp_path, clock=clock, timings={}) as (at, ask):
        tokens = [await at.agent(name) for name in ("ann", "ben")]
        for name in ("ann", "ben"):
            await at.sleeping(True, name)
        asking = ask(at, tokens[0], CHAT)
        (first,) = await at.held(1)
        clock.advance(10)
        ask(at, tokens[0], CHAT)
        both = await at.held(2)
        assert [hold["waited_seconds"] for hold in both] == [10, 0]
        await break_off(at, asking, left=1)
        for number, (token, body, path) in enumerate(
            (
                (tokens[1], CHAT, "/v1/chat/completions"),
                (tokens[0], OTHER, "/v1/chat/completions"),
                (tokens[0], {**CHAT, "model": "gpt-4o"}, "/v1/chat/completions"),
                (tokens[0], {"model": "gpt-4o-mini", "input": "hello"}, "/v1/responses"),
            ),
            start=2,
        ):
            ask(at, token, body, path)
            await at.held(number)
        clock.advance(60)
        ask(at, tokens[0], CHAT)
        await at.held(6)
        assert first["id"] not in [data.get("continues") for data in await hold_events(at)], "and 60 s are over"


async def test_a_mark_is_taken_once_and_by_as_many_as_have_left_one(tmp_path: Path) -> None:
    async with server(tmp_path) as (at, ask):
        token = await at.agent()
        await at.sleeping(True)
        asking = ask(at, token, CHAT)
        (first,) = await at.held(1)
        second = ask(at, token, STREAMED)
        holds = await at.held(2)
        await break_off(at, second, left=1)
        await break_off(at, asking, left=0)
        for number in range(1, 4):
            ask(at, token, CHAT)
            await at.held(number)
        assert [data.get("continues") for data in await hold_events(at)][2:] == [first["id"], holds[1]["id"], None]


async def test_a_mark_takes_no_place_and_holds_no_body(tmp_path: Path) -> None:
    async with server(tmp_path, limits={"max_holds_per_agent": 1, "spill_bytes": 0}) as (at, ask):
        token = await at.agent()
        await at.sleeping(True)
        asking = ask(at, token, CHAT)
        await at.held(1)
        await break_off(at, asking, left=0)
        assert not list(tmp_path.rglob("held-*"))
        ask(at, token, OTHER)
        await at.held(1)


async def test_an_ended_call_leaves_no_mark(tmp_path: Path) -> None:
    async with server(tmp_path, timings={}) as (at, ask):
        token = await at.agent()
        await at.sleeping(True)
        dropped = ask(at, token, CHAT)
        (hold,) = await at.held(1)
        await at.rest("POST", f"/holds/{hold['id']}/drop")
        await dropped
        admitted = ask(at, token, CHAT)
        await at.held(1)
        await at.sleeping(False)
        await admitted
        await at.sleeping(True)
        ask(at, token, CHAT)
        await at.held(1)
        assert [data.get("continues") for data in await hold_events(at)] == [None] * 3


async def test_a_retry_that_comes_after_the_wake_is_told_of_the_sleep_before_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with server(tmp_path, clock=clock, timings={}) as (at, ask):
        token = await at.agent()
        await at.sleeping(True)
        asking = ask(at, token, STREAMED)
        await at.held(1)
        clock.advance(300)
        await break_off(at, asking, left=0)
        await at.sleeping(False)
        await ask(at, token, CHAT)
        await ask(at, token, CHAT)
        said = [request.json()["messages"][-1]["content"] for request in at.upstream.requests]
        assert "You slept 5.0 min" in said[0]
        assert said[1] == "hello"
        (usage,) = await at.usage()
        assert (usage["calls"], usage["held_seconds"]) == (2, 300)


async def test_a_retry_is_held_no_longer_than_the_rest_of_the_longest_hold(tmp_path: Path) -> None:
    clock = ManualClock()
    async with server(tmp_path, clock=clock, timings={}) as (at, ask):
        token = await at.agent(hold_max_seconds=100)
        await at.sleeping(True)
        asking = ask(at, token, STREAMED)
        await at.held(1)
        clock.advance(60)
        await break_off(at, asking, left=0)
        clock.advance(10)
        again = ask(at, token, CHAT)
        await at.held(1)
        clock.advance(31)
        assert b"was held for 100 s" in await again


@pytest.mark.spec("GATE-65", "WAKE-86")
async def test_a_retry_of_a_call_that_waited_for_a_person_only_is_told_of_no_sleep(tmp_path: Path) -> None:
    async with server(tmp_path, timings={}) as (at, ask):
        token = await at.agent(approve_models=["*"])
        asking = ask(at, token, CHAT)
        await at.held(1)
        await break_off(at, asking, left=0)
        again = ask(at, token, CHAT)
        (hold,) = await at.held(1)
        await at.rest("POST", f"/approvals/{hold['approval']}/approve", {})
        await again
        assert [data.get("continues") is None for data in await hold_events(at)] == [True, False]
        (request,) = at.upstream.requests
        assert request.json()["messages"] == CHAT["messages"]
