"""Notes that nothing holds up, or that nobody finds, leave the searches, and not by age alone; episodes never do."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import Prompt
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Demotion, Episode
from circadia.records.note import Note, NoteKind
from circadia.records.sleep_pass import Pass
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.engine.operation_threads import CachedBankReader
from circadia.sleeptime.operations.collect import Collect
from circadia.sleeptime.operations.registry import choose_operations
from circadia.sleeptime.proposals.changes import demote
from circadia.sleeptime.proposals.notebook import Notebook
from circadia.sleeptime.proposals.operation import Operation, PageContext
from tests.sleeptime.episode_builders import FRIDAY, EpisodeLookup, note, numbered, page, said
from tests.sleeptime.stand import Stand
from tests.sleeptime.test_looking import ReadCountingStore

AT_ONCE = 25
FEWEST_FOUND = 20
MOST_EPISODES = 300

pytestmark = pytest.mark.spec("SLEEP-25")

T = TypeVar("T", bound=BaseModel)


async def nobody(prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
    """Answer nothing: there is no model."""
    raise AssertionError


async def found(view: PageContext, *, operation: Operation | None = None, unused_days: int = 90) -> Sequence[Change]:
    """Return what is proposed."""
    operation = operation or Collect(unused_days=unused_days)
    return [change for step in operation.plan(view) for change in await operation.propose(step, view, nobody)]


def stale(how: Demotion, episodes: Sequence[Episode]) -> list[Episode]:
    """Return them demoted."""
    return [replace(each, stale=(how,)) for each in episodes]


OVER = Demotion(by="ann", reason="it moved", evidence="epi_8", at=FRIDAY, weight=0.3)
BY_PASS = replace(OVER, by="pass p0", reason="over: Ann lives in Braga", evidence="not_9")
AGAIN = replace(OVER, reason="said again on 2023-05-12", evidence="epi_9")
OLD = numbered([said("I live in Porto.", at=timedelta(days=-3000)), said("Porto has been my home since 2011.")])
NEW = numbered([said("It rains here all day.")], first=9)


async def test_a_note_whose_episodes_hold_stays_however_old_it_is() -> None:
    assert await found(page(NEW, notes=[note("1", "Ann lives in Porto.", OLD)], past=OLD)) == []


@pytest.mark.parametrize(
    ("text", "past", "why"),
    [
        ("Ann lives in Porto.", [], "0 of the 2 episodes that it rests on are left"),
        ("Ann lives in Porto.", OLD[:1], ""),
        ("Ann lives in Porto.", [replace(OLD[0], trust=Trust.TOOL)], "1 of the 2 episodes that it rests on are left"),
        ("Porto.", OLD, "it says nothing"),
        ("Ann lives in Porto.", stale(OVER, OLD), "nothing that it rests on holds any more"),
        ("Ann lives in Porto.", [*stale(OVER, OLD[:1]), OLD[1]], ""),
        ("Ann lives in Porto.", stale(BY_PASS, OLD), ""),
        ("Ann lives in Porto.", stale(AGAIN, OLD), ""),
    ],
)  # fmt: skip
async def test_a_note_that_nothing_holds_up_is_retired_with_why(text: str, past: list[Episode], why: str) -> None:
    changes = await found(page(NEW, notes=[note("1", text, OLD)], past=past))
    assert [(change.target, change.why) for change in changes] == ([("not_1", why)] if why else [])
    assert all(change.kind is ChangeKind.RETIRE_NOTE for change in changes)


async def test_what_a_page_demotes_ends_no_note_since_a_turn_may_say_two_things() -> None:
    view = page(NEW, notes=[note("1", "Ann lives in Porto.", OLD)], past=OLD)
    ends = [demote(view, "contradictions", each.id, evidence="not_9", why="over") for each in OLD]
    assert await found(replace(view, proposed=ends)) == []


async def test_each_page_looks_at_another_part_of_many_notes_and_all_get_their_turn() -> None:
    notes = [note(str(at), "Porto.", OLD) for at in range(1, 4 * AT_ONCE)]
    gone: set[str] = set()
    for number in range(100, 104):
        view = page(numbered([said("It rains.")], first=number), notes=notes, past=OLD)
        part = {change.target for change in await found(view)}
        assert 0 < len(part) <= AT_ONCE
        gone |= part
    assert gone == {each.id for each in notes}


@pytest.mark.spec("SLEEP-02")
async def test_a_full_pass_looks_at_all_notes_in_steps_that_read_not_too_much() -> None:
    notes = [note(str(at), "Porto.", OLD) for at in range(1, 8 * AT_ONCE)]
    view = page((), notes=notes, past=OLD, full=True)
    steps = Collect(unused_days=90).plan(view)
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


async def test_more_than_the_ceiling_waits_for_a_person_and_all_can_be_brought_back(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "Porto is my home.")
    maker = await stand.begun("p0")
    await stand.publish(maker, *(stand.note(f"n{at}", sources, text="Porto.") for at in range(40)))
    await stand.ended(maker)
    notes = await stand.notes()
    run = await stand.begun()
    await stand.publish(run, *await found(page(sources, notes=notes, past=sources)))
    assert [state for state, _ in await stand.changes(run)] == ["published"] * 2 + ["staged"] * (AT_ONCE - 2)
    async with stand.store.begin_write() as tx:
        await stand.publisher.undo(tx, run, stand.bank, by="ann")
    assert len(await stand.notes()) == 40


def after(
    days: float, first: Note, *, others: int = FEWEST_FOUND, used: float = 0, itself: bool = False
) -> PageContext:
    """Return the view of a pass so long after Friday, when agents were given all notes but the first, or that, too."""
    notes = [first, *(note(str(at), "Ann lives in Porto.", OLD) for at in range(100, 100 + others))]
    found = {each.number: FRIDAY + timedelta(days=used) for each in notes[0 if itself else 1 :]}
    there = EpisodeLookup(rows={each.id: each for each in (*OLD, *NEW)}, used=found)
    return replace(page(NEW, notes=notes), now=FRIDAY + timedelta(days=days), look=there)


@pytest.mark.spec("SLEEP-20")
async def test_a_note_that_was_never_found_while_others_were_is_retired_with_why() -> None:
    view = after(120.5, note("1", "Ann lives in Porto.", OLD), others=FEWEST_FOUND + 3, used=1)
    assert [(each.target, each.kind, each.why) for each in await found(view)] == [
        ("not_1", ChangeKind.RETIRE_NOTE, "in 120 days it was never found, while 23 other notes were")
    ]
    assert await found(view, unused_days=0) == [], "it is switched off"
    assert await found(view, unused_days=121) == []


@pytest.mark.spec("SLEEP-20")
@pytest.mark.parametrize(("stated", "gone"), [({}, []), ({"unused_days": 30}, ["not_1"]), ({"unused_days": 0}, [])])
async def test_a_bank_states_after_how_long(stated: dict[str, int], gone: list[str]) -> None:
    (operation,) = choose_operations(SleepPolicySettings.model_validate(stated), False, ("collect",))
    changes = await found(after(40, note("1", "Ann lives in Porto.", OLD)), operation=operation)
    assert [each.target for each in changes] == gone


@pytest.mark.spec("SLEEP-20")
@pytest.mark.parametrize(
    ("days", "keys", "finds"),
    [
        (90, {}, {}),
        (120, {}, {"itself": True}),
        (120, {"returned": True}, {}),
        (120, {"kind": NoteKind.BELIEF}, {}),
        (120, {"kind": NoteKind.SUMMARY}, {}),
        (120, {}, {"others": FEWEST_FOUND - 1}),
        (120, {}, {"used": -0.001}),
    ],
)
async def test_a_note_that_is_young_found_brought_back_or_no_consolidation_or_in_an_idle_bank_stays(
    days: int, keys: dict[str, object], finds: dict[str, Any]
) -> None:
    assert await found(after(days, note("1", "Ann lives in Porto.", OLD, **keys), **finds)) == []


@pytest.mark.spec("SLEEP-20", "SLEEP-43")
@pytest.mark.parametrize(("days", "asks"), [(90, 0), (91, 1)])
async def test_what_agents_were_given_is_read_once_where_a_note_is_old_enough_to_leave_for_it(
    stand: Stand, days: int, asks: int
) -> None:
    sources = await stand.said("I live in Porto.", "Porto is my home.")
    await stand.publish(await stand.begun(), *(stand.note(f"n{at}", sources) for at in range(2 * AT_ONCE)))
    stand.clock.advance(timedelta(days=days, seconds=-1 if days == 90 else 0).total_seconds())
    reads = ReadCountingStore(stand.store)
    look = CachedBankReader(reads, stand.bank, None, sources)  # pyright: ignore[reportArgumentType] # it only reads
    now = stand.clock.now()
    view = replace(page(sources, notes=await stand.notes(), full=True), now=now, look=look)
    assert len(Collect(unused_days=90).plan(view)) > 1
    assert await found(view) == []
    assert reads.reads == asks


@pytest.mark.spec("SLEEP-20", "SLEEP-32")
async def test_a_note_that_was_never_found_and_is_brought_back_is_not_retired_for_that_again(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "Porto is my home.")
    maker = await stand.begun("p0")
    keys = [f"n{at}" for at in range(FEWEST_FOUND + 1)]
    await stand.publish(maker, *(stand.note(key, sources, text="Ann: I live in Porto.") for key in keys))
    await stand.ended(maker)
    book = Notebook()

    async def retired(key: str) -> Pass:
        async with stand.store.begin_read() as tx:
            bank = await tx.banks.get(stand.bank.id)
            assert bank is not None
            notes = await book.fetch_newest(tx, bank)
        run = await stand.begun(key)
        look = CachedBankReader(stand.store, stand.bank, None, sources)
        view = replace(page(sources, notes=notes), now=stand.clock.now(), look=look)
        await stand.publish(run, *await found(view))
        await stand.ended(run)
        return run

    assert await stand.changes(await retired("p1")) == []
    stand.clock.advance(timedelta(days=91).total_seconds())
    async with stand.store.begin_write() as tx:
        numbers = [each.number for each in await tx.notes.find_all(stand.bank.id)]
        await tx.notes.mark_used(stand.bank.id, numbers[1:], stand.clock.now(), before=stand.clock.now())
    run = await retired("p2")
    why = "in 91 days it was never found, while 20 other notes were"
    assert await stand.changes(run) == [("published", why)]
    assert [each.id for each in await stand.notes()] == keys[1:]
    async with stand.store.begin_write() as tx:
        await stand.publisher.undo(tx, run, stand.bank, by="ann")
    assert len(await stand.notes()) == len(keys)
    assert await stand.changes(await retired("p3")) == []
