"""A long span gets a summary beside what it covers."""

from datetime import UTC, datetime, timedelta

import pytest

from circadia.records.change import ChangeState
from circadia.records.note import NoteKind
from circadia.sleeptime.operations.compress import Compress, SummaryDraft
from circadia.sleeptime.operations.consolidate import Consolidate
from circadia.testing.rule_based_model import RuleBasedModel, parse_rows
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.night import Night, answering, data_of, writing
from tests.sleeptime.stand import Stand

MAY = datetime(2025, 5, 4, 10, tzinfo=UTC)


@pytest.fixture
def night(stand: Stand) -> Night:
    """Nights of Ann's bank, in which eight episodes are many."""
    return Night(stand, operations=[Consolidate(), Compress(long=8)])


async def noted(night: Night, first: int, upto: int, *answers: SummaryDraft) -> ScriptedChatModel:
    """Have a note of each two things that are said on a day."""
    for day in range(first, upto):
        said = [f"I sowed row {day}.", f"Row {day} has sprouted."]
        await night.said(*said, at=MAY + timedelta(days=day), conversation=f"s{day}")
    notes = writing(*(f"Ann sowed row {day}." for day in range(first, upto)), each=2)
    mind = night.mind = answering(notes, *answers)
    await night.run()
    return mind


ROWS = SummaryDraft(text="In May 2025 Ann sowed row 0 to row 4.", ids=["n1", "n2", "n3", "n4", "n5"])


@pytest.mark.spec("SLEEP-23")
async def test_a_long_span_gets_a_summary_that_rests_on_all_it_covers_and_nothing_goes(night: Night) -> None:
    await noted(night, 0, 6, ROWS)
    kinds = [each.kind for each in await night.notes()]
    assert sorted(kinds) == sorted([NoteKind.CONSOLIDATION] * 6 + [NoteKind.SUMMARY])
    (summary,) = [each for each in await night.notes() if each.kind is NoteKind.SUMMARY]
    assert len(summary.evidence) == 10
    assert await night.notes() == await night.notes(retired=True)


@pytest.mark.spec("SLEEP-23")
async def test_what_a_summary_covers_is_not_read_again_and_the_last_conversation_waits(night: Night) -> None:
    await noted(night, 0, 6, ROWS)
    mind = await noted(night, 6, 11, ROWS)
    (data,) = data_of(mind, "summarize a long span")
    assert [row.text for row in parse_rows(data)] == [f"Ann sowed row {day}." for day in range(5, 10)]


@pytest.mark.spec("SLEEP-03", "SLEEP-23")
async def test_a_short_span_is_not_asked_about(night: Night) -> None:
    mind = await noted(night, 0, 4)
    assert data_of(mind, "summarize a long span") == []


@pytest.mark.spec("SLEEP-31")
async def test_a_summary_of_what_was_not_shown_is_refused(night: Night) -> None:
    await noted(night, 0, 6, SummaryDraft(text="Ann sowed rows.", ids=["n1", "n77"]))
    assert len(await night.notes()) == 6
    assert len(await night.changes(state=ChangeState.REFUSED)) == 1


@pytest.mark.spec("SLEEP-20", "SLEEP-23")
async def test_a_conversation_of_four_hundred_turns_costs_at_most_three_hundred_prompt_tokens_a_turn(
    stand: Stand,
) -> None:
    mind = RuleBasedModel()
    night = Night(stand, mind)
    topics = ("garden", "guitar", "kitchen", "harbour", "physics", "marathon", "painting", "software")
    for number in range(20):
        topic, other = topics[number % 8], topics[(number * 3 + 1) % 8]
        said = [
            f"About the {topic if at % 3 else other} I have been thinking of plan{number}x{at // 2} for quite a while,"
            f" and {('Ben', 'Cara', 'Dora')[at % 3]} told me that it may take {at + 2} weeks to finish it properly."
            for at in range(20)
        ]  # fmt: skip
        await night.said(*said, at=MAY + timedelta(days=3 * number), conversation=f"s{number}")
        await night.run()
    turn = sum(used.input_tokens or 0 for _, used in mind.asked) / 400
    assert turn <= 300
