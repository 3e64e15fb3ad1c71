"""What a small world is made of: what is told of it, what people ask, and how an answer follows from what is told.

A kind of question has a program, which looks facts up, one after the other, and works out the answer. Both sides run
it: the generator on the facts that it has drawn, for the key, and the scripted model on the facts that it has read in
its prompt, so that it knows what stands there and nothing else.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from circadia.evaluation.synthetic.sentence_templates import SentenceTemplate

Values = Mapping[str, str]
"""What stands in the gaps, by gap."""
FOCUS_SHARE: Final = 0.4
"""Share of the questions about one thing that ask for the thing that people ask for most, where the text names it."""
AMOUNTS: Final = range(2, 10)
"""Numbers that people put into their questions."""
OF: Final = " of"
"""Ends the name of a relation that is read from value to thing."""
MINUTES_AN_HOUR: Final = 60
MINUTES_A_DAY: Final = 24 * 60


class FactNotStated(Exception):
    """A fact is not told."""


@dataclass(kw_only=True, slots=True)
class Derivation:
    """The way to an answer."""

    facts: Mapping[tuple[str, str], str]
    """Values, by relation and thing."""
    lines: list[str] = field(default_factory=list[str])
    """What was done, one step a line."""

    def look_up(self, relation: str, thing: str) -> str:
        """Return a value. Raises FactNotStated: it is not told."""
        value = self.facts.get((relation, thing))
        if value is None:
            raise FactNotStated(f"{relation} of {thing}")
        self.lines.append(f"{relation} of {thing}: {value}")
        return value

    def look_up_number(self, relation: str, thing: str) -> int:
        """Return a value that is a number. Raises FactNotStated: it is not told."""
        return int(self.look_up(relation, thing))

    def list_things(self, relation: str) -> Sequence[str]:
        """Return all that have a value."""
        return find_things(self.facts, relation)

    def add_step(self, line: str, result: object) -> str:
        """Write down a step that works something out, and return its result."""
        self.lines.append(f"{line} = {result}")
        return str(result)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentencePattern:
    """A kind of sentence in a context: what stands in one gap has the values of the others."""

    form: SentenceTemplate
    thing: str
    """Gap of what it tells of; the other gaps are relations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionKind:
    """A kind of question."""

    name: str
    """Unique in its world."""
    frequency: float
    """How often people ask so, beside the other kinds of the world."""
    wordings: Sequence[SentenceTemplate]
    """The question, the commonest wording first."""
    gaps: Mapping[str, str]
    """Gaps, each with the relation whose things stand in it; an empty one is for a number of the asker's."""
    answer_template: SentenceTemplate
    """How the answer is stated ahead; its gap `answer…` is for the answer."""
    program: Callable[[Derivation, Values], str]
    """Works it out. Raises Unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """One of them."""

    name: str
    opening: str
    """First sentence; it tells nothing."""
    fact_sentences: Sequence[SentencePattern]
    focus: SentenceTemplate
    """Says what people ask for most; its gap is `focus`."""
    kinds: Sequence[QuestionKind]
    remarks: Sequence[str]
    """Sentences that help with no question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PossibleQuestion:
    """A question that can be asked of a world's facts."""

    kind: QuestionKind
    values: Values
    """What stands in its gaps."""
    likely: float
    """How likely it is the next one, among all that are possible."""
    answer: str
    lines: Sequence[str]
    """How the answer follows, one step a line."""

    @property
    def identity_key(self) -> tuple[str, Sequence[tuple[str, str]]]:
        """Return what is the same for the same question in other words."""
        return self.kind.name, sorted((gap, value.casefold()) for gap, value in self.values.items())


def list_possible_questions(
    world: World, facts: Mapping[tuple[str, str], str], focus: str | None
) -> list[PossibleQuestion]:
    """Return all questions that the facts answer, in the order of the world's kinds.

    A kind is as likely as people ask so, each thing as any other but the focus, and each number as any other.
    """
    found: list[PossibleQuestion] = []
    for kind in world.kinds:
        for values, likely in _fill_gaps(kind, facts, focus):
            work = Derivation(facts=facts)
            try:
                answer = kind.program(work, values)
            except FactNotStated:
                continue
            found.append(PossibleQuestion(kind=kind, values=values, likely=likely, answer=answer, lines=work.lines))
    whole = sum(each.likely for each in found)
    return [replace(each, likely=each.likely / whole) for each in found]


def _fill_gaps(
    kind: QuestionKind, facts: Mapping[tuple[str, str], str], focus: str | None
) -> Iterator[tuple[Values, float]]:
    """Return all fillings of a kind's gaps, with how likely each is."""
    choices: list[list[tuple[str, float]]] = []
    for gap, relation in kind.gaps.items():
        every = list(find_things(facts, relation)) if relation else [str(amount) for amount in AMOUNTS]
        sure = FOCUS_SHARE if relation and gap != "other" and focus in every and len(every) > 1 else 0.0
        others = (1 - sure) / max(len(every) - bool(sure), 1)
        choices.append([(each, sure if sure and each == focus else others) for each in every])
    for chosen in product(*choices):
        values = dict(zip(kind.gaps, (each for each, _ in chosen), strict=True))
        if len(set(values.values())) == len(values):
            yield values, kind.frequency * math.prod(likely for _, likely in chosen)


def find_things(facts: Mapping[tuple[str, str], str], relation: str) -> Sequence[str]:
    """Return what has a value for a relation, in the order in which it was told; for `mother of`, what is a mother."""
    if relation.endswith(OF):
        wanted = relation.removesuffix(OF)
        return list(dict.fromkeys(value for (known, _), value in facts.items() if known == wanted))
    return [thing for known, thing in facts if known == relation]


def parse_minutes(time: str) -> int:
    """Return minutes since midnight."""
    hours, rest = time.split(":")
    return MINUTES_AN_HOUR * int(hours) + int(rest)


def format_clock_time(value: int) -> str:
    """Return a time of day."""
    hours, rest = divmod(value % MINUTES_A_DAY, MINUTES_AN_HOUR)
    return f"{hours:02}:{rest:02}"


def lookup_program(relation: str, gap: str) -> Callable[[Derivation, Values], str]:
    """Return a program that looks a value up."""
    return lambda work, values: work.look_up(relation, values[gap])


def surplus_program(relation: str, gap: str) -> Callable[[Derivation, Values], str]:
    """Return a program for by how much one has more than the other, which raises Unknown where it has not."""

    def program(work: Derivation, values: Values) -> str:
        one, two = work.look_up_number(relation, values[gap]), work.look_up_number(relation, values["other"])
        if one <= two:
            raise FactNotStated(f"{values[gap]} has not more than {values['other']}")
        return work.add_step(f"{one} - {two}", one - two)

    return program


def extreme_program(relation: str, pick: Callable[[Iterable[str]], str]) -> Callable[[Derivation, Values], str]:
    """Return a program for the one thing that has the most, or the least; it raises Unknown where it is not one."""

    def program(work: Derivation, _: Values) -> str:
        every = {thing: work.look_up(relation, thing).zfill(5) for thing in work.list_things(relation)}
        if len(every) < 2:
            raise FactNotStated(relation)
        best = pick(every.values())
        found = [thing for thing, value in every.items() if value == best]
        if len(found) > 1:
            raise FactNotStated(f"{relation} is the same of several")
        return work.add_step(f"{relation} of all, compared", found[0])

    return program


def compute_worth(work: Derivation, values: Values) -> str:
    """Return what all of one kind of goods are worth."""
    count, price = work.look_up_number("count", values["goods"]), work.look_up_number("price", values["goods"])
    return work.add_step(f"{count} * {price}", count * price)


def compute_price(work: Derivation, values: Values) -> str:
    """Return what some of them cost."""
    price, amount = work.look_up_number("price", values["goods"]), int(values["amount"])
    return work.add_step(f"{amount} * {price}", amount * price)


def compute_remaining(work: Derivation, values: Values) -> str:
    """Return how many are left of them when some are sold."""
    count, amount = work.look_up_number("count", values["goods"]), int(values["amount"])
    return work.add_step(f"{count} - {amount}", count - amount)


def compute_arrival(work: Derivation, values: Values) -> str:
    """Return when a train arrives, late or not."""
    time, lasts = work.look_up("time", values["town"]), work.look_up_number("minutes", values["town"])
    late = int(values.get("late", 0))
    told = f"{time} + {lasts} minutes" + (f" + {late} minutes" if late else "")
    return work.add_step(told, format_clock_time(parse_minutes(time) + lasts + late))


def compute_minutes_later(work: Derivation, values: Values) -> str:
    """Return by how many minutes a train leaves after another. Raises FactNotStated: it does not."""
    one, two = work.look_up("time", values["town"]), work.look_up("time", values["other"])
    between = parse_minutes(one) - parse_minutes(two)
    if between <= 0:
        raise FactNotStated(f"the train to {values['town']} does not leave later")
    return work.add_step(f"{one} - {two} in minutes", between)


def find_grandmother(work: Derivation, values: Values) -> str:
    """Return the mother of the mother. Raises FactNotStated: one is not told."""
    return work.look_up("mother", work.look_up("mother", values["child"]))


def count_children(work: Derivation, values: Values) -> str:
    """Return how many children somebody has."""
    found = [child for child in work.list_things("mother") if work.look_up("mother", child) == values["mother"]]
    return work.add_step(f"children whose mother is {values['mother']}", len(found))


def compute_earliest_day(work: Derivation, values: Values) -> str:
    """Return after how many days a task is done, with all that goes before it."""
    task, total = values["task"], work.look_up_number("days", values["task"])
    while ("before", task) in work.facts:
        task = work.look_up("before", task)
        lasts = work.look_up_number("days", task)
        total = int(work.add_step(f"{total} + {lasts}", total + lasts))
    return str(total)


def compute_workload(work: Derivation, values: Values) -> str:
    """Return how many days somebody works. Raises FactNotStated: at nothing."""
    total, found = 0, 0
    for task in work.list_things("worker"):
        if work.look_up("worker", task) == values["worker"]:
            lasts, found = work.look_up_number("days", task), found + 1
            total = int(work.add_step(f"{total} + {lasts}", total + lasts))
    if not found:
        raise FactNotStated(f"tasks of {values['worker']}")
    return str(total)


def compute_age(work: Derivation, values: Values) -> str:
    """Return how old somebody will be."""
    age, amount = work.look_up_number("age", values["person"]), int(values["amount"])
    return work.add_step(f"{age} + {amount}", age + amount)


def compute_delayed_days(work: Derivation, values: Values) -> str:
    """Return how long a task takes that takes longer."""
    days, amount = work.look_up_number("days", values["task"]), int(values["amount"])
    return work.add_step(f"{days} + {amount}", days + amount)


def build_templates(*texts: str) -> Sequence[SentenceTemplate]:
    """Return the wordings of one question."""
    return tuple(SentenceTemplate(text) for text in texts)
