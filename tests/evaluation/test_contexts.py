"""The generator's contexts: the same for a seed, with keys that follow from the text, and odds that are odds."""

import re

import pytest

from circadia.evaluation.arms import ReasonedAnswer, build_answer_prompt
from circadia.evaluation.generator import generate_cases
from circadia.evaluation.scripted_model import ScriptedEvalModel, parse_context
from circadia.evaluation.world import Derivation, FactNotStated, World, list_possible_questions
from circadia.evaluation.worlds import FAMILY, PROJECT, SHOP, TIMETABLE, WORLDS

SURE = 0.4

pytestmark = pytest.mark.spec("ANS-10")

SEEDS = (1, 2, 77)


def test_a_seed_makes_the_same_contexts_and_another_seed_others() -> None:
    assert generate_cases(3, 5) == generate_cases(3, 5)
    assert generate_cases(3, 2) == generate_cases(3, 5)[:2], "the first ones do not depend on how many there are"
    texts = {case.context for seed in SEEDS for case in generate_cases(seed, 8)}
    assert len(texts) == 8 * len(SEEDS)


def test_each_context_has_as_many_different_questions_as_wanted() -> None:
    for case in generate_cases(4, 8, 20):
        assert len({asked.text for asked in case.questions}) == 20
        assert all(asked.likely is not None and 0 < asked.likely < 1 for asked in case.questions)


@pytest.mark.parametrize("seed", SEEDS)
async def test_each_key_follows_from_the_text_alone(seed: int) -> None:
    model = ScriptedEvalModel()
    for case in generate_cases(seed, 8, 20):
        for asked in case.questions:
            reply, _ = await model.ask(build_answer_prompt(case.context, asked.text), ReasonedAnswer, most_tokens=600)
            assert reply.answer == asked.key, (case.context, asked.text, reply.reasoning)


def test_the_odds_of_all_questions_of_a_context_add_up_to_one_and_prefer_what_people_ask_for() -> None:
    for case in generate_cases(6, 4):
        read = parse_context(case.context)
        assert read is not None
        every = list_possible_questions(read.world, read.facts, read.focus)
        assert sum(each.likely for each in every) == pytest.approx(1)
        told = {round(asked.likely or 0, 9) for asked in case.questions}
        assert told <= {round(each.likely, 9) for each in every}, "the odds are those of the text"
        simple = [each for each in every if each.kind is read.world.kinds[0]]
        assert max(simple, key=lambda each: each.likely).values == {next(iter(read.world.kinds[0].gaps)): read.focus}
        assert max(each.likely for each in simple) == pytest.approx(SURE * sum(each.likely for each in simple))


@pytest.mark.parametrize(
    ("world", "kind", "values", "answer"),
    [
        (SHOP, "worth", {"goods": "pears"}, "42"),
        (SHOP, "more", {"goods": "plums", "other": "pears"}, "16"),
        (SHOP, "dearest", {}, "pears"),
        (SHOP, "cost", {"goods": "plums", "amount": "4"}, "8"),
        (SHOP, "left", {"goods": "pears", "amount": "5"}, "9"),
        (TIMETABLE, "arrival", {"town": "Graz"}, "00:30"),
        (TIMETABLE, "late", {"town": "Turin", "late": "7"}, "11:07"),
        (TIMETABLE, "later", {"town": "Graz", "other": "Turin"}, "790"),
        (TIMETABLE, "longer", {"town": "Graz", "other": "Turin"}, "20"),
        (TIMETABLE, "first", {}, "Turin"),
        (FAMILY, "grandmother", {"child": "Leo"}, "Greta"),
        (FAMILY, "children", {"mother": "Greta"}, "2"),
        (FAMILY, "older", {"person": "Anna", "other": "Leo"}, "25"),
        (FAMILY, "oldest", {}, "Anna"),
        (FAMILY, "in years", {"person": "Leo", "amount": "3"}, "13"),
        (PROJECT, "earliest", {"task": "roof"}, "12"),
        (PROJECT, "workload", {"worker": "Vera"}, "9"),
        (PROJECT, "longest", {}, "floors"),
        (PROJECT, "before", {"task": "roof"}, "walls"),
        (PROJECT, "delayed", {"task": "walls", "amount": "2"}, "6"),
    ],
)
def test_an_answer_is_what_a_person_works_out(world: World, kind: str, values: dict[str, str], answer: str) -> None:
    read = parse_context(_TEXTS[world.name])
    assert read is not None
    program = next(each.program for each in read.world.kinds if each.name == kind)
    assert program(Derivation(facts=read.facts), values) == answer


_TEXTS = {
    "shop": "The shop keeps 14 pears, which sell for 3 dollars each. "
    "The shop keeps 30 plums, which sell for 2 dollars each.",
    "timetable": "The train to Graz leaves at 22:40 from platform 4 and takes 110 minutes. "
    "The train to Turin leaves at 09:30 from platform 1 and takes 90 minutes.",
    "family": "Leo is a child of Anna. Anna is a child of Greta. Mona is a child of Greta. "
    "Leo is 10 years old and lives in Graz. Anna is 35 years old and lives in Turin.",
    "project": "The task walls takes 4 days and is done by Vera. The task roof takes 5 days and is done by Vera. "
    "The task floors takes 9 days and is done by Ivo. The task walls can begin once the task doors is done. "
    "The task doors takes 3 days and is done by Ivo. The task roof can begin once the task walls is done.",
}


def test_a_fact_that_is_not_told_is_not_made_up() -> None:
    read = parse_context(_TEXTS["family"])
    assert read is not None
    program = next(each.program for each in FAMILY.kinds if each.name == "grandmother")
    with pytest.raises(FactNotStated):
        program(Derivation(facts=read.facts), {"child": "Mona"})


def test_no_wording_asks_for_two_things_and_each_is_read_as_what_it_was_made_for() -> None:
    filling = {"amount": "4", "late": "6"}
    for world in WORLDS:
        for kind in world.kinds:
            values = {gap: filling.get(gap, "one" if gap == "other" else "two") for gap in kind.gaps}
            for form in kind.wordings:
                said = form.fill_gaps(values)
                kinds = [
                    (other.name, read)
                    for other in world.kinds
                    for each in other.wordings
                    if (read := each.parse_sentence(said)) is not None
                ]
                assert kinds == [(kind.name, values)], said


def test_the_text_holds_no_key_but_what_it_tells() -> None:
    for case in generate_cases(9, 4):
        assert not re.search(r"answer|key", case.context, re.I)
