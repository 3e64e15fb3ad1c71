"""Of what says the same one stays, and nothing that differs in meaning is taken for the same."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import Prompt
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Demotion, Episode
from circadia.records.note import NoteKind
from circadia.sleeptime.operations.consolidate import Consolidate
from circadia.sleeptime.operations.dedupe import Dedupe
from circadia.sleeptime.proposals.changes import add_note
from circadia.sleeptime.proposals.operation import PageContext
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.testing.rule_based_model import parse_rows
from tests.sleeptime.episode_builders import FRIDAY, note, numbered, page, said
from tests.sleeptime.night import Night, answering, writing
from tests.sleeptime.stand import Stand

pytestmark = pytest.mark.spec("SLEEP-20", "SLEEP-29")

T = TypeVar("T", bound=BaseModel)


async def nobody(prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
    """Answer nothing: there is no model."""
    raise AssertionError


async def found(view: PageContext) -> Sequence[Change]:
    """Return what is proposed."""
    operation = Dedupe()
    return [change for step in operation.plan(view) for change in await operation.propose(step, view, nobody)]


async def retired(first: str, second: str, *, more: bool = True, **values: Any) -> list[str]:
    """Return which of two notes goes; the second is new, and rests on more than the first or on as much."""
    view = page(numbered([said("One thing was said."), said("Another thing was said."), said("A third.")]))
    sources = view.page[: 3 if more else 2]
    notes = [note("1", first, view.page[:2]), note("2", second, sources, **values)]
    return [change.target for change in await found(page(view.page, notes=notes)) if change.before]


async def test_the_same_note_stays_once_the_one_that_rests_on_more() -> None:
    assert await retired("Ann lives in Porto.", "ann lives in Porto") == ["not_1"]
    assert await retired("Ann lives in Porto.", "Ann lives in Porto!", more=False) == ["not_2"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ann lives in Porto.", "Ann does not live in Porto."),
        ("Ann lives in Porto.", "Ann lives in Braga."),
        ("Ann lives in Porto.", "Ann never lives in Porto for long."),
        ("Ann lives in Porto.", "Ben thinks Ann lives in Porto."),
        ("Ann lives in Porto.", "If Ann lives in Porto, she has a flat."),
        ("Ann owes Ben 50 euros.", "Ben owes Ann 50 euros."),
        ("Ann owes Ben 50 euros.", "Ann owes Ben 51 euros."),
        ("Ann owes Ben 50 euros.", "Ann owed Ben 50 euros."),
        ("Ann owes Ben 5.5 euros.", "Ann owes Ben 55 euros."),
        ("Is Ann in Porto?", "Ann is in Porto."),
        ("Ann wohnt in Porto.", "Ann wohnt nicht in Porto."),
        ("安住在波尔图。", "安不住在波尔图。"),
    ],
)
async def test_what_differs_in_a_number_a_name_a_direction_or_a_negation_stays(first: str, second: str) -> None:
    assert await retired(first, second) == []
    assert await retired(second, first) == []


async def test_a_note_stays_beside_another_kind_and_is_not_replaced_by_what_is_less_trusted() -> None:
    assert await retired("Ann lives in Porto.", "Ann lives in Porto.", kind=NoteKind.SUMMARY) == []
    assert await retired("Ann lives in Porto.", "Ann lives in Porto.", trust=Trust.EXTERNAL) == []


async def test_of_many_notes_that_say_the_same_one_stays() -> None:
    view = page(numbered([said("One thing was said."), said("Another thing was said.")]))
    notes = [note(str(at), "Ann lives in Porto, by the river.", view.page) for at in range(1, 8)]
    gone = {change.target for change in await found(page(view.page, notes=notes))}
    assert gone == {f"not_{at}" for at in range(2, 8)}


HOME = "My home is the yellow house in Porto."


def again(text: str, other: str | None = None, **more: Any) -> PageContext:
    """Return the view of what was said long ago and is said now."""
    (old,) = numbered([said(text, conversation="old", at=timedelta(days=-90))])
    new = numbered([said(other or text, conversation="new", **more)], first=2)
    return page(new, past=[old])


async def test_what_is_said_again_counts_once() -> None:
    (change,) = await found(again(HOME, "my home is the yellow house in Porto!!"))
    assert (change.kind, change.target) == (ChangeKind.DEMOTE_EPISODE, "epi_1")
    assert change.after == {"reason": "said again on 2023-05-12", "evidence": "epi_2", "weight": 0.3}


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (HOME, "My home is the yellow house in Braga."),
        (HOME, "My home is not the yellow house in Porto."),
        (HOME, "Is my home the yellow house in Porto?"),
        ("My number is 4711, call me.", "My number is 4712, call me."),
        (
            "Ich habe morgen um neun die Prüfung, übermorgen frei.",
            "Ich habe morgen um neun die Prüfung, übermorgen frei.",
        ),
        ("I have the exam tomorrow at nine.", "I have the exam tomorrow at nine."),
        ("Where is the key of the shed?", "Where is the key of the shed?"),
    ],
)
async def test_what_differs_or_tells_a_relative_date_counts_as_often_as_it_was_said(text: str, other: str) -> None:
    assert await found(again(text, other)) == []


async def test_the_same_of_another_person_counts_for_itself() -> None:
    assert await found(again(HOME, speaker="ben")) == []
    assert await found(again(HOME, trust=Trust.AGENT)) == []


async def test_what_is_stale_is_not_demoted_again() -> None:
    stale = (Demotion(by="pass p0", reason="said again", evidence="epi_0", at=FRIDAY, weight=0.3),)
    old = numbered([said(HOME, at=timedelta(days=-9), stale=stale)])
    assert await found(page(numbered([said(HOME)], first=2), past=old)) == []


async def test_within_a_page_all_but_the_newest_are_demoted() -> None:
    days: list[Episode] = [said(HOME, at=timedelta(days=day), conversation=str(day)) for day in range(4)]
    changes = await found(page(days))
    assert [change.target for change in changes] == ["epi_1", "epi_2", "epi_3"]
    assert {(change.after or {})["evidence"] for change in changes} == {"epi_4"}


async def test_a_repetition_is_demoted_in_the_bank_and_can_be_taken_back(stand: Stand) -> None:
    old, new = await stand.said(HOME, conversation="a"), await stand.said(HOME, conversation="b")
    changes = await found(page([*old, *new]))
    run = await stand.begun()
    await stand.publish(run, *changes)
    async with stand.store.begin_read() as tx:
        kept = await tx.episodes.get(stand.bank.id, old[0].id)
    assert kept is not None
    assert [(each.weight, each.evidence) for each in kept.stale] == [(0.3, new[0].id)]
    async with stand.store.begin_write() as tx:
        await stand.publisher.undo(tx, run, stand.bank, by="ann")
        back = await tx.episodes.get(stand.bank.id, old[0].id)
    assert back is not None
    assert back.stale == ()


VAULT = "The vault has the deploy key."


@pytest.mark.spec("SLEEP-50", "SLEEP-89")
@pytest.mark.parametrize(
    ("text", "person", "values", "by"),
    [
        ("The key from the vault is the one to deploy with.", "I deploy with the vault's key.", {}, "agent person"),
        (VAULT, "Yes, the vault has the key to deploy.", {}, "agent person"),
        (VAULT, "I am going to rotate the deploy key.", {}, "agent"),  # copied, in words that are not the person's
        ("The vault has deploy key 4711.", "The vault has the deploy key.", {}, ""),
        ("Ann keeps the deploy key in Porto.", "The vault has my deploy key.", {}, ""),
        (VAULT, "Yes, the vault has the key to deploy.", {"refused": "it rests on nothing"}, ""),
        (VAULT, "Yes, the vault has the key to deploy.", {"unknown_ids": ["e9"]}, ""),
        (VAULT, "", {}, "agent"),
    ],
)
async def test_a_note_of_mixed_sources_is_proposed_by_each_more_trusted_part_that_may_carry_it(
    text: str, person: str, values: dict[str, Any], by: str
) -> None:
    tool = [said(VAULT, trust=Trust.TOOL), said("vault: deploy key 4711 in Porto", trust=Trust.TOOL)]
    agent = said(VAULT, trust=Trust.AGENT, speaker="helper")
    view = page(numbered([*tool, agent, *([said(person)] if person else [])]))
    mixed = add_note(view, "consolidate", NoteKind.CONSOLIDATION, text, view.page, why="said", **values)
    view = replace(view, proposed=[mixed])
    changes = [change for change in await found(view) if change.kind is not ChangeKind.DEMOTE_EPISODE]
    assert [str((change.after or {})["trust"]) for change in changes[::2]] == by.split()
    before = mixed
    for alone, gone in zip(changes[::2], changes[1::2], strict=True):
        after = alone.after or {}
        agent_and_person = ["epi_3", "epi_4"] if person else ["epi_3"]
        assert after["text"] == text
        assert after["evidence"] == (["epi_4"] if after["trust"] == "person" else agent_and_person)
        assert (gone.target, gone.after) == (before.target, {"instead": alone.target})
        before = alone


NOTED: Final = ("My sister lives in Porto.", "Noted: your sister lives in Porto.", "contacts: sister, Porto")
SISTER: Final = "Ann's sister lives in Porto."


@pytest.mark.spec("SLEEP-50", "SLEEP-89")
@pytest.mark.parametrize(
    ("levels", "carries", "trust"),
    [
        ((Trust.PERSON, Trust.AGENT), Trust.PERSON, Trust.PERSON),
        ((Trust.PERSON, Trust.AGENT), Trust.AGENT, Trust.AGENT),
        ((Trust.PERSON, Trust.AGENT, Trust.TOOL), Trust.PERSON, Trust.PERSON),
        ((Trust.PERSON, Trust.AGENT, Trust.TOOL), Trust.AGENT, Trust.AGENT),
        ((Trust.PERSON, Trust.AGENT, Trust.TOOL), Trust.TOOL, Trust.TOOL),
        ((Trust.AGENT, Trust.TOOL), Trust.AGENT, Trust.AGENT),
    ],
)
async def test_a_note_is_as_trusted_as_the_best_of_what_carries_it_alone_as_the_judge_finds(
    stand: Stand, levels: Sequence[Trust], carries: Trust, trust: Trust
) -> None:
    night = Night(stand, operations=[Consolidate(), Dedupe()])
    said_by = dict(zip(Trust, NOTED, strict=False))
    rows = {each: (await night.said(said_by[each], trust=each, speaker=f"{each}"))[0] for each in levels}

    def judge(prompt: Prompt) -> ClaimVerdicts:
        """Find a claim said if it cites the line of the least trust that it needs."""
        (needed,) = [row.key for row in parse_rows(prompt.data) if row.speaker == carries]
        cited = re.findall(r"(?m)^(c\d+) \[([^]]*)\]", prompt.data)
        return ClaimVerdicts(
            verdicts=[
                ClaimVerdict(id=key, verdict="said" if needed in ids.split() else "not_said") for key, ids in cited
            ]
        )

    night.mind = answering(writing(SISTER), judge)
    await night.run()
    (standing,) = await night.notes()
    assert (standing.text, standing.trust) == (SISTER, trust)
    assert set(standing.evidence) == {rows[each].id for each in levels if each.rank <= trust.rank}
