"""A scripted model for evaluations that derives each answer from its prompt, deterministically.

It knows the sentences of the four worlds, and only the facts in its prompt. It spends `STEP_TOKENS` on each step of
reasoning, and takes a ready answer to another question for the right one in `MISLED_SHARE` of all cases. To any other
text it answers `unknown`.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar, cast

from pydantic import BaseModel

from circadia.answers.question_text import normalize
from circadia.evaluation.arms import (
    CONTEXT,
    QUESTION,
    READY,
    LikelyQuestion,
    LikelyQuestions,
    ReasonedAnswer,
    RewrittenContext,
)
from circadia.evaluation.world import (
    Derivation,
    FactNotStated,
    PossibleQuestion,
    QuestionKind,
    Values,
    World,
    list_possible_questions,
    split_sentences,
)
from circadia.evaluation.worlds import WORLDS
from circadia.gateway.answers.judging import SameQuestions
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.llm.usage import Usage

T = TypeVar("T", bound=BaseModel)

BYTES_A_TOKEN: Final = 4
"""About as tokenizers count English."""
STEP_TOKENS: Final = 30
"""Reasoning tokens a step, in addition to the answer: a fact looked up, a sum, a check of a ready answer."""
MISLED_SHARE: Final = 0.2
"""Share of ready answers to other questions that mislead it."""
DERIVED_RESULTS: Final = 30
"""Results in a learned context, the likeliest first."""
PHRASINGS: Final = 2
"""Wordings in which it expects a question; people use more."""
CACHED_CONTEXTS: Final = 64
UNKNOWN: Final = "unknown"
COUNT: Final = re.compile(r"the (\d+) most likely questions")
_READY: Final = re.compile(r"Question: (.*)\nReasoning: .*\nAnswer: (.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedContext:
    world: World
    facts: Mapping[tuple[str, str], str]
    """Values by relation and thing."""
    stated_answers: Mapping[tuple[str, str], str]
    """Stated answers by kind of question and the values in its gaps."""
    focus: str | None
    """The thing that people ask about most, if stated."""


class ScriptedEvalModel:
    def __init__(self) -> None:
        self.name = "scripted"
        self.upstream = "scripted"
        self.thinking_tokens = 0

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return the answer. Raises ModelAnswerError: the prompt is not an evaluation's."""
        steps = 0
        if output is ReasonedAnswer:
            steps, answer = build_reply(prompt.data)
        elif output is RewrittenContext:
            steps, answer = build_rewritten_context(prompt.data)
        elif output is LikelyQuestions:
            count = COUNT.search(prompt.rules)
            answer = predict_likely_questions(prompt.data, int(count[1]) if count else 0)
        elif output is SameQuestions:
            answer = find_same_questions(prompt.data)
        else:
            raise ModelAnswerError(f"it cannot answer {output.__name__}")
        thought = STEP_TOKENS * steps
        return cast("T", answer), Usage(
            input_tokens=-(-prompt.bytes // BYTES_A_TOKEN),
            output_tokens=-(-len(answer.model_dump_json().encode()) // BYTES_A_TOKEN) + thought,
            reasoning_tokens=thought,
        )

    def price(self, used: Usage) -> int | None:
        return 0

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return 0


def build_reply(data: str) -> tuple[int, ReasonedAnswer]:
    """Return the number of reasoning steps, and the answer."""
    context, rest = _text_between(data, CONTEXT, QUESTION), _text_between(data, QUESTION, "</data")
    question, _, beside = rest.partition(READY)
    question, ready = question.strip(), _READY.search(beside)
    read, lines = parse_context(context), list[str]()
    if ready is not None:
        same = _is_same_question(read, question, ready[1])
        lines.append(
            "the ready answer is for the same question" if same else "the ready answer is for another question"
        )
        if same or _hash_fraction(question, ready[1]) < MISLED_SHARE:
            return 1, ReasonedAnswer(reasoning="the ready answer says so", answer=ready[2].strip())
    answer = _work_out_answer(read, question, lines)
    return max(len(lines), 1), ReasonedAnswer(reasoning="; ".join(lines), answer=answer)


def build_rewritten_context(data: str) -> tuple[int, RewrittenContext]:
    """Return the number of reasoning steps, and a context of facts and the likeliest results."""
    context = _text_between(data, CONTEXT, "</data")
    read = parse_context(context)
    if read is None:
        return 1, RewrittenContext(context=context)
    sentences = [sentence for sentence in split_sentences(context) if _is_fact_sentence(read.world, sentence)]
    every = [
        question for question in list_possible_questions(read.world, read.facts, read.focus) if len(question.lines) > 1
    ]
    likely = sorted(every, key=lambda question: -question.likely)[:DERIVED_RESULTS]
    stated = [
        question.kind.answer_template.fill_gaps({**question.values, _answer_gap(question.kind): question.answer})
        for question in likely
    ]
    return sum(len(question.lines) for question in likely), RewrittenContext(context="\n".join([*sentences, *stated]))


def predict_likely_questions(data: str, count: int) -> LikelyQuestions:
    read = parse_context(_text_between(data, CONTEXT, "</data"))
    every = [] if read is None else list_possible_questions(read.world, read.facts, read.focus)
    likely = sorted(every, key=lambda question: -question.likely)[:count]
    return LikelyQuestions(questions=[_build_likely_question(question) for question in likely])


def _build_likely_question(question: PossibleQuestion) -> LikelyQuestion:
    wordings = [form.fill_gaps(question.values) for form in question.kind.wordings[:PHRASINGS]]
    return LikelyQuestion(question=wordings[0], other_wordings=wordings[1:])


@lru_cache(maxsize=CACHED_CONTEXTS)
def parse_context(context: str) -> ParsedContext | None:
    """Return the facts in a context; None if it is not from a known world."""
    sentences = list(split_sentences(context))
    candidates = [_parse_for_world(world, sentences) for world in WORLDS]
    best = max(candidates, key=lambda reading: len(reading.facts) + len(reading.stated_answers))
    return best if best.facts or best.stated_answers else None


def _parse_for_world(world: World, sentences: list[str]) -> ParsedContext:
    facts: dict[tuple[str, str], str] = {}
    stated_answers: dict[tuple[str, str], str] = {}
    focus: str | None = None
    for sentence in sentences:
        for pattern in world.fact_sentences:
            values = pattern.form.parse_sentence(sentence)
            if values is not None:
                facts |= {(gap, values[pattern.thing]): value for gap, value in values.items() if gap != pattern.thing}
        for kind in world.kinds:
            stated = kind.answer_template.parse_sentence(sentence)
            if stated is not None:
                stated_answers[kind.name, _question_key(stated)] = stated[_answer_gap(kind)]
        if (named := world.focus.parse_sentence(sentence)) is not None:
            focus = named["focus"]
    return ParsedContext(world=world, facts=facts, stated_answers=stated_answers, focus=focus)


def _is_fact_sentence(world: World, sentence: str) -> bool:
    forms = [*(pattern.form for pattern in world.fact_sentences), *(kind.answer_template for kind in world.kinds)]
    return any(form.parse_sentence(sentence) is not None for form in forms)


def _answer_gap(kind: QuestionKind) -> str:
    return next(gap for gap in kind.answer_template.gaps if gap.startswith("answer"))


def _question_key(values: Values) -> str:
    return "|".join(f"{gap}={values[gap].casefold()}" for gap in sorted(values) if not gap.startswith("answer"))


def _parse_question(world: World, question: str) -> tuple[QuestionKind, Values] | None:
    for kind in world.kinds:
        for form in kind.wordings:
            values = form.parse_sentence(question)
            if values is not None:
                return kind, values
    return None


def _work_out_answer(read: ParsedContext | None, question: str, lines: list[str]) -> str:
    """Return the answer, and append its steps to `lines`."""
    understood = None if read is None else _parse_question(read.world, question)
    if read is None or understood is None:
        lines.append("the context is not of a kind that can be read")
        return UNKNOWN
    kind, values = understood
    known = read.stated_answers.get((kind.name, _question_key(values)))
    if known is not None:
        lines.append(f"the context states it: {known}")
        return known
    work = Derivation(facts=read.facts)
    try:
        answer = kind.program(work, values)
    except FactNotStated as error:
        lines += [*work.lines, f"not told: {error}"]
        return UNKNOWN
    lines += work.lines
    return answer


def _is_same_question(read: ParsedContext | None, question: str, other: str) -> bool:
    """Return whether both ask the same, as texts or as questions of the world."""
    if normalize(question).equals(normalize(other)):
        return True
    return read is not None and _is_same_in_world(read.world, question, other)


def find_same_questions(data: str) -> SameQuestions:
    """Return the numbered questions that ask the same in any of the worlds."""
    question_line = re.search(r"^question: (.*)$", data, re.M)
    listed = re.findall(r"^(\d+)\. (.*)$", data, re.M) if question_line is not None else []
    return SameQuestions(
        same=[
            int(number)
            for number, text in listed
            if question_line is not None and any(_is_same_in_world(world, question_line[1], text) for world in WORLDS)
        ]
    )


def _is_same_in_world(world: World, question: str, other: str) -> bool:
    one, two = _parse_question(world, question), _parse_question(world, other)
    return (
        one is not None
        and two is not None
        and (one[0].name, _question_key(one[1])) == (two[0].name, _question_key(two[1]))
    )


def _hash_fraction(question: str, other: str) -> float:
    """Return a number from 0 to 1 that depends only on the two texts."""
    return int.from_bytes(hashlib.sha256(f"{question}\0{other}".encode()).digest()[:4]) / 2**32


def _text_between(data: str, begin: str, end: str) -> str:
    """Return the text between the first `begin` and the last `end`."""
    _, _, after = data.partition(begin)
    before, separator, _ = after.rpartition(end)
    return (before if separator else after).strip()
