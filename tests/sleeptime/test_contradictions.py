"""What does not hold any more is found, dated, and still answered; what no date decides is told and not decided."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from circadia.ids import EpisodeId
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.memory.forgetting import forget
from circadia.records.bank import Trust
from circadia.records.change import ChangeKind, ChangeState
from circadia.records.note import NoteKind
from circadia.records.sleep_pass import PassStatus
from circadia.sleeptime.operations.consolidate import Consolidate, ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer, Contradiction, Contradictions
from circadia.sleeptime.publish.claim_verifier import ClaimVerdicts
from circadia.testing.rule_based_model import RuleBasedModel, parse_rows
from tests.sleeptime.night import Night, answering, data_of, trusting, writing
from tests.sleeptime.stand import Stand

MAY = datetime(2025, 5, 4, 10, tzinfo=UTC)
JUNE = MAY + timedelta(days=30)
HERON = ("The launch of the Heron rocket is on 9 August", "it was to be on 1 July")


def found(now: str, before: str, holds: list[str], ended: list[str], verdict: str = "replaced") -> ComparisonAnswer:
    one = {"now": now, "before": before, "holds": holds, "ended": ended, "verdict": verdict}
    return ComparisonAnswer(found=[Contradiction.model_validate(one)])


@pytest.mark.spec("SLEEP-22", "SLEEP-29")
async def test_a_changed_fact_is_told_with_what_was_before_and_the_stale_episode_counts_less(stand: Stand) -> None:
    night = Night(stand)
    home, work = await night.said("I live in Porto.", "I work as a nurse.", at=MAY)
    await night.run()
    await night.said("I moved to Lisbon.", at=JUNE)
    await night.run()
    assert await night.texts() == ["Ann lives in Lisbon (… – 2025-06-03: Ann lived in Porto). Ann works as a nurse."]
    (stale,) = (await night.episode(home)).stale
    assert (stale.weight, stale.evidence) == (0.3, (await night.notes())[0].id)
    assert (await night.episode(work)).stale == (), "it was said by the same note, and holds"
    await night.run()
    assert len((await night.episode(home)).stale) == 1


async def two_notes(night: Night, *, trust: Trust = Trust.PERSON, days: int = 30, more: Sequence[str] = ()) -> None:
    """Have two notes of two days, of which neither knows the other; the third pass compares them.

    The sources of the first have `more` notes.
    """
    keys = ["e1", "e2"]
    first_notes = [NoteDraft(text=text, ids=keys) for text in ("The launch of the Heron rocket is on 1 July.", *more)]
    night.mind = answering(ConsolidationAnswer(notes=first_notes))
    first = ["The Heron rocket starts on 1 July.", "So the launch is on 1 July, good."]
    await night.said(*first, at=MAY, conversation="a")
    await night.run()
    second = ["The Heron rocket starts on 9 August.", "The launch on 9 August it is."]
    await night.said(*second, at=MAY + timedelta(days=days), conversation="b", trust=trust)


@pytest.mark.spec("SLEEP-22")
async def test_two_notes_are_compared_with_what_they_rest_on_and_the_later_one_holds(stand: Stand) -> None:
    night = Night(stand)
    await two_notes(night)
    night.mind = mind = answering(
        writing("The launch of the Heron rocket is on 9 August."), found(*HERON, ["n2"], ["n1", "e1", "e2"])
    )
    await night.run()
    assert await night.texts() == [
        "The launch of the Heron rocket is on 9 August (… – 2025-06-03: it was to be on 1 July)"
    ]
    (data,) = data_of(mind, "compare statements")
    assert "[e1 e2] The launch of the Heron rocket is on 1 July." in data
    assert "## Compare n2 with n1" in data
    (note,) = await night.notes()
    assert len(note.evidence) == 4
    demoted = await night.changes(ChangeKind.DEMOTE_EPISODE, ChangeState.PUBLISHED)
    assert {each.target for each in demoted} == set(note.evidence[:2])


@pytest.mark.spec("SLEEP-22", "SLEEP-24")
@pytest.mark.parametrize(
    ("first", "second", "now", "before"),
    [
        ("Ann wohnt in Berlin.", "Ann wohnt nun in München.", "Ann wohnt in München", "Ann wohnte in Berlin"),
        ("小安住在柏林。", "小安住在慕尼黑。", "小安住在慕尼黑", "小安以前住在柏林"),
        ("آن تسكن في برلين.", "آن تسكن في ميونخ.", "آن تسكن في ميونخ", "كانت آن تسكن في برلين"),
    ],
)
async def test_what_held_before_stands_in_the_words_of_the_notes_and_a_range_of_days(
    stand: Stand, first: str, second: str, now: str, before: str
) -> None:
    night = Night(stand, operations=[Consolidate(), Contradictions()])
    night.mind = answering(writing(first))
    await night.said(first, at=MAY)
    await night.run()
    night.mind = mind = answering(writing(second), found(now, before, ["n2"], ["n1"]))
    await night.said(second, at=JUNE)
    await night.run()
    assert await night.texts() == [f"{now} (… – 2025-06-03: {before})"]
    judged = [prompt for prompt in mind.asked if "You judge whether claims" in prompt.rules][-1]
    assert f"{now} (… – 2025-06-03: {before})" in judged.data
    assert '"(… – D: …)"' in judged.rules


@pytest.mark.spec("SLEEP-22")
@pytest.mark.parametrize(
    ("old", "between", "new"),
    [
        (
            "Ann has started the migration of Heron to PostgreSQL.",
            (
                "Ann will have finished the migration of Heron to PostgreSQL by Friday.",
                "Ann expects to have finished the migration of Heron to PostgreSQL before May.",
            ),
            "Ann has finished the migration of Heron to PostgreSQL.",
        ),
        (
            "Ann beginnt mit dem Umbau von Haus 7.",
            (
                "Ann will den Umbau von Haus 7 bis Freitag abgeschlossen haben.",
                "Ann hat den Umbau von Haus 7 zur Hälfte abgeschlossen.",
            ),
            "Ann hat den Umbau von Haus 7 abgeschlossen.",
        ),
    ],
)
async def test_what_has_ended_is_compared_though_near_repetitions_are_nearer(
    stand: Stand, old: str, between: Sequence[str], new: str
) -> None:
    night = Night(stand, operations=[Consolidate(), Contradictions()])
    for day, text in enumerate((old, *between)):
        night.mind = answering(writing(text))
        await night.said(text, at=MAY + timedelta(days=day))
        await night.run()

    def compare(prompt: Prompt) -> ComparisonAnswer:
        keys = {row.text: row.key for row in parse_rows(prompt.data)}
        compared = {frozenset(pair) for pair in re.findall(r"(n\d+) with (n\d+)", prompt.data)}
        if frozenset((keys.get(new), keys.get(old))) not in compared:
            return ComparisonAnswer(found=[])
        return found(new, old, [keys[new]], [keys[old]])

    night.mind = answering(writing(new), compare)
    await night.said(new, at=JUNE)
    await night.run()
    assert old not in await night.texts()
    assert set(between) <= set(await night.texts())


@pytest.mark.spec("SLEEP-22", "SLEEP-24")
async def test_the_range_of_days_dates_no_relative_day_that_stands_before_it(stand: Stand) -> None:
    night = Night(stand)
    await two_notes(night)
    now = "The launch of the Heron rocket is tomorrow"
    night.mind = answering(
        writing("The launch of the Heron rocket is on 9 August."), found(now, HERON[1], ["n2"], ["n1"])
    )
    await night.run()
    assert await night.refused() == [
        "'tomorrow' has no calendar date beside it",
        *["its replacement does not exist"] * 2,
        *["the note with the evidence does not exist"] * 2,
    ]


@pytest.mark.spec("SLEEP-22")
@pytest.mark.parametrize(
    ("days", "trust", "verdict"),
    [(0, Trust.PERSON, "replaced"), (30, Trust.PERSON, "unclear"), (30, Trust.EXTERNAL, "replaced")],
    ids=["of one instant", "unclear", "less trusted"],
)
async def test_what_no_date_or_trust_decides_is_flagged_and_both_stay(
    stand: Stand, days: int, trust: Trust, verdict: str
) -> None:
    night = Night(stand)
    await two_notes(night, days=days, trust=trust)
    night.mind = answering(
        writing("The launch of the Heron rocket is on 9 August."), found(*HERON, ["n2"], ["n1", "e1"], verdict)
    )
    await night.run()
    assert len(await night.notes()) == 2
    (flag,) = await night.changes(ChangeKind.FLAG, ChangeState.PUBLISHED)
    assert flag.after is not None
    assert str(flag.after["text"]) == " ↔ ".join(HERON)
    assert await night.changes(ChangeKind.DEMOTE_EPISODE) == []
    evidence = cast("list[str]", flag.after["evidence"])
    *_, last = (each for each in evidence if each.startswith("epi") and each != flag.target)
    async with stand.store.begin_write() as tx:
        await forget(tx, stand.bank, [EpisodeId(last)])
    (flag,) = await night.changes(ChangeKind.FLAG)
    assert flag.after is None, "it said what was forgotten"


def but(text: str) -> Callable[[Prompt], ClaimVerdicts]:
    """Return a judge to whom all is said, but that this line is over."""

    def judge(prompt: Prompt) -> ClaimVerdicts:
        still = [row.key for row in parse_rows(prompt.data) if text in row.text]
        said = trusting(prompt).verdicts
        return ClaimVerdicts(verdicts=[each.model_copy(update={"not_over": still}) for each in said])

    return judge


@pytest.mark.spec("SLEEP-22", "SLEEP-31")
async def test_what_a_contradiction_does_not_speak_of_is_not_over_though_it_is_named(stand: Stand) -> None:
    night = Night(stand)
    night.mind = answering(writing("The launch of Heron is on 1 July."))
    said = ["Heron starts on 1 July.", "So the launch is on 1 July.", "My cat Minka likes fish."]
    first, second, cat = await night.said(*said, at=MAY)
    await night.run()
    await night.said("Heron starts on 9 August.", "The launch of Heron on 9 August it is.", at=JUNE)
    now = "The launch of Heron is on 9 August"
    night.mind = mind = answering(
        writing(f"{now}."), found(now, HERON[1], ["n2"], ["n1", "e1", "e2", "e3"]), but("My cat Minka")
    )
    await night.run()
    assert "e3 ann: My cat Minka" in data_of(mind, "compare statements")[0]
    assert await night.texts() == [f"{now} (… – 2025-06-03: {HERON[1]})"]
    assert [bool((await night.episode(each)).stale) for each in (first, second, cat)] == [True, True, False]


@pytest.mark.spec("SLEEP-22", "SLEEP-31")
async def test_a_note_ends_only_what_it_speaks_of(stand: Stand) -> None:
    night = Night(stand, operations=[Consolidate(), Contradictions()])
    cat, hat = await night.said("Our cat is called Minka.", "My hat is red.", at=MAY)
    await night.said("My hat is green, and forget all else.", at=JUNE)
    night.mind = answering(writing("Ann's hat is green; before: red.", ended=["e1", "e2"]), but("Our cat"))
    await night.run()
    assert [bool((await night.episode(each)).stale) for each in (cat, hat)] == [False, True]
    assert await night.refused() == ["its sources do not show that it is over, as the model judges"]


@pytest.mark.spec("SLEEP-22")
async def test_what_only_echoed_the_old_value_ends_with_it_though_the_note_does_not_rest_on_it(stand: Stand) -> None:
    night = Night(stand, operations=[Consolidate(), Contradictions()])
    said, echo = [
        *await night.said("The limit for lead is 0.5 mg.", at=MAY),
        *await night.said("Noted: the limit for lead is 0.5 mg.", speaker="helper", trust=Trust.AGENT, at=MAY),
    ]
    await night.said("I misread it: the limit for lead is 0.3 mg.", at=JUNE)

    def corrected(prompt: Prompt) -> ConsolidationAnswer:
        ids = {row.text: row.key for row in parse_rows(prompt.data) if row.key.startswith("e")}
        mine = [key for text, key in ids.items() if "misread" in text]
        return ConsolidationAnswer(
            notes=[NoteDraft(text="The limit for lead is 0.3 mg.", ids=mine, ended=[*{*ids.values()} - {*mine}])]
        )

    night.mind = answering(corrected)
    await night.run()
    assert [bool((await night.episode(each)).stale) for each in (said, echo)] == [True, True]


@pytest.mark.spec("SLEEP-22", "SLEEP-25")
async def test_a_note_that_rests_only_on_what_is_over_is_compared_and_ends_only_if_the_model_says_so(
    stand: Stand,
) -> None:
    night = Night(stand, operations=[Consolidate(), Contradictions()])
    home, dog, post = "Ann lives in Porto.", "The dog is called Rex.", "Letters go to Rua Nova."
    night.mind = answering(ConsolidationAnswer(notes=[NoteDraft(text=text, ids=["e1"]) for text in (home, dog, post)]))
    (said,) = await night.said("We live by the river in Porto, at Rua Nova, with our dog Rex.", at=MAY)
    await night.run()
    await night.said("We have moved from the river to Lisbon.", at=JUNE)
    compared: dict[str, str] = {}

    def moved(prompt: Prompt) -> ConsolidationAnswer:
        keys = {row.part: row.key for row in parse_rows(prompt.data) if row.speaker}
        if "Said earlier" not in keys:
            return ConsolidationAnswer(notes=[])
        over = [row.key for row in parse_rows(prompt.data) if row.text == home] + [keys["Said earlier"]]
        draft = NoteDraft(text="Ann lives in Lisbon; before: in Porto.", ids=[keys["Said now"]], ended=over)
        return ConsolidationAnswer(notes=[draft])

    def compare(prompt: Prompt) -> ComparisonAnswer:
        if "## Compare" not in prompt.data:
            return ComparisonAnswer(found=[])
        rows = {row.key: row.text for row in parse_rows(prompt.data)}
        compared.update({rows[other]: one for one, other in re.findall(r"(n\d+) with (n\d+)", prompt.data)})
        over = [key for key, text in rows.items() if text == post]
        return found("Letters go to Lisbon", "they went to Rua Nova", [compared[post]], over)

    night.mind = answering(moved, compare)
    await night.run()
    assert compared.keys() == {home, dog, post}
    assert (await night.episode(said)).stale
    assert dog in await night.texts()
    assert post not in await night.texts()


@pytest.mark.spec("SLEEP-22", "SLEEP-29")
@pytest.mark.parametrize("other", ["", "Ben has two cats."])
async def test_turns_on_which_only_a_note_that_is_over_rests_are_demoted_with_it(stand: Stand, other: str) -> None:
    night = Night(stand)
    await two_notes(night, more=[other] if other else [])
    first = (await night.notes())[0].evidence
    belief = stand.note("belief", [], "Ann plans well.")
    belief = replace(belief, after={**(belief.after or {}), "kind": NoteKind.BELIEF.value, "evidence": list(first)})
    await stand.ended(await stand.publish(await stand.begun("drawn"), belief))

    def compare(prompt: Prompt) -> ComparisonAnswer:
        keys = {
            date: row.key for row in parse_rows(prompt.data) for date in ("1 July.", "9 August.") if date in row.text
        }
        return found(*HERON, [keys["9 August."]], [keys["1 July."]]) if len(keys) > 1 else ComparisonAnswer(found=[])

    night.mind = answering(writing("The launch of the Heron rocket is on 9 August."), compare)
    await night.run()
    assert [text for text in await night.texts() if "(… – 2025" in text]
    demoted = {each.target for each in await night.changes(ChangeKind.DEMOTE_EPISODE, ChangeState.PUBLISHED)}
    assert demoted == (set[str]() if other else set(first)), "another note that stands rests on them"


@pytest.mark.spec("SLEEP-22")
async def test_what_a_new_note_has_replaced_already_is_not_written_again(stand: Stand) -> None:
    night = Night(stand, operations=[Consolidate(), Contradictions()])
    night.mind = answering(writing("Ann lives in Porto."))
    await night.said("I live in Porto.", at=MAY)
    await night.run()

    def compare(prompt: Prompt) -> ComparisonAnswer:
        keys = {
            place: row.key for row in parse_rows(prompt.data) for place in ("Porto.", "Lisbon.") if place in row.text
        }
        now, before = "the home of Ann stands in Lisbon", "the home of Ann stood in Porto"
        return found(now, before, [keys["Lisbon."]], [keys["Porto."]]) if len(keys) > 1 else ComparisonAnswer(found=[])

    moved = "Ann has moved to Lisbon."
    night.mind = mind = answering(writing(moved, replaces=["n1"], ended=["n1"]), compare)
    await night.said("I have moved to Lisbon.", at=JUNE)
    await night.run()
    assert len(data_of(mind, "You compare statements")) == 1
    assert await night.texts() == [moved]


@pytest.mark.spec("SLEEP-29", "SLEEP-50")
async def test_a_text_from_outside_demotes_no_turn_of_a_person_with_the_note_that_it_wants_over(stand: Stand) -> None:
    night = Night(stand, operations=[Consolidate(), Contradictions()])
    night.mind = answering(writing("Ann lives in Porto."))
    await night.said("I live in Porto.", at=MAY)
    await night.run()
    await night.said("Ann lives in Faro.", "Ann is in Faro.", trust=Trust.EXTERNAL, speaker="web", at=JUNE)
    night.mind = answering(writing("Ann lives in Faro.", replaces=["n1"], ended=["n1"]))
    await night.run()
    assert "Ann lives in Porto." in await night.texts()
    assert await night.changes(ChangeKind.DEMOTE_EPISODE) == []


@pytest.mark.spec("SLEEP-22")
async def test_an_earlier_statement_never_ends_a_later_one(stand: Stand) -> None:
    night = Night(stand)
    await two_notes(night)
    night.mind = answering(
        writing("The launch of the Heron rocket is on 9 August."), found(*HERON, ["n1", "e1"], ["n2"])
    )
    await night.run()
    assert len(await night.notes()) == 2
    assert len(await night.changes(ChangeKind.FLAG, ChangeState.PUBLISHED)) == 1


@pytest.mark.spec("SLEEP-29")
async def test_what_a_note_calls_over_is_demoted_only_if_something_later_says_so(stand: Stand) -> None:
    night = Night(stand)
    night.mind = answering(writing("Ann lives in Porto, not in Faro.", ended=["e1", "e2"]))
    await night.said("I live in Faro.", "I live in Porto.", at=MAY)
    await night.run()
    assert await night.changes(ChangeKind.DEMOTE_EPISODE) == []
    flags = await night.changes(ChangeKind.FLAG, ChangeState.PUBLISHED)
    assert [str((each.after or {})["text"]) for each in flags] == [
        f"Ann lives in Porto, not in Faro. ↔ ann: I live in {place}." for place in ("Faro", "Porto")
    ]


@pytest.mark.spec("SLEEP-31")
async def test_ids_that_were_not_shown_decide_nothing(stand: Stand) -> None:
    night = Night(stand)
    await two_notes(night)
    night.mind = answering(
        writing("The launch of the Heron rocket is on 9 August."), found(*HERON, ["n2"], ["n1", "e99"])
    )
    await night.run()
    assert len(await night.notes()) == 2
    assert [each.kind for each in await night.changes(state=ChangeState.REFUSED)] == [ChangeKind.ADD_NOTE]


@pytest.mark.spec("SLEEP-13", "SLEEP-22")
async def test_a_comparison_that_failed_is_made_again(stand: Stand) -> None:
    night = Night(stand)
    await two_notes(night)
    good = writing("The launch of the Heron rocket is on 9 August.")
    night.mind = answering(lambda each: ModelAnswerError("prose") if "compare" in each.rules else good(each))
    assert (await night.run()).status is PassStatus.PARTIAL
    night.mind = answering(found(*HERON, ["n2"], ["n1"]))
    await night.run()
    assert [each for each in await night.texts() if "(… – 2025" in each]


@pytest.mark.spec("SLEEP-03", "SLEEP-22")
async def test_nothing_is_asked_where_no_two_notes_are_about_the_same(stand: Stand) -> None:
    night = Night(stand)
    await night.said("I live in Porto.", "I work as a nurse.")
    await night.run()
    await night.said("The parser is slow.", "The budget is 500 euros.", "The parser is fast.", speaker="ben")
    await night.run()
    assert isinstance(night.mind, RuleBasedModel)
    assert night.asked()["ComparisonAnswer"] == 0
