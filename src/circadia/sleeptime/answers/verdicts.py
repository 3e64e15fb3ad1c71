"""Asks the tier's model once which expected questions and answers may be kept (ANS-01)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import BaseModel, Field

from circadia.answers.identifiers import has_identifier
from circadia.llm.chat_model import ModelAnswerError
from circadia.memory.redaction import redact
from circadia.sleeptime.answers.phrasing import ExpectedQuestion
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals.operation import AskAnyModel
from circadia.sleeptime.proposals.prompts import build_file_prompt

_SHOWN_CHARACTERS: Final = 300
"""Characters of an answer in the prompt, enough to see whether it is one."""
_MAX_PHRASINGS: Final = 5
_TOKENS_EACH: Final = 60


class QuestionVerdict(BaseModel):
    number: int = Field(description="Number of the question.")
    answered: bool = Field(description="Whether the answer answers it.")
    stands_alone: bool = Field(description="Whether it can be understood without a conversation.")
    same: list[int] = Field(description="Numbers of the phrasings that ask exactly the same.", max_length=20)


class QuestionVerdicts(BaseModel):
    questions: list[QuestionVerdict] = Field(max_length=200)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptQuestion:
    question: ExpectedQuestion
    stands_alone: bool
    """Otherwise only its own conversation may find it."""


async def judge_questions(
    answered: Sequence[tuple[ExpectedQuestion, str]], ask: AskAnyModel
) -> Mapping[int, QuestionVerdict]:
    """Return the verdicts by index; what the model leaves out has none. Raises OverBudget, PassPreempted."""
    lines: list[str] = []
    for number, (question, answer) in enumerate(answered, 1):
        lines.append(f"question {number}: {one_line(question.phrasings[0])}")
        lines += [f"  phrasing {at}: {one_line(text)}" for at, text in enumerate(question.phrasings[1:], 1)]
        lines.append(f"  answer: {one_line(redact(answer))[:_SHOWN_CHARACTERS]}")
    try:
        verdicts = await ask(
            build_file_prompt("expected_questions", "\n".join(lines)), QuestionVerdicts,
            most_tokens=200 + _TOKENS_EACH * len(answered),
        )  # fmt: skip
    except ModelAnswerError:
        return {}
    return {verdict.number - 1: verdict for verdict in verdicts.questions}


def keep_question(question: ExpectedQuestion, verdict: QuestionVerdict | None) -> KeptQuestion | None:
    """Return what to keep of a question; none if its answer does not answer it.

    Without a verdict that is the first phrasing, for its own conversation unless it has an identifier.
    """
    first = question.phrasings[0]
    if verdict is None:
        return KeptQuestion(question=replace(question, phrasings=[first]), stands_alone=has_identifier(first))
    if not verdict.answered:
        return None
    same = [text for at, text in enumerate(question.phrasings[1:], 1) if at in verdict.same]
    kept_question = replace(question, phrasings=[first, *same][:_MAX_PHRASINGS])
    return KeptQuestion(question=kept_question, stands_alone=verdict.stands_alone)
