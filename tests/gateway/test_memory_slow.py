"""Calls whose memory takes too long: none waits for it beyond its time, and nothing false is served meanwhile."""

import asyncio
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from circadia.gateway.answers.serving import AnswerResolver
from circadia.gateway.memory.call_memory import ExchangeQueue
from circadia.memory.capture.recorder import ExchangeRecorder
from circadia.memory.search.retrieval import Retrieval
from tests.fixtures.leap import Leap
from tests.gateway.bound_agent import bound, chat
from tests.gateway.conftest import PATIENT_SECONDS
from tests.gateway.readied import ASKED, OTHER, readied
from tests.gateway.tool_loops import breaks

pytestmark = pytest.mark.usefixtures("unhurried")


class BlockedMethod:
    """Holds all who call a method, from now on, until it is free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> None:
        self.reached = asyncio.Event()
        self.free = asyncio.Event()
        real = getattr(owner, method)

        async def waits(*args: Any, **options: Any) -> Any:
            self.reached.set()
            await self.free.wait()
            return await real(*args, **options)

        monkeypatch.setattr(owner, method, waits)


@pytest.mark.spec("MEM-08", "MEM-13", "MEM-37")
async def test_a_call_goes_without_a_context_that_takes_too_long_and_the_next_one_has_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leap: Leap
) -> None:
    async with bound(tmp_path) as ann:
        await ann.make(block="She likes green tea.")
        stuck = BlockedMethod(monkeypatch, Retrieval, "_keep_up")
        call = asyncio.create_task(ann.say(chat("What do I like?")))
        await stuck.reached.wait()
        leap(PATIENT_SECONDS)
        await call
        assert "green tea" not in json.dumps(ann.sent)
        stuck.free.set()
        ann.at.upstream.next(text="Tea.")
        await ann.say(chat("And what do I like now?"))
        assert "green tea" in json.dumps(ann.sent)
        assert await breaks(ann) == {}
        stuck = BlockedMethod(monkeypatch, Retrieval, "_keep_up")
        call = asyncio.create_task(ann.say(chat("And what do I like now?", "Tea.", "Well?")))
        await stuck.reached.wait()
        leap(PATIENT_SECONDS)
        await call
        assert await breaks(ann) == {"lookup": (1, len(ann.at.upstream.requests[-1].body))}
        stuck.free.set()


@pytest.mark.spec("ANS-05")
async def test_nothing_is_served_while_what_was_said_before_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leap: Leap
) -> None:
    async with readied(tmp_path) as ann:
        frame = await ann.frame(chat(OTHER))
        await ann.put(frame)
        writing = BlockedMethod(monkeypatch, ExchangeRecorder, "keep")
        await ann.ask(chat("Where does the ladder hang?"), waits=False)
        await writing.reached.wait()
        settling = BlockedMethod(monkeypatch, ExchangeQueue, "flush")
        sent = ann.sends
        call = asyncio.create_task(ann.ask(chat(ASKED), waits=False))
        await settling.reached.wait()
        leap(PATIENT_SECONDS)
        assert (await call).outcome == "hint"
        assert ann.sends == sent + 1
        writing.free.set()
        settling.free.set()
        await ann.at.server.exchanges.flush()
        await ann.put(frame)  # what was answered in between may have voided the other
        assert (await ann.ask(chat(ASKED))).outcome == "hit"


@pytest.mark.spec("ANS-02", "ANS-05")
async def test_a_checked_answer_that_cannot_be_looked_at_again_in_time_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leap: Leap
) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        checks = BlockedMethod(monkeypatch, AnswerResolver, "says_same")
        ann.at.upstream.next(text='{"same": [1]}')
        call = asyncio.create_task(ann.ask(chat("What does Ann like drinking in the morning?")))
        await checks.reached.wait()
        again = BlockedMethod(monkeypatch, AnswerResolver, "look_up")
        checks.free.set()
        await again.reached.wait()
        leap(PATIENT_SECONDS)
        got = await call
        assert (got.status, got.outcome) == (200, "hint")


@pytest.mark.spec("MEM-14", "GATE-64")
async def test_what_is_said_in_a_crowd_of_calls_is_written_within_a_few_turns_of_a_busy_event_loop(
    tmp_path: Path,
) -> None:
    """A yield after each step of the work would cost 100 calls some 500 turns, and each turn is another's work."""
    async with bound(tmp_path) as ann:
        exchanges, loop = ann.at.server.exchanges, asyncio.get_running_loop()
        turns = 0

        def another() -> None:
            nonlocal turns
            turns += 1
            ends = perf_counter() + 0.01
            while perf_counter() < ends:
                pass
            if turns > 0:
                loop.call_soon(another)

        await asyncio.gather(*(ann.at.called(ann.token, chat(f"Pier {each} has a red boat.")) for each in range(4)))
        await exchanges.flush()
        another()
        await asyncio.gather(*(ann.at.called(ann.token, chat(f"Pier {each} has a blue boat.")) for each in range(100)))
        turns = 1
        while exchanges.finished_count < exchanges.taken:
            await asyncio.sleep(0)
        needed, turns = turns, -2
        assert needed < 300
        assert len(await ann.episodes()) == 100, "all that a page shows"
