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

from circadia.evaluation.forms import Form

Values = Mapping[str, str]
"""What stands in the gaps, by gap."""
SURE: Final = 0.4
"""Share of the questions about one thing that ask for the thing that people ask for most, where the text names it."""
AMOUNTS: Final = range(2, 10)
"""Numbers that people put into their questions."""
OF: Final = " of"
"""Ends the name of a relation that is read from value to thing."""
MINUTES_AN_HOUR: Final = 60
MINUTES_A_DAY: Final = 24 * 60


class Unknown(Exception):
    """A fact is not told."""


@dataclass(kw_only=True, slots=True)
class Work:
    """The way to an answer."""

    facts: Mapping[tuple[str, str], str]
    """Values, by relation and thing."""
    lines: list[str] = field(default_factory=list[str])
    """What was done, one step a line."""

    def look(self, relation: str, thing: str) -> str:
        """Return a value. Raises Unknown: it is not told."""
        value = self.facts.get((relation, thing))
        if value is None:
            raise Unknown(f"{relation} of {thing}")
        self.lines.append(f"{relation} of {thing}: {value}")
        return value

    def number(self, relation: str, thing: str) -> int:
        """Return a value that is a number. Raises Unknown: it is not told."""
        return int(self.look(relation, thing))

    def things(self, relation: str) -> Sequence[str]:
        """Return all that have a value."""
        return things(self.facts, relation)

    def step(self, line: str, result: object) -> str:
        """Write down a step that works something out, and return its result."""
        self.lines.append(f"{line} = {result}")
        return str(result)


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A kind of sentence in a context: what stands in one gap has the values of the others."""

    form: Form
    thing: str
    """Gap of what it tells of; the other gaps are relations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of question."""

    name: str
    """Unique in its world."""
    often: float
    """How often people ask so, beside the other kinds of the world."""
    wordings: Sequence[Form]
    """The question, the commonest wording first."""
    gaps: Mapping[str, str]
    """Gaps, each with the relation whose things stand in it; an empty one is for a number of the asker's."""
    learned: Form
    """How the answer is stated ahead; its gap `answer…` is for the answer."""
    program: Callable[[Work, Values], str]
    """Works it out. Raises Unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """One of them."""

    name: str
    opening: str
    """First sentence; it tells nothing."""
    told: Sequence[Told]
    focus: Form
    """Says what people ask for most; its gap is `focus`."""
    kinds: Sequence[Kind]
    remarks: Sequence[str]
    """Sentences that help with no question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Possible:
    """A question that can be asked of a world's facts."""

    kind: Kind
    values: Values
    """What stands in its gaps."""
    likely: float
    """How likely it is the next one, among all that are possible."""
    answer: str
    lines: Sequence[str]
    """How the answer follows, one step a line."""

    @property
    def same(self) -> tuple[str, Sequence[tuple[str, str]]]:
        """Return what is the same for the same question in other words."""
        return self.kind.name, sorted((gap, value.casefold()) for gap, value in self.values.items())


def possible(world: World, facts: Mapping[tuple[str, str], str], focus: str | None) -> list[Possible]:
    """Return all questions that the facts answer, in the order of the world's kinds.

    A kind is as likely as people ask so, each thing as any other but the focus, and each number as any other.
    """
    found: list[Possible] = []
    for kind in world.kinds:
        for values, likely in _filled(kind, facts, focus):
            work = Work(facts=facts)
            try:
                answer = kind.program(work, values)
            except Unknown:
                continue
            found.append(Possible(kind=kind, values=values, likely=likely, answer=answer, lines=work.lines))
    whole = sum(each.likely for each in found)
    return [replace(each, likely=each.likely / whole) for each in found]


def _filled(kind: Kind, facts: Mapping[tuple[str, str], str], focus: str | None) -> Iterator[tuple[Values, float]]:
    """Return all fillings of a kind's gaps, with how likely each is."""
    choices: list[list[tuple[str, float]]] = []
    for gap, relation in kind.gaps.items():
        every = list(things(facts, relation)) if relation else [str(amount) for amount in AMOUNTS]
        sure = SURE if relation and gap != "other" and focus in every and len(every) > 1 else 0.0
        others = (1 - sure) / max(len(every) - bool(sure), 1)
        choices.append([(each, sure if sure and each == focus else others) for each in every])
    for chosen in product(*choices):
        values = dict(zip(kind.gaps, (each for each, _ in chosen), strict=True))
        if len(set(values.values())) == len(values):
            yield values, kind.often * math.prod(likely for _, likely in chosen)


def things(facts: Mapping[tuple[str, str], str], relation: str) -> Sequence[str]:
    """Return what has a value for a relation, in the order in which it was told; for `mother of`, what is a mother."""
    if relation.endswith(OF):
        wanted = relation.removesuffix(OF)
        return list(dict.fromkeys(value for (known, _), value in facts.items() if known == wanted))
    return [thing for known, thing in facts if known == relation]


def minutes(time: str) -> int:
    """Return minutes since midnight."""
    hours, rest = time.split(":")
    return MINUTES_AN_HOUR * int(hours) + int(rest)


def clock_time(value: int) -> str:
    """Return a time of day."""
    hours, rest = divmod(value % MINUTES_A_DAY, MINUTES_AN_HOUR)
    return f"{hours:02}:{rest:02}"


def told_value(relation: str, gap: str) -> Callable[[Work, Values], str]:
    """Return a program that looks a value up."""
    return lambda work, values: work.look(relation, values[gap])


def surplus(relation: str, gap: str) -> Callable[[Work, Values], str]:
    """Return a program for by how much one has more than the other, which raises Unknown where it has not."""

    def program(work: Work, values: Values) -> str:
        one, two = work.number(relation, values[gap]), work.number(relation, values["other"])
        if one <= two:
            raise Unknown(f"{values[gap]} has not more than {values['other']}")
        return work.step(f"{one} - {two}", one - two)

    return program


def extreme(relation: str, pick: Callable[[Iterable[str]], str]) -> Callable[[Work, Values], str]:
    """Return a program for the one thing that has the most, or the least; it raises Unknown where it is not one."""

    def program(work: Work, _: Values) -> str:
        every = {thing: work.look(relation, thing).zfill(5) for thing in work.things(relation)}
        if len(every) < 2:
            raise Unknown(relation)
        best = pick(every.values())
        found = [thing for thing, value in every.items() if value == best]
        if len(found) > 1:
            raise Unknown(f"{relation} is the same of several")
        return work.step(f"{relation} of all, compared", found[0])

    return program


def worth(work: Work, values: Values) -> str:
    """Return what all of one kind of goods are worth."""
    count, price = work.number("count", values["goods"]), work.number("price", values["goods"])
    return work.step(f"{count} * {price}", count * price)


def price_of_some(work: Work, values: Values) -> str:
    """Return what some of them cost."""
    price, amount = work.number("price", values["goods"]), int(values["amount"])
    return work.step(f"{amount} * {price}", amount * price)


def remaining(work: Work, values: Values) -> str:
    """Return how many are left of them when some are sold."""
    count, amount = work.number("count", values["goods"]), int(values["amount"])
    return work.step(f"{count} - {amount}", count - amount)


def arrival(work: Work, values: Values) -> str:
    """Return when a train arrives, late or not."""
    time, lasts = work.look("time", values["town"]), work.number("minutes", values["town"])
    late = int(values.get("late", 0))
    told = f"{time} + {lasts} minutes" + (f" + {late} minutes" if late else "")
    return work.step(told, clock_time(minutes(time) + lasts + late))


def later(work: Work, values: Values) -> str:
    """Return by how many minutes a train leaves after another. Raises Unknown: it does not."""
    one, two = work.look("time", values["town"]), work.look("time", values["other"])
    between = minutes(one) - minutes(two)
    if between <= 0:
        raise Unknown(f"the train to {values['town']} does not leave later")
    return work.step(f"{one} - {two} in minutes", between)


def grandmother(work: Work, values: Values) -> str:
    """Return the mother of the mother. Raises Unknown: one is not told."""
    return work.look("mother", work.look("mother", values["child"]))


def children(work: Work, values: Values) -> str:
    """Return how many children somebody has."""
    found = [child for child in work.things("mother") if work.look("mother", child) == values["mother"]]
    return work.step(f"children whose mother is {values['mother']}", len(found))


def earliest(work: Work, values: Values) -> str:
    """Return after how many days a task is done, with all that goes before it."""
    task, total = values["task"], work.number("days", values["task"])
    while ("before", task) in work.facts:
        task = work.look("before", task)
        lasts = work.number("days", task)
        total = int(work.step(f"{total} + {lasts}", total + lasts))
    return str(total)


def workload(work: Work, values: Values) -> str:
    """Return how many days somebody works. Raises Unknown: at nothing."""
    total, found = 0, 0
    for task in work.things("worker"):
        if work.look("worker", task) == values["worker"]:
            lasts, found = work.number("days", task), found + 1
            total = int(work.step(f"{total} + {lasts}", total + lasts))
    if not found:
        raise Unknown(f"tasks of {values['worker']}")
    return str(total)


def age_in_years(work: Work, values: Values) -> str:
    """Return how old somebody will be."""
    age, amount = work.number("age", values["person"]), int(values["amount"])
    return work.step(f"{age} + {amount}", age + amount)


def delayed(work: Work, values: Values) -> str:
    """Return how long a task takes that takes longer."""
    days, amount = work.number("days", values["task"]), int(values["amount"])
    return work.step(f"{days} + {amount}", days + amount)


def forms(*texts: str) -> Sequence[Form]:
    """Return the wordings of one question."""
    return tuple(Form(text) for text in texts)
