"""The parts of a small world: its facts, the questions about it, and how their answers follow from the facts.

Each kind of question has a program that looks facts up and derives the answer. The generator runs it on the generated
facts to get the key; the scripted model runs it on the facts parsed from its prompt, so it knows nothing else.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Final

NUMBERS: Final = frozenset(("count", "price", "amount", "minutes", "platform", "late", "age", "days", "answer_number"))
"""Gaps for whole numbers."""
TIMES: Final = frozenset(("time", "answer_time"))
"""Gaps for times of day."""
_GAP: Final = re.compile(r"\{(\w+)\}")
_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")


class SentenceTemplate:
    """One sentence with gaps, such as `The train to {town} leaves at {time}`."""

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.gaps: Final = tuple(_GAP.findall(text))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = _GAP.split(self.text.rstrip(".?"))
        return re.compile(
            "".join(_gap_pattern(part) if at % 2 else re.escape(part) for at, part in enumerate(parts)), re.I
        )

    def fill_gaps(self, values: Mapping[str, object]) -> str:
        return self.text.format_map(values)

    def parse_sentence(self, sentence: str) -> Mapping[str, str] | None:
        """Return the values in the gaps; None if the sentence does not match."""
        match = self._pattern.fullmatch(sentence.strip().rstrip(".?!"))
        return None if match is None else match.groupdict()


def _gap_pattern(gap: str) -> str:
    if gap in NUMBERS:
        return rf"(?P<{gap}>\d+)"
    return rf"(?P<{gap}>\d\d:\d\d)" if gap in TIMES else rf"(?P<{gap}>[a-z]+)"


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, without list marks."""
    return (sentence for part in _END.split(text) if (sentence := part.strip().lstrip("-*• ")))


Values = Mapping[str, str]
"""Values by gap."""
FOCUS_SHARE: Final = 0.4
"""Share of the questions about one thing that are about the focus, if the context names one."""
AMOUNTS: Final = range(2, 10)
"""Numbers in people's questions."""
OF: Final = " of"
"""Suffix of a relation that is read from value to thing."""
MINUTES_AN_HOUR: Final = 60
MINUTES_A_DAY: Final = 24 * 60


class FactNotStated(Exception):
    """A fact that the answer needs is missing."""


@dataclass(kw_only=True, slots=True)
class Derivation:
    facts: Mapping[tuple[str, str], str]
    """Values by relation and thing."""
    lines: list[str] = field(default_factory=list[str])

    def look_up(self, relation: str, thing: str) -> str:
        """Return a value, and record the step. Raises FactNotStated."""
        value = self.facts.get((relation, thing))
        if value is None:
            raise FactNotStated(f"{relation} of {thing}")
        self.lines.append(f"{relation} of {thing}: {value}")
        return value

    def look_up_number(self, relation: str, thing: str) -> int:
        return int(self.look_up(relation, thing))

    def list_things(self, relation: str) -> Sequence[str]:
        return find_things(self.facts, relation)

    def add_step(self, line: str, result: object) -> str:
        """Record a derivation step, and return its result."""
        self.lines.append(f"{line} = {result}")
        return str(result)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentencePattern:
    """A kind of sentence in a context: one gap is the thing, the others are its values."""

    form: SentenceTemplate
    thing: str
    """Gap of the thing; the other gaps are relations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionKind:
    name: str
    """Unique in its world."""
    frequency: float
    """Relative to the other kinds in the world."""
    wordings: Sequence[SentenceTemplate]
    """Most common wording first."""
    gaps: Mapping[str, str]
    """The relation whose things fill each gap; empty for a number chosen by the asker."""
    answer_template: SentenceTemplate
    """States the answer ahead, in its gap `answer…`."""
    program: Callable[[Derivation, Values], str]
    """Derives the answer. Raises FactNotStated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    name: str
    opening: str
    """First sentence, without facts."""
    fact_sentences: Sequence[SentencePattern]
    focus: SentenceTemplate
    """Names what people ask about most, in its gap `focus`."""
    kinds: Sequence[QuestionKind]
    remarks: Sequence[str]
    """Sentences without facts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PossibleQuestion:
    """A question about the facts of a world, with its answer."""

    kind: QuestionKind
    values: Values
    """Values in its gaps."""
    likely: float
    """Probability among all possible questions."""
    answer: str
    lines: Sequence[str]
    """Derivation of the answer, one step a line."""


def list_possible_questions(
    world: World, facts: Mapping[tuple[str, str], str], focus: str | None
) -> list[PossibleQuestion]:
    """Return all questions that the facts answer, in the order of the world's kinds.

    Kinds are weighted by frequency; within a kind, things other than the focus, and numbers, are equally likely.
    """
    possible: list[PossibleQuestion] = []
    for kind in world.kinds:
        for values, likely in _fill_gaps(kind, facts, focus):
            work = Derivation(facts=facts)
            try:
                answer = kind.program(work, values)
            except FactNotStated:
                continue
            possible.append(PossibleQuestion(kind=kind, values=values, likely=likely, answer=answer, lines=work.lines))
    whole = sum(question.likely for question in possible)
    return [replace(question, likely=question.likely / whole) for question in possible]


def _fill_gaps(
    kind: QuestionKind, facts: Mapping[tuple[str, str], str], focus: str | None
) -> Iterator[tuple[Values, float]]:
    """Yield all fillings of a kind's gaps with their weights."""
    choices: list[list[tuple[str, float]]] = []
    for gap, relation in kind.gaps.items():
        every = list(find_things(facts, relation)) if relation else [str(amount) for amount in AMOUNTS]
        sure = FOCUS_SHARE if relation and gap != "other" and focus in every and len(every) > 1 else 0.0
        others = (1 - sure) / max(len(every) - bool(sure), 1)
        choices.append([(value, sure if sure and value == focus else others) for value in every])
    for chosen in product(*choices):
        values = dict(zip(kind.gaps, (value for value, _ in chosen), strict=True))
        if len(set(values.values())) == len(values):
            yield values, kind.frequency * math.prod(likely for _, likely in chosen)


def find_things(facts: Mapping[tuple[str, str], str], relation: str) -> Sequence[str]:
    """Return the things with a value for a relation, in order; for `mother of`, the mothers."""
    if relation.endswith(OF):
        base_relation = relation.removesuffix(OF)
        return list(dict.fromkeys(value for (known, _), value in facts.items() if known == base_relation))
    return [thing for known, thing in facts if known == relation]


def parse_minutes(time: str) -> int:
    """Return the minutes since midnight of a time such as `08:30`."""
    hours, rest = time.split(":")
    return MINUTES_AN_HOUR * int(hours) + int(rest)


def format_clock_time(value: int) -> str:
    hours, rest = divmod(value % MINUTES_A_DAY, MINUTES_AN_HOUR)
    return f"{hours:02}:{rest:02}"


def lookup_program(relation: str, gap: str) -> Callable[[Derivation, Values], str]:
    return lambda work, values: work.look_up(relation, values[gap])


def surplus_program(relation: str, gap: str) -> Callable[[Derivation, Values], str]:
    """Return a program for how much one exceeds the other; it raises FactNotStated if it does not."""

    def program(work: Derivation, values: Values) -> str:
        one, two = work.look_up_number(relation, values[gap]), work.look_up_number(relation, values["other"])
        if one <= two:
            raise FactNotStated(f"{values[gap]} has not more than {values['other']}")
        return work.add_step(f"{one} - {two}", one - two)

    return program


def extreme_program(relation: str, pick: Callable[[Iterable[str]], str]) -> Callable[[Derivation, Values], str]:
    """Return a program for the thing with the extreme value; it raises FactNotStated without a single one."""

    def program(work: Derivation, _: Values) -> str:
        every = {thing: work.look_up(relation, thing).zfill(5) for thing in work.list_things(relation)}
        if len(every) < 2:
            raise FactNotStated(relation)
        best = pick(every.values())
        best_things = [thing for thing, value in every.items() if value == best]
        if len(best_things) > 1:
            raise FactNotStated(f"{relation} is the same of several")
        return work.add_step(f"{relation} of all, compared", best_things[0])

    return program


def compute_worth(work: Derivation, values: Values) -> str:
    count, price = work.look_up_number("count", values["goods"]), work.look_up_number("price", values["goods"])
    return work.add_step(f"{count} * {price}", count * price)


def compute_price(work: Derivation, values: Values) -> str:
    price, amount = work.look_up_number("price", values["goods"]), int(values["amount"])
    return work.add_step(f"{amount} * {price}", amount * price)


def compute_remaining(work: Derivation, values: Values) -> str:
    count, amount = work.look_up_number("count", values["goods"]), int(values["amount"])
    return work.add_step(f"{count} - {amount}", count - amount)


def compute_arrival(work: Derivation, values: Values) -> str:
    time, lasts = work.look_up("time", values["town"]), work.look_up_number("minutes", values["town"])
    late = int(values.get("late", 0))
    line = f"{time} + {lasts} minutes" + (f" + {late} minutes" if late else "")
    return work.add_step(line, format_clock_time(parse_minutes(time) + lasts + late))


def compute_minutes_later(work: Derivation, values: Values) -> str:
    """Return by how many minutes a train leaves after another. Raises FactNotStated: it does not."""
    one, two = work.look_up("time", values["town"]), work.look_up("time", values["other"])
    between = parse_minutes(one) - parse_minutes(two)
    if between <= 0:
        raise FactNotStated(f"the train to {values['town']} does not leave later")
    return work.add_step(f"{one} - {two} in minutes", between)


def find_grandmother(work: Derivation, values: Values) -> str:
    return work.look_up("mother", work.look_up("mother", values["child"]))


def count_children(work: Derivation, values: Values) -> str:
    children = [child for child in work.list_things("mother") if work.look_up("mother", child) == values["mother"]]
    return work.add_step(f"children whose mother is {values['mother']}", len(children))


def compute_earliest_day(work: Derivation, values: Values) -> str:
    """Return the days until a task is done, including all tasks before it."""
    task, total = values["task"], work.look_up_number("days", values["task"])
    while ("before", task) in work.facts:
        task = work.look_up("before", task)
        lasts = work.look_up_number("days", task)
        total = int(work.add_step(f"{total} + {lasts}", total + lasts))
    return str(total)


def compute_workload(work: Derivation, values: Values) -> str:
    """Return somebody's days of work. Raises FactNotStated: no task."""
    total, task_count = 0, 0
    for task in work.list_things("worker"):
        if work.look_up("worker", task) == values["worker"]:
            lasts, task_count = work.look_up_number("days", task), task_count + 1
            total = int(work.add_step(f"{total} + {lasts}", total + lasts))
    if not task_count:
        raise FactNotStated(f"tasks of {values['worker']}")
    return str(total)


def compute_age(work: Derivation, values: Values) -> str:
    age, amount = work.look_up_number("age", values["person"]), int(values["amount"])
    return work.add_step(f"{age} + {amount}", age + amount)


def compute_delayed_days(work: Derivation, values: Values) -> str:
    days, amount = work.look_up_number("days", values["task"]), int(values["amount"])
    return work.add_step(f"{days} + {amount}", days + amount)
