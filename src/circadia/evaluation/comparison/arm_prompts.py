"""The prompts of an evaluation, each in its own file, and the shapes of the answers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from pydantic import BaseModel, Field

from circadia.llm.chat_model import Prompt
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
