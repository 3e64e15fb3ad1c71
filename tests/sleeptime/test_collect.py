"""Notes that nothing holds up leave the searches, by what they rest on and not by age; episodes never do."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from pydantic import BaseModel

from circadia.llm.mind import Prompt
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode, Stale
from circadia.sleeptime.operation import View
from circadia.sleeptime.operations.collect import AT_ONCE, MOST_EPISODES, Collect
from circadia.sleeptime.propose import demote
from tests.sleeptime.stand import Stand
from tests.sleeptime.told import FRIDAY, note, numbered, page, said

pytestmark = pytest.mark.spec("SLEEP-25")

T = TypeVar("T", bound=BaseModel)


async def nobody(prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
    """Answer nothing: there is no model."""
    raise AssertionError


async def found(view: View) -> Sequence[Change]:
    """Return what is proposed."""
    operation = Collect()
    return [change for step in operation.plan(view) for change in await operation.propose(step, view, nobody)]


def stale(how: Stale, episodes: Sequence[Episode]) -> list[Episode]:
    """Return them demoted."""
    return [replace(each, stale=(how,)) for each in episodes]


OVER = Stale(by="pass p0", reason="over: Ann lives in Braga", evidence="not_9", at=FRIDAY, weight=0.3)
AGAIN = replace(OVER, reason="said again on 2023-05-12", evidence="epi_9")
OLD = numbered([said("I live in Porto.", at=timedelta(days=-3000)), said("Porto has been my home since 2011.")])
NEW = numbered([said("It rains here all day.")], first=9)


async def test_a_note_whose_episodes_hold_stays_however_old_it_is() -> None:
    assert await found(page(NEW, notes=[note("1", "Ann lives in Porto.", OLD)], past=OLD)) == []


@pytest.mark.parametrize(
    ("text", "past", "why"),
    [
        ("Ann lives in Porto.", [], "0 of the 2 episodes that it rests on are left"),
        ("Ann lives in Porto.", OLD[:1], "1 of the 2 episodes that it rests on are left"),
        ("Ann lives in Porto with Zack.", OLD, "ungrounded: 'Zack' is in no source"),
        ("Porto.", OLD, "it says nothing"),
        ("Ann lives in Porto.", stale(OVER, OLD), "nothing that it rests on holds any more"),
        ("Ann lives in Porto.", [*stale(OVER, OLD[:1]), OLD[1]], ""),
        ("Ann lives in Porto.", stale(AGAIN, OLD), ""),
    ],
)  # fmt: skip
async def test_a_note_that_nothing_holds_up_is_retired_with_why(text: str, past: list[Episode], why: str) -> None:
    changes = await found(page(NEW, notes=[note("1", text, OLD)], past=past))
    assert [(change.target, change.why) for change in changes] == ([("not_1", why)] if why else [])
    assert all(change.kind is ChangeKind.RETIRE_NOTE for change in changes)


async def test_what_a_page_ends_is_looked_at_with_it() -> None:
    view = page(NEW, notes=[note("1", "Ann lives in Porto.", OLD)], past=OLD)
    ends = [demote(view, "contradictions", each.id, evidence="not_9", why="over") for each in OLD]
    assert [change.target for change in await found(replace(view, proposed=ends))] == ["not_1"]
    again = [demote(view, "dedupe", each.id, evidence="epi_9", why="said again") for each in OLD]
    assert await found(replace(view, proposed=again)) == []


async def test_each_page_looks_at_another_part_of_many_notes_and_all_get_their_turn() -> None:
    notes = [note(str(at), "Ann lives in Porto with Zack.", OLD) for at in range(1, 4 * AT_ONCE)]
    gone: set[str] = set()
    for number in range(100, 104):
        view = page(numbered([said("It rains.")], first=number), notes=notes, past=OLD)
        part = {change.target for change in await found(view)}
        assert 0 < len(part) <= AT_ONCE
        gone |= part
    assert gone == {each.id for each in notes}


@pytest.mark.spec("SLEEP-02")
async def test_a_full_pass_looks_at_all_notes_in_steps_that_read_not_too_much() -> None:
    notes = [note(str(at), "Ann lives in Porto with Zack.", OLD) for at in range(1, 8 * AT_ONCE)]
    view = page((), notes=notes, past=OLD, full=True)
    steps = Collect().plan(view)
    assert max(sum(len(each.evidence) for each in step.notes) for step in steps) <= MOST_EPISODES
    assert {change.target for change in await found(view)} == {each.id for each in notes}
    assert len(await found(page((), notes=notes, past=OLD))) == AT_ONCE


@pytest.mark.spec("SLEEP-02")
async def test_what_others_have_demoted_since_the_last_pass_is_looked_at_whatever_the_page() -> None:
    others = [note(str(at), "Ann lives in Porto.", OLD) for at in range(2, 4 * AT_ONCE)]
    gone = numbered([said("I live in Braga."), said("Braga is my home.")], first=50)
    notes = [*others, note("999", "Ann lives in Braga.", gone)]
    past = [*OLD, *stale(OVER, gone)]
    assert await found(page((), notes=notes, past=past)) == []
    changes = await found(page((), notes=notes, past=past, stale=frozenset(each.id for each in gone)))
    assert [change.target for change in changes] == ["not_999"]


async def test_more_than_the_ceiling_waits_for_a_person_and_all_can_be_brought_back(tmp_path: Path) -> None:
    stand = await Stand.made(tmp_path)
    sources = await stand.said("I live in Porto.", "Porto is my home.")
    maker = await stand.begun("p0")
    await stand.publish(maker, *(stand.note(f"n{at}", sources, text="Zack lives in Porto.") for at in range(40)))
    await stand.ended(maker)
    notes = await stand.notes()
    run = await stand.begun()
    await stand.publish(run, *await found(page(sources, notes=notes, past=sources)))
    assert [state for state, _ in await stand.changes(run)] == ["published"] * 2 + ["staged"] * (AT_ONCE - 2)
    async with stand.store.write() as tx:
        await stand.publisher.undo(tx, run, stand.bank, by="ann")
    assert len(await stand.notes()) == 40
    await stand.store.close()
