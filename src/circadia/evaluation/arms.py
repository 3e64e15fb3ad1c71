"""The arms of a comparison: ways to answer a question, their prompts, and what each prepares ahead."""

import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

from pydantic import BaseModel, Field

from circadia.answers.index import AnswerIndex
from circadia.answers.lookup import HINT_SHARED_LETTERS, MIN_SIMILARITY
from circadia.answers.services import Match
from circadia.evaluation.asker import Asker, EvaluationUsage
from circadia.evaluation.dataset import Case, KeyedQuestion, matches_key
from circadia.gateway.answers.judging import MAX_OUTPUT_TOKENS, SameQuestions, judge_prompt
from circadia.ids import AnswerId
from circadia.llm.chat_model import Prompt
from circadia.memory.search.vectors import TextVectors
from circadia.records.answer import AnswerableQuestion, MatchKind
from circadia.settings.answers import AnswersSettings
from circadia.sleeptime.proposals.prompts import add_fence

FOLDER: Final = "prompts"
CONTEXT: Final = "## Context"
QUESTION: Final = "## Question"
READY: Final = "## Ready answer, to a question that may be another one"
ANSWER_TOKENS: Final = 600
"""Limit of an answer, including reasoning."""
REWRITE_TOKENS: Final = 1_500
EXPECT_TOKENS: Final = 1_500
_VERSION: Final = re.compile(r"\A# \w+, version \d+\n+")


class ReasonedAnswer(BaseModel):
    """An answer."""

    reasoning: str = Field(description="How the answer follows, step by step.")
    answer: str = Field(description="The answer alone.")


class RewrittenContext(BaseModel):
    """A context, rewritten ahead."""

    context: str = Field(description="All facts, and what was worked out from them.")


class LikelyQuestion(BaseModel):
    """A question that is expected."""

    question: str = Field(description="The question.")
    other_wordings: list[str] = Field(default_factory=list[str], description="The same in other words.")


class LikelyQuestions(BaseModel):
    """Questions that are expected."""

    questions: list[LikelyQuestion] = Field(description="The likeliest first.")


@dataclass(frozen=True, kw_only=True, slots=True)
class PrecomputedAnswer:
    question: str
    phrasings: Sequence[str]
    """The question first, then its other wordings."""
    reasoning: str
    answer: str


def build_answer_prompt(context: str, question: str, ready: PrecomputedAnswer | None = None) -> Prompt:
    parts = [CONTEXT, context, "", QUESTION, question]
    if ready is not None:
        parts += ["", READY, f"Question: {_one_line(ready.question)}"]
        parts += [f"Reasoning: {_one_line(ready.reasoning)}", f"Answer: {_one_line(ready.answer)}"]
    return Prompt(rules=load_rules("answer"), data=add_fence("\n".join(parts)))


def build_rewrite_prompt(context: str) -> Prompt:
    return Prompt(rules=load_rules("rewrite"), data=add_fence(f"{CONTEXT}\n{context}"))


def build_expect_prompt(context: str, count: int) -> Prompt:
    return Prompt(rules=load_rules("expect").replace("{count}", str(count)), data=add_fence(f"{CONTEXT}\n{context}"))


@cache
def load_rules(name: str) -> str:
    """Return the rules in a prompt file, without its version line."""
    return _VERSION.sub("", resources.files("circadia.evaluation").joinpath(FOLDER, f"{name}.md").read_text("utf-8"))


def _one_line(text: str) -> str:
    return " ".join(text.split())


HINT_SIMILARITY: Final = AnswersSettings.model_validate({}).hint_similarity
UNKNOWN: Final = "unknown"
"""What the rules make a model answer when it cannot tell; such an answer is not prepared."""


class Arm(StrEnum):
    NONE = "none"
    """The full context and the question."""
    LEARNED = "learned"
    """The context as rewritten ahead, and the question."""
    ANSWERS = "answers"
    """A ready answer without a call, for the same text or by a judge's verdict; without one, as `none`."""
    HINTS = "hints"
    """The full context and the question, with the nearest ready answer as a hint."""
    WRONG_HINTS = "wrong-hints"
    """The same with a wrong ready answer: does it mislead?"""
    BOTH = "both"
    """As `answers`; without a ready answer, as `learned`."""


LEARNED_CONTEXT_ARMS: Final = frozenset((Arm.LEARNED, Arm.BOTH))
READY_ANSWER_ARMS: Final = frozenset((Arm.ANSWERS, Arm.HINTS, Arm.WRONG_HINTS, Arm.BOTH))


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedContext:
    learned: str
    """The rewritten context; the original if rewriting failed."""
    ready: Sequence[PrecomputedAnswer]
    index: AnswerIndex
    """Ready answers by their place."""
    learning: EvaluationUsage
    """Usage of the rewriting."""
    answering: EvaluationUsage
    """Usage of predicting and answering questions."""

    def sleep_usage(self, arm: Arm) -> EvaluationUsage:
        spent = self.learning if arm in LEARNED_CONTEXT_ARMS else EvaluationUsage()
        return spent + self.answering if arm in READY_ANSWER_ARMS else spent


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedAnswer:
    """A ready answer that was served or shown as a hint."""

    ready: PrecomputedAnswer
    served: bool
    match_kind: MatchKind | None
    """How the lookup found it; None without a lookup."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    arm: Arm
    case: int
    """Place of the context."""
    question: int
    """Place among its questions."""
    likely: float
    hot: EvaluationUsage
    """Usage while somebody waited."""
    right: bool
    ready: str | None
    """`hit` for a served ready answer, `hint` for a shown one."""
    match_kind: MatchKind | None
    false: bool
    """Whether that ready answer does not match the key."""


class CasePreparer:
    def __init__(self, asker: Asker, arms: Collection[Arm], expected: int, words: TextVectors) -> None:
        """`expected` is the number of questions to answer ahead for each context."""
        self._asker = asker
        self._arms = frozenset(arms)
        self._expected = expected
        self._words = words

    @property
    def max_calls(self) -> int:
        return bool(self._arms & LEARNED_CONTEXT_ARMS) + (1 + self._expected) * bool(self._arms & READY_ANSWER_ARMS)

    async def prepare(self, case: Case) -> PreparedContext:
        """Prepare a context. Raises UpstreamFailed."""
        learned, learning, ready, answering = (
            case.context,
            EvaluationUsage(),
            list[PrecomputedAnswer](),
            EvaluationUsage(),
        )
        if self._arms & LEARNED_CONTEXT_ARMS:
            rewritten, learning = await self._asker.ask(
                build_rewrite_prompt(case.context), RewrittenContext, most_tokens=REWRITE_TOKENS
            )
            if rewritten is not None and rewritten.context.strip():
                learned = rewritten.context
        if self._arms & READY_ANSWER_ARMS:
            expectation, answering = await self._asker.ask(
                build_expect_prompt(case.context, self._expected), LikelyQuestions, most_tokens=EXPECT_TOKENS
            )
            for likely_question in [] if expectation is None else expectation.questions[: self._expected]:
                prepared, spent = await self._answer_ahead(case.context, likely_question)
                answering += spent
                ready += [] if prepared is None else [prepared]
        index = AnswerIndex(self._words)
        index.add(
            AnswerableQuestion(id=AnswerId(str(at)), phrasings=entry.phrasings, confidence=1.0)
            for at, entry in enumerate(ready)
        )
        return PreparedContext(learned=learned, ready=ready, index=index, learning=learning, answering=answering)

    async def _answer_ahead(
        self, context: str, expected: LikelyQuestion
    ) -> tuple[PrecomputedAnswer | None, EvaluationUsage]:
        """Answer a likely question with the prompt that is used later."""
        if not expected.question.strip():
            return None, EvaluationUsage()
        reply, spent = await self._asker.ask(
            build_answer_prompt(context, expected.question), ReasonedAnswer, most_tokens=ANSWER_TOKENS
        )
        if reply is None or reply.answer.strip().rstrip(".").casefold() in ("", UNKNOWN):
            return None, spent
        phrasings = (expected.question, *expected.other_wordings)
        prepared = PrecomputedAnswer(
            question=expected.question, phrasings=phrasings, reasoning=reply.reasoning, answer=reply.answer
        )
        return prepared, spent


class ArmRunner:
    """Answers a context's questions by each arm; arms with the same prompt share its answer."""

    def __init__(self, asker: Asker, case: Case, prepared: PreparedContext, draw: random.Random) -> None:
        self._asker = asker
        self._case = case
        self._prepared = prepared
        self._draw = draw
        self._answers: dict[Prompt, tuple[ReasonedAnswer | None, EvaluationUsage]] = {}
        self._verdicts: dict[Prompt, tuple[SameQuestions | None, EvaluationUsage]] = {}

    async def answer(self, arm: Arm, question: KeyedQuestion) -> tuple[str, EvaluationUsage, UsedAnswer | None]:
        """Return the answer, its usage, and the ready answer that was used. Raises UpstreamFailed."""
        context = self._prepared.learned if arm in LEARNED_CONTEXT_ARMS else self._case.context
        used: UsedAnswer | None = None
        judged = EvaluationUsage()
        if arm is Arm.WRONG_HINTS:
            used = self._pick_wrong_answer(question)
        elif arm in READY_ANSWER_ARMS:
            used, judged = await self._look_up(question.text, serve=arm is not Arm.HINTS)
        if used is not None and used.served:
            return used.ready.answer, judged, used
        prompt = build_answer_prompt(context, question.text, None if used is None else used.ready)
        reply, spent = await self._ask(prompt)
        return ("" if reply is None else reply.answer), spent + judged, used

    async def _look_up(self, question: str, *, serve: bool) -> tuple[UsedAnswer | None, EvaluationUsage]:
        index = self._prepared.index
        exact = index.find_exact(question)
        if exact is not None:
            return self._build_used_answer(exact, served=serve), EvaluationUsage()
        similar = [match for match in index.find_similar(question, min_similarity=MIN_SIMILARITY) if not match.conflict]
        if not similar or not serve:
            near = [match for match in similar if match.similarity >= HINT_SIMILARITY]
            near = [match for match in near if match.shared_letters >= HINT_SHARED_LETTERS]
            return (self._build_used_answer(near[0], served=False) if near else None), EvaluationUsage()
        prompt = judge_prompt(question, [match.phrasing for match in similar], self._asker.today)
        verdict, spent = await self._judge(prompt)
        same = [match for number, match in enumerate(similar, 1) if verdict is not None and number in verdict.same]
        return (self._build_used_answer(same[0], served=True) if same else None), spent

    async def _judge(self, prompt: Prompt) -> tuple[SameQuestions | None, EvaluationUsage]:
        if prompt not in self._verdicts:
            self._verdicts[prompt] = await self._asker.ask(prompt, SameQuestions, most_tokens=MAX_OUTPUT_TOKENS)
        return self._verdicts[prompt]

    def _build_used_answer(self, match: Match, *, served: bool) -> UsedAnswer:
        return UsedAnswer(ready=self._prepared.ready[int(match.answer)], served=served, match_kind=match.kind)

    def _pick_wrong_answer(self, question: KeyedQuestion) -> UsedAnswer | None:
        """Return a random ready answer that does not match the key, None if there is none."""
        wrong = [entry for entry in self._prepared.ready if not matches_key(entry.answer, question.key)]
        return UsedAnswer(ready=self._draw.choice(wrong), served=False, match_kind=None) if wrong else None

    async def _ask(self, prompt: Prompt) -> tuple[ReasonedAnswer | None, EvaluationUsage]:
        if prompt not in self._answers:
            self._answers[prompt] = await self._asker.ask(prompt, ReasonedAnswer, most_tokens=ANSWER_TOKENS)
        return self._answers[prompt]
