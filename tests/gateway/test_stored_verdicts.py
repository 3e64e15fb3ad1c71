"""A judge's verdicts outlive the server, and never what they are about (ANS-13), through a whole server."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.records.answer import DropReason
from circadia.records.bank import CaptureMode
from circadia.testing.clock import ManualClock
from tests.gateway.bound_agent import chat
from tests.gateway.readied import ASKED, OTHER, SAID, ReadyAnswerServer, readied

pytestmark = pytest.mark.usefixtures("unhurried")

SIMILAR = "What does Ann like drinking in the morning?"
REWORDED = "Which morning drink is Ann's favourite?"
YES, NO = '{"same": [1]}', '{"same": []}'


async def ask(ann: ReadyAnswerServer, question: str, verdict: str = "") -> tuple[str | None, int]:
    """Return the outcome and how many calls went upstream: to the judge, and to the agent's model."""
    sent = ann.sends
    if verdict:
        ann.at.upstream.next(text=verdict)
    outcome = (await ann.ask(chat(question))).outcome
    await ann.at.server.answers.flush()
    return outcome, ann.sends - sent


def rows(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "circadia.db", timeout=60)) as database:
        return database.execute("SELECT * FROM answer_verdicts").fetchall()


@pytest.mark.spec("ANS-13")
async def test_after_a_restart_a_question_that_was_judged_is_served_without_asking_again(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        assert await ask(ann, REWORDED, YES) == ("hit", 1)
        assert await ask(ann, SIMILAR, NO) == ("hint", 2)
    assert len(rows(tmp_path)) == 2
    assert not any(text in str(rows(tmp_path)) for text in (REWORDED, SIMILAR, ASKED, SAID)), "hashes only"
    async with readied(tmp_path, block="") as ann:
        assert await ask(ann, REWORDED) == ("hit", 0)
        assert await ask(ann, SIMILAR) == ("miss", 1), "only the agent's own model is asked"


@pytest.mark.spec("ANS-13")
@pytest.mark.parametrize(("seconds", "expected"), [(3_500, ("miss", 1)), (3_700, ("hit", 1))])
async def test_a_no_is_kept_for_an_hour(tmp_path: Path, seconds: int, expected: tuple[str, int]) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        assert await ask(ann, SIMILAR, NO) == ("hint", 2)
    later = ManualClock(SystemClock().now() + timedelta(seconds=seconds))
    async with readied(tmp_path, block="", sections={"clock": later}) as ann:
        assert await ask(ann, SIMILAR, YES) == expected


@pytest.mark.spec("ANS-13")
async def test_where_no_question_may_be_kept_a_verdict_is_kept_in_memory_only(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        status, _ = await ann.at.rest("PATCH", "/banks/memory", {"policy": {"capture_mode": CaptureMode.EXPLICIT}})
        assert status == 200
        assert await ask(ann, REWORDED, YES) == ("hit", 1)
        assert await ask(ann, REWORDED) == ("hit", 0)
        assert rows(tmp_path) == []
    async with readied(tmp_path, block="", capture=False) as ann:
        assert await ask(ann, REWORDED) == ("miss", 1)
        assert rows(tmp_path) == []


@pytest.mark.spec("ANS-13")
@pytest.mark.parametrize("how", ["forget", "phrasing", "answer"])
async def test_a_verdict_is_gone_with_what_it_was_about(tmp_path: Path, how: str) -> None:
    async with readied(tmp_path) as ann:
        answer = await ann.put(await ann.frame(chat(OTHER)))
        assert await ask(ann, REWORDED, YES) == ("hit", 1)
        assert len(rows(tmp_path)) == 1
        if how == "forget":
            gone: Mapping[str, object] = {"conversation": "no conversation has this name"}
            status, _ = await ann.at.rest("POST", "/banks/memory/forget", gone)
            assert status == 200
        else:
            async with ann.store.begin_write() as tx:
                if how == "phrasing":
                    await tx.answers.save_phrasings(answer.bank_id, answer.id, ["Who likes tea?"])
                else:
                    await tx.answers.drop(answer.bank_id, [answer.id], DropReason.WRONG, SystemClock().now())
        assert rows(tmp_path) == []
        await ann.put(await ann.frame(chat(OTHER)))
        assert await ask(ann, REWORDED, YES) == ("hit", 1), "the judge is asked again"
