"""From a call through the whole server to a note that a pass retires, since no call was given it (SLEEP-20)."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.ids import NoteId
from circadia.memory.search.terms import stored_terms
from circadia.records.bank import Trust
from circadia.records.note import Note, NoteKind
from tests.fixtures.ahead import OffsetClock
from tests.gateway.bound_agent import BoundAgentServer, bound, chat, fenced

FEWEST_FOUND = 20

BY_HAND: dict[str, Any] = {"when": "manual", "model": "none", "unused_days": 30}
TREES = [f"{begin}{end}" for begin in ("Bram", "Cox", "Dun", "Egre") for end in ("ley", "wick", "mont", "holm", "by")]
FORGOTTEN = "Zwilling"


@pytest.fixture
def clock(ahead: type[OffsetClock], monkeypatch: pytest.MonkeyPatch) -> type[OffsetClock]:
    """Return the clock of the test's servers, which mark at once what calls were given."""
    monkeypatch.setattr("circadia.sleeptime.budget.savings.EVERY_SECONDS", 0.05)
    return ahead


async def noted(ann: BoundAgentServer, name: str) -> None:
    """Put what was said of a tree, and a note of it, into the bank."""
    for text in (f"My pear tree {name} bears well.", f"The pear tree {name} is old."):
        assert (await ann.at.rest("POST", "/banks/memory/episodes", {"text": text}))[0] == 201
    sources, text = (await ann.episodes())[-2:], f"The pear tree {name} is old, and bears well."
    async with ann.store.begin_write() as tx:
        note = Note(
            id=NoteId(f"not_{name}"), number=0, bank_id=sources[0].bank_id, kind=NoteKind.CONSOLIDATION, text=text,
            evidence=tuple(each.id for each in sources), trust=Trust.PERSON, at=sources[-1].at,
            created_at=SystemClock().now(), terms=stored_terms(text),
        )  # fmt: skip
        await tx.notes.add(note)


async def given(ann: BoundAgentServer) -> set[str]:
    """Return the notes of which it is marked that a call was given them."""
    bank = await ann.bank()
    assert bank is not None
    async with ann.store.begin_read() as tx:
        return {each.id for each in await tx.notes.find_all(bank.id) if each.used_at is not None}


@pytest.mark.setting("sleeptime.unused_days", "memory.embedder.none.kind")
@pytest.mark.spec("SLEEP-20")
async def test_a_pass_retires_the_note_that_no_call_was_given_while_it_was_given_others(
    tmp_path: Path, clock: type[OffsetClock]
) -> None:
    assert len(TREES) == FEWEST_FOUND
    sections = {"sleeptime": BY_HAND, "memory": {"embedder": {"kind": "none"}}}  # by words alone
    async with bound(tmp_path, capture=False, sections=sections) as ann:
        assert (await ann.at.rest("POST", "/banks", {"name": "memory"}))[0] == 201
        for name in (*TREES, FORGOTTEN):
            await noted(ann, name)
        for name in TREES:
            await ann.say(chat(f"Whose is {name}?"))
            assert f"pear tree {name} is old, and" in fenced(ann.sent)
            assert FORGOTTEN not in fenced(ann.sent)
        async with asyncio.timeout(60):
            while len(await given(ann)) < FEWEST_FOUND:
                await asyncio.sleep(0.05)  # it is marked behind the calls, which tells nobody here
        assert await given(ann) == {f"not_{name}" for name in TREES}

        async def retired() -> list[tuple[str, str, str]]:
            asked = {"operations": ["collect"], "full": True, "wait_seconds": 60}
            status, run = await ann.at.rest("POST", "/banks/memory/passes", asked)
            assert (status, run.get("ended_at") is not None) == (202, True), run
            changes = (await ann.at.rest("GET", f"/passes/{run['id']}/changes"))[1]["changes"]
            return [(each["kind"], each["target"], each["why"]) for each in changes]

        clock.by = timedelta(days=29)
        assert await retired() == []
        clock.by = timedelta(days=31)
        why = f"in 31 days it was never found, while {FEWEST_FOUND} other notes were"
        assert await retired() == [("retire_note", f"not_{FORGOTTEN}", why)]
        await ann.say(chat(f"Whose is {FORGOTTEN}?"))
        said = fenced(ann.sent)
        assert f"The pear tree {FORGOTTEN} is old." in said, "what it rests on stays"
        assert f"{FORGOTTEN} is old, and" not in said
