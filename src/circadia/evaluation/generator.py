"""Generate contexts with many questions from a seed, with their keys and probabilities."""

import random
from collections.abc import Iterator, Sequence
from typing import Final

from circadia.evaluation.dataset import Case, KeyedQuestion
from circadia.evaluation.world import PossibleQuestion, World, format_clock_time, list_possible_questions
from circadia.evaluation.worlds import WORLDS

MAX_QUESTIONS: Final = 20
WORDINGS: Final = (5, 3, 3, 3, 2)
"""Frequencies of a question's wordings; a model that expects some of them does not know the others."""
REMARKS: Final = 4
THINGS: Final = 8
_GOODS: Final = (
    "pears", "plums", "lemons", "candles", "ropes", "kettles", "spoons", "brushes", "lanterns", "mirrors", "baskets",
    "blankets", "onions", "figs",
)  # fmt: skip
_TOWNS: Final = (
    "Graz", "Turin", "Malmo", "Porto", "Leeds", "Bergen", "Minsk", "Tunis", "Quebec", "Osaka", "Denver", "Lagos",
    "Hobart", "Cairo",
)  # fmt: skip
_MOTHERS: Final = ("Anna", "Berta", "Clara", "Doris", "Elena", "Frieda", "Greta", "Hilda")
_CHILDREN: Final = ("Igor", "Jonas", "Karla", "Leo", "Mona", "Nils", "Olga", "Paul", "Ruth", "Simon", "Tilda", "Urs")
_WORKERS: Final = ("Vera", "Walter", "Yara", "Zeno", "Ivo", "Selma", "Tomas", "Ulla")
_TASKS: Final = (
    "foundation", "walls", "roof", "windows", "doors", "plumbing", "wiring", "plaster", "floors", "painting", "stairs",
    "heating",
)  # fmt: skip

Facts = dict[tuple[str, str], str]


def generate_cases(seed: int, count: int, questions: int = MAX_QUESTIONS) -> list[Case]:
    """Return contexts of each world in turn, with `questions` different questions each."""
    return [
        _generate_case(random.Random(f"{seed}/{at}"), at, WORLDS[at % len(WORLDS)], questions) for at in range(count)
    ]


def _generate_case(draw: random.Random, at: int, world: World, questions: int) -> Case:
    facts = _FACTS[world.name](draw)
    named = world.fact_sentences[-1].thing if world.name == "family" else world.fact_sentences[0].thing
    focus = draw.choice(sorted({thing for relation, thing in facts if relation in _find_relations(world, named)}))
    sentences = list(_render_sentences(world, facts))
    draw.shuffle(sentences)
    sentences += draw.sample(world.remarks, REMARKS)
    draw.shuffle(sentences)
    text = " ".join((world.opening, world.focus.fill_gaps({"focus": focus}), *sentences))
    word_questions = [
        _word_question(draw, question)
        for question in _sample_questions(draw, list_possible_questions(world, facts, focus), questions)
    ]
    return Case(name=f"{world.name} {at + 1}", context=text, questions=word_questions)


def _find_relations(world: World, thing: str) -> set[str]:
    return {
        gap for pattern in world.fact_sentences if pattern.thing == thing for gap in pattern.form.gaps if gap != thing
    }


def _render_sentences(world: World, facts: Facts) -> Iterator[str]:
    """Yield a sentence for each pattern and each thing with all of its values."""
    for pattern in world.fact_sentences:
        relations = [gap for gap in pattern.form.gaps if gap != pattern.thing]
        for thing in dict.fromkeys(thing for relation, thing in facts if relation == relations[0]):
            yield pattern.form.fill_gaps({pattern.thing: thing, **{name: facts[name, thing] for name in relations}})


def _sample_questions(draw: random.Random, every: Sequence[PossibleQuestion], count: int) -> list[PossibleQuestion]:
    """Draw different questions, likelier ones first, and shuffle them, so that the first few are as likely as all.

    The keys are those of Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir".
    """
    by_key = sorted(every, key=lambda question: draw.random() ** (1 / question.likely), reverse=True)[:count]
    draw.shuffle(by_key)
    return by_key


def _word_question(draw: random.Random, question: PossibleQuestion) -> KeyedQuestion:
    (wording,) = draw.choices(question.kind.wordings, WORDINGS)
    return KeyedQuestion(text=wording.fill_gaps(question.values), key=question.answer, likely=question.likely)


def _generate_shop(draw: random.Random) -> Facts:
    facts: Facts = {}
    for goods in draw.sample(_GOODS, THINGS):
        facts["count", goods] = str(draw.randint(12, 60))
        facts["price", goods] = str(draw.randint(2, 19))
    return facts


def _generate_timetable(draw: random.Random) -> Facts:
    facts: Facts = {}
    times = draw.sample(range(6 * 60, 20 * 60, 5), THINGS)
    for town, time in zip(draw.sample(_TOWNS, THINGS), times, strict=True):
        facts["time", town] = format_clock_time(time)
        facts["platform", town] = str(draw.randint(1, 9))
        facts["minutes", town] = str(draw.randint(20, 180))
    return facts


def _generate_family(draw: random.Random) -> Facts:
    """Return a grandmother with three daughters, and the daughters' children."""
    facts: Facts = {}
    eldest, *daughters = draw.sample(_MOTHERS, 4)
    ages = {eldest: draw.randint(66, 84)}
    for daughter in daughters:
        facts["mother", daughter] = eldest
        ages[daughter] = ages[eldest] - draw.randint(20, 30)
    for child in draw.sample(_CHILDREN, THINGS - 2):
        mother = draw.choice(daughters)
        facts["mother", child] = mother
        ages[child] = ages[mother] - draw.randint(20, 34)
    towns = draw.sample(_TOWNS, 5)
    for person, age in ages.items():
        facts["age", person] = str(age)
        facts["town", person] = draw.choice(towns)
    return facts


def _generate_project(draw: random.Random) -> Facts:
    facts: Facts = {}
    workers = draw.sample(_WORKERS, 3)
    tasks = draw.sample(_TASKS, THINGS)
    for at, task in enumerate(tasks):
        facts["days", task] = str(draw.randint(2, 15))
        facts["worker", task] = draw.choice(workers)
        if at and draw.random() < 0.8:
            facts["before", task] = draw.choice(tasks[max(0, at - 2) : at])
    return facts


_FACTS: Final = {
    "shop": _generate_shop,
    "timetable": _generate_timetable,
    "family": _generate_family,
    "project": _generate_project,
}
