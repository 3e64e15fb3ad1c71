"""Beliefs follow from several notes with their raw words, and fall with them."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import Prompt
from circadia.records.change import ChangeKind, ChangeState
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.operations.consolidate import Consolidate, ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer, Contradiction, Contradictions
from circadia.sleeptime.operations.reflect import Belief, BeliefCheck, Reflect, ReflectionAnswer
from circadia.sleeptime.proposals.operation import Step
from circadia.testing.rule_based_model import parse_rows
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.episode_builders import note, numbered, page, said
from tests.sleeptime.night import Night, answering, data_of, writing
from tests.sleeptime.stand import Stand

MAY = datetime(2025, 5, 4, 10, tzinfo=UTC)


@pytest.fixture
def night(stand: Stand) -> Night:
    """Nights of Ann's bank, with reflection after each four notes."""
    return Night(stand, operations=[Consolidate(), Contradictions(), Reflect(each=4)])


async def noted(night: Night, first: int, upto: int, *answers: ReflectionAnswer) -> ScriptedChatModel:
    """Have a note of each two things that are said, one on each day."""
    for day in range(first, upto):
        said = [f"I went running in park {day}.", f"Running {day} kilometres was fine."]
        await night.said(*said, at=MAY + timedelta(days=day), conversation=f"s{day}")
    notes = writing(*(f"Ann ran {day} kilometres." for day in range(first, upto)), each=2)
    mind = night.mind = answering(notes, *answers)
    await night.run()
    return mind


async def beliefs(night: Night) -> list[str]:
    return [each.text for each in await night.notes() if each.kind is NoteKind.BELIEF]


RUNS = ReflectionAnswer(beliefs=[Belief(text="Ann runs nearly every day.", ids=["e1", "e2", "e3"])])


@pytest.mark.spec("SLEEP-21")
async def test_a_belief_names_the_episodes_that_show_it(night: Night) -> None:
    await noted(night, 1, 5, RUNS)
    (belief,) = [each for each in await night.notes() if each.kind is NoteKind.BELIEF]
    assert (belief.text, len(belief.evidence)) == ("Ann runs nearly every day.", 3)


@pytest.mark.spec("SLEEP-21")
async def test_notes_are_shown_with_the_raw_words_that_they_rest_on(night: Night) -> None:
    mind = await noted(night, 1, 5)
    (data,) = data_of(mind, "what follows from several")
    assert "e1 ann: I went running in park 1." in data
    assert "[e1 e2] Ann ran 1 kilometres." in data


@pytest.mark.spec("SLEEP-21", "SLEEP-83")
async def test_a_belief_that_is_refused_goes_back_once_with_its_reason(night: Night) -> None:
    wrong = ReflectionAnswer(beliefs=[Belief(text="Ann ran 977 kilometres.", ids=["e1", "e2"])])
    mind = await noted(night, 1, 5, wrong, RUNS)
    assert await beliefs(night) == ["Ann runs nearly every day."]
    _, again = data_of(mind, "what follows from several")
    assert "## Refused\n| Ann ran 977 kilometres. (refused: '977' is in no source)\n" in again


@pytest.mark.spec("SLEEP-21")
async def test_what_a_belief_may_rest_on_is_shown_whole_unless_there_is_too_much_of_it(night: Night) -> None:
    words = "I went running in the park by the river with Mia and her dog, who barked at each duck. " * 5
    for day in range(1, 5):
        parts = [f"{words}Part {part} of day {day} ends here." for part in range(1, 4)]
        await night.said(*parts, at=MAY + timedelta(days=day), conversation=f"s{day}")
    night.mind = mind = answering(writing(*(f"Ann ran on day {day}." for day in range(1, 5)), each=3))
    await night.run()
    (data,) = data_of(mind, "what follows from several")
    assert [f"Part {part} of day {day} ends here." in data for day in range(1, 5) for part in range(1, 4)] == [
        True
    ] * 12
    asked: list[str] = []

    async def ask(prompt: Prompt, output: type[BaseModel], *, most_tokens: int) -> Any:
        asked.append(prompt.data)
        return ReflectionAnswer(beliefs=[])

    rows = numbered([said(f"{words}{at}") for at in range(80)])
    many = [note(str(at), f"Ann ran {at}.", rows[4 * at : 4 * at + 4]) for at in range(20)]
    step = Step(name="20 notes", notes=many, data={"beliefs": []})
    await Reflect().propose(step, page((), notes=many, past=rows), ask)
    assert 20_000 < len(asked[0]) < 30_000


@pytest.mark.spec("SLEEP-21")
async def test_it_waits_until_so_many_notes_are_new_and_reads_none_of_them_twice(night: Night) -> None:
    seen: list[str] = []
    for day in range(1, 13):
        mind = await noted(night, day, day + 1)
        read = [row for data in data_of(mind, "what follows from several") for row in parse_rows(data)]
        seen += [row.text for row in read if row.key[0] == "n"]
    assert len(seen) == 12, "three questions of four notes"
    assert len(set(seen)) == 12


@pytest.mark.spec("SLEEP-21")
async def test_a_belief_of_one_episode_or_of_a_note_alone_is_none(night: Night) -> None:
    answer = ReflectionAnswer(
        beliefs=[Belief(text="Ann is fit.", ids=["e1"]), Belief(text="Ann is fast.", ids=["n1", "n2"])]
    )
    await noted(night, 1, 5, answer)
    assert await beliefs(night) == []


@pytest.mark.spec("SLEEP-31")
async def test_a_belief_on_what_was_not_shown_is_refused(night: Night) -> None:
    await noted(night, 1, 5, ReflectionAnswer(beliefs=[Belief(text="Ann is fit.", ids=["e1", "e2", "e999"])]))
    assert await beliefs(night) == []
    assert len(await night.changes(ChangeKind.ADD_NOTE, ChangeState.REFUSED)) == 1


@pytest.mark.spec("SLEEP-21")
async def test_a_belief_is_asked_about_again_when_its_evidence_falls_and_is_given_up(night: Night) -> None:
    await noted(night, 1, 5, RUNS)
    await night.said("I never ran, I made that up.", at=MAY + timedelta(days=40), conversation="late")

    def key_of(prompt: Prompt, text: str) -> str:
        return next((row.key for row in parse_rows(prompt.data) if row.text == text), "")

    def over(prompt: Prompt) -> ConsolidationAnswer:
        new, old = key_of(prompt, "I never ran, I made that up."), key_of(prompt, "Ann ran 1 kilometres.")
        return ConsolidationAnswer(notes=[NoteDraft(text="Ann has made up her runs.", ids=[new, old], ended=[old])])

    def compared(prompt: Prompt) -> ComparisonAnswer:
        new, old = key_of(prompt, "Ann has made up her runs."), key_of(prompt, "I went running in park 1.")
        one = Contradiction(
            now="Ann has made up her runs", before="Ann ran 1 kilometres", holds=[new], ended=[old], verdict="replaced"
        )
        return ComparisonAnswer(found=[one])

    given_up = ReflectionAnswer(beliefs=[], checked=[BeliefCheck(id="b1", holds=False)])
    mind = night.mind = answering(over, compared, given_up)
    await night.run()
    (data,) = data_of(mind, "what follows from several")
    assert "## Earlier beliefs" in data
    assert "## Does not hold any more\ne1: over: Ann has made up her runs" in data
    assert await beliefs(night) == []
    retired = await night.changes(ChangeKind.RETIRE_NOTE, ChangeState.PUBLISHED)
    assert [each.operation for each in retired] == ["contradictions", "reflect"]


@pytest.mark.spec("SLEEP-21", "SLEEP-31")
async def test_all_beliefs_that_one_question_finds_false_go_in_one_pass_of_a_small_bank(night: Night) -> None:
    drawn = [f"Ann runs {how}." for how in ("every day", "in parks", "alone", "early", "far", "slowly", "for fun")]
    await noted(night, 1, 5, ReflectionAnswer(beliefs=[Belief(text=text, ids=["e1", "e2"]) for text in drawn]))
    first, *_ = [each for each in await night.notes() if each.kind is NoteKind.BELIEF]
    async with night.stand.store.begin_write() as tx:
        assert await night.stand.memory.episodes.demote(
            tx, night.stand.bank, first.evidence[0], by="ann", reason="it was a joke", evidence="letter", weight=0.3
        )
    shown: list[str] = []

    def judged(prompt: Prompt) -> ReflectionAnswer:
        keys = [row.key for row in parse_rows(prompt.data) if row.key.startswith("b")]
        shown.extend(keys)
        return ReflectionAnswer(beliefs=[], checked=[BeliefCheck(id=key, holds=False) for key in keys])

    night.mind = answering(judged)
    run = (await night.run()).run
    assert len(shown) == 7
    changes = await night.changes(ChangeKind.RETIRE_NOTE)
    assert [each.state for each in changes] == [ChangeState.PUBLISHED] * 7, "six, and one of the ceiling of 5 %"
    assert len(await night.notes()) == 4, "what they were drawn from stays"
    async with night.stand.store.begin_write() as tx:
        await night.stand.publisher.undo(tx, run, night.stand.bank, by="ann")
    night.mind = answering(judged)
    await night.run(full=True)
    again = (await night.changes(ChangeKind.RETIRE_NOTE))[7:]
    waiting = [each.state for each in again if each.state is ChangeState.STAGED]
    assert len(waiting) == 6, "what a person has brought back counts as any other note"


@pytest.mark.spec("SLEEP-21")
async def test_a_belief_that_still_holds_stays_and_only_beliefs_that_were_shown_can_fall(night: Night) -> None:
    await noted(night, 1, 5, RUNS)
    again = ReflectionAnswer(beliefs=[], checked=[BeliefCheck(id="b1", holds=True), BeliefCheck(id="b7", holds=False)])
    await noted(night, 5, 9, again)
    assert await beliefs(night) == ["Ann runs nearly every day."]
    await noted(night, 9, 13, ReflectionAnswer(beliefs=[], checked=[BeliefCheck(id="n1", holds=False)]))
    assert len(await night.notes()) == 13


@pytest.mark.spec("SLEEP-21")
async def test_the_rule_on_earlier_beliefs_stands_where_there_are_some(night: Night) -> None:
    for first, there in ((1, False), (5, True)):
        mind = await noted(night, first, first + 4, RUNS)
        (rules,) = [each.rules for each in mind.asked if "what follows from several" in each.rules]
        assert ("- Judge each earlier belief" in rules) is there
        assert "\n- Nothing follows: empty lists." in rules
        assert "?}" not in rules


@pytest.mark.spec("SLEEP-02", "SLEEP-21")
async def test_a_belief_is_asked_about_again_once_when_a_person_demotes_its_evidence(night: Night) -> None:
    await noted(night, 1, 5, RUNS)
    async with night.stand.store.begin_read() as tx:
        rows = await tx.episodes.find_all(night.stand.bank.id)
    async with night.stand.store.begin_write() as tx:
        assert await night.stand.memory.episodes.demote(
            tx, night.stand.bank, rows[0].id, by="ann", reason="it was a joke", evidence="letter", weight=0.3
        )
    holds = ReflectionAnswer(beliefs=[], checked=[BeliefCheck(id="b1", holds=True)])
    for asked in (1, 0):
        mind = night.mind = answering(*([holds] * asked))
        await night.run()
        found = data_of(mind, "what follows from several")
        assert ["## Does not hold any more\ne1: it was a joke" in each for each in found] == [True] * asked


@pytest.mark.spec("SLEEP-02", "SLEEP-21")
def test_all_beliefs_that_rest_on_what_is_stale_are_asked_about_a_few_in_each_question() -> None:
    rows = numbered([said(f"I went running in park {day}.") for day in range(40)])
    held = [note(str(at + 1), f"Ann runs {at}.", rows[at : at + 2], kind=NoteKind.BELIEF) for at in range(20)]
    steps = Reflect().plan(page((), notes=held, past=rows, stale=frozenset(each.id for each in rows[:11]), full=True))
    asked = [cast("list[Note]", step.data["beliefs"]) for step in steps]
    assert [len(each) for each in asked] == [6, 5]
    assert [each.id for part in asked for each in part] == [each.id for each in held[:11]]
