"""A scripted model for evaluations: it works the answer out of what stands in the prompt, always the same.

It knows the sentences of the four worlds, and nothing of the world at hand but what its prompt says. What it is bad at
is stated here: it thinks `STEP_TOKENS` for each step of work, and lets a ready answer to another question mislead it in
`MISLED` of all cases. It works no other text out: there it answers `unknown`.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar, cast

from pydantic import BaseModel

from circadia.answers.normalization import normalize
from circadia.evaluation.asking import CONTEXT, QUESTION, READY, Expectation, Foreseen, Reply, Rewritten
from circadia.evaluation.forms import sentences
from circadia.evaluation.world import Kind, Possible, Unknown, Values, Work, World, possible
from circadia.evaluation.worlds import WORLDS
from circadia.gateway.answer_judge import SameQuestions
from circadia.llm.mind import Prompt, Unusable
from circadia.llm.usage import Usage

T = TypeVar("T", bound=BaseModel)

BYTES_A_TOKEN: Final = 4
"""About what tokenizers make of English."""
STEP_TOKENS: Final = 30
"""That it thinks for each step, beside what it writes: a fact looked up, a sum, a look at a ready answer."""
MISLED: Final = 0.2
"""Share of the ready answers to other questions that it takes for the answer."""
DERIVED: Final = 30
"""Results that it states in a learned context, the likeliest first."""
PHRASINGS: Final = 2
"""Wordings in which it expects a question; people use more."""
KEPT: Final = 64
"""Contexts whose reading is kept."""
UNKNOWN: Final = "unknown"
COUNT: Final = re.compile(r"the (\d+) most likely questions")
_READY: Final = re.compile(r"Question: (.*)\nReasoning: .*\nAnswer: (.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """What it makes of a context."""

    world: World
    facts: Mapping[tuple[str, str], str]
    """Values, by relation and thing."""
    known: Mapping[tuple[str, str], str]
    """Answers that the context states, by kind of question and what stands in its gaps."""
    focus: str | None
    """What people ask for most, if it says so."""


class ScriptedModel:
    """Answers what an evaluation asks."""

    def __init__(self) -> None:
        self.name = "scripted"
        self.upstream = "scripted"

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return the answer. Raises Unusable: it is no question of an evaluation."""
        steps = 0
        if output is Reply:
            steps, answer = replied(prompt.data)
        elif output is Rewritten:
            steps, answer = rewritten(prompt.data)
        elif output is Expectation:
            count = COUNT.search(prompt.rules)
            answer = expected(prompt.data, int(count[1]) if count else 0)
        elif output is SameQuestions:
            answer = same_questions(prompt.data)
        else:
            raise Unusable(f"it cannot answer {output.__name__}")
        thought = STEP_TOKENS * steps
        return cast("T", answer), Usage(
            input_tokens=-(-prompt.bytes // BYTES_A_TOKEN),
            output_tokens=-(-len(answer.model_dump_json().encode()) // BYTES_A_TOKEN) + thought,
            reasoning_tokens=thought,
        )

    def price(self, used: Usage) -> int | None:
        """Return 0: it costs nothing."""
        return 0

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        """Return 0: it costs nothing."""
        return 0


def replied(data: str) -> tuple[int, Reply]:
    """Return how many steps the answer took, and the answer."""
    context, rest = _part(data, CONTEXT, QUESTION), _part(data, QUESTION, "</data")
    question, _, beside = rest.partition(READY)
    question, ready = question.strip(), _READY.search(beside)
    read, lines = reading(context), list[str]()
    if ready is not None:
        same = _same(read, question, ready[1])
        lines.append(
            "the ready answer is for the same question" if same else "the ready answer is for another question"
        )
        if same or _drawn(question, ready[1]) < MISLED:
            return 1, Reply(reasoning="the ready answer says so", answer=ready[2].strip())
    answer = _worked(read, question, lines)
    return max(len(lines), 1), Reply(reasoning="; ".join(lines), answer=answer)


def rewritten(data: str) -> tuple[int, Rewritten]:
    """Return how many steps the learned context took, and the context: its facts, and the likeliest results."""
    context = _part(data, CONTEXT, "</data")
    read = reading(context)
    if read is None:
        return 1, Rewritten(context=context)
    kept = [each for each in sentences(context) if _tells(read.world, each)]
    every = [each for each in possible(read.world, read.facts, read.focus) if len(each.lines) > 1]
    likely = sorted(every, key=lambda each: -each.likely)[:DERIVED]
    stated = [each.kind.learned.say({**each.values, _answer_gap(each.kind): each.answer}) for each in likely]
    return sum(len(each.lines) for each in likely), Rewritten(context="\n".join([*kept, *stated]))


def expected(data: str, count: int) -> Expectation:
    """Return the likeliest questions."""
    read = reading(_part(data, CONTEXT, "</data"))
    every = [] if read is None else possible(read.world, read.facts, read.focus)
    likely = sorted(every, key=lambda each: -each.likely)[:count]
    return Expectation(questions=[_foreseen(each) for each in likely])


def _foreseen(question: Possible) -> Foreseen:
    said = [form.say(question.values) for form in question.kind.wordings[:PHRASINGS]]
    return Foreseen(question=said[0], other_wordings=said[1:])


@lru_cache(maxsize=KEPT)
def reading(context: str) -> Read | None:
    """Return what a context tells; none if it is of no world that is known."""
    said = list(sentences(context))
    found = [_of_world(world, said) for world in WORLDS]
    best = max(found, key=lambda each: len(each.facts) + len(each.known))
    return best if best.facts or best.known else None


def _of_world(world: World, said: list[str]) -> Read:
    facts: dict[tuple[str, str], str] = {}
    known: dict[tuple[str, str], str] = {}
    focus: str | None = None
    for sentence in said:
        for told in world.told:
            values = told.form.read(sentence)
            if values is not None:
                facts |= {(gap, values[told.thing]): each for gap, each in values.items() if gap != told.thing}
        for kind in world.kinds:
            stated = kind.learned.read(sentence)
            if stated is not None:
                known[kind.name, _place(stated)] = stated[_answer_gap(kind)]
        if (named := world.focus.read(sentence)) is not None:
            focus = named["focus"]
    return Read(world=world, facts=facts, known=known, focus=focus)


def _tells(world: World, sentence: str) -> bool:
    forms = [*(told.form for told in world.told), *(kind.learned for kind in world.kinds)]
    return any(form.read(sentence) is not None for form in forms)


def _answer_gap(kind: Kind) -> str:
    return next(gap for gap in kind.learned.gaps if gap.startswith("answer"))


def _place(values: Values) -> str:
    return "|".join(f"{gap}={values[gap].casefold()}" for gap in sorted(values) if not gap.startswith("answer"))


def _understood(world: World, question: str) -> tuple[Kind, Values] | None:
    """Return what a question asks for; none if it is no question of the world."""
    for kind in world.kinds:
        for form in kind.wordings:
            values = form.read(question)
            if values is not None:
                return kind, values
    return None


def _worked(read: Read | None, question: str, lines: list[str]) -> str:
    """Return the answer and write down its steps."""
    understood = None if read is None else _understood(read.world, question)
    if read is None or understood is None:
        lines.append("the context is not of a kind that can be read")
        return UNKNOWN
    kind, values = understood
    known = read.known.get((kind.name, _place(values)))
    if known is not None:
        lines.append(f"the context states it: {known}")
        return known
    work = Work(facts=read.facts)
    try:
        answer = kind.program(work, values)
    except Unknown as error:
        lines += [*work.lines, f"not told: {error}"]
        return UNKNOWN
    lines += work.lines
    return answer


def _same(read: Read | None, question: str, other: str) -> bool:
    """Return whether both ask for the same: word for word, or as it understands them."""
    if normalize(question).equals(normalize(other)):
        return True
    return read is not None and _same_in(read.world, question, other)


def same_questions(data: str) -> SameQuestions:
    """Return which of the numbered questions ask the same, in any of the worlds."""
    asked = re.search(r"^question: (.*)$", data, re.M)
    listed = re.findall(r"^(\d+)\. (.*)$", data, re.M) if asked is not None else []
    return SameQuestions(
        same=[
            int(number)
            for number, text in listed
            if asked is not None and any(_same_in(world, asked[1], text) for world in WORLDS)
        ]
    )


def _same_in(world: World, question: str, other: str) -> bool:
    one, two = _understood(world, question), _understood(world, other)
    return one is not None and two is not None and (one[0].name, _place(one[1])) == (two[0].name, _place(two[1]))


def _drawn(question: str, other: str) -> float:
    """Return a number from 0 to 1 that only the two texts decide."""
    return int.from_bytes(hashlib.sha256(f"{question}\0{other}".encode()).digest()[:4]) / 2**32


def _part(data: str, begin: str, end: str) -> str:
    """Return what stands between two marks: after the first one of the one, before the last of the other."""
    _, _, after = data.partition(begin)
    before, found, _ = after.rpartition(end)
    return (before if found else after).strip()
