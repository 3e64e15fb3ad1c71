"""The services that one pass makes and samples answers with, and which answers are usable."""

from dataclasses import dataclass

from circadia.answers.question_drafts import AnswerServices, AnticipatedAnswer
from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.proposals.operation import AskAnyModel, PassContext


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRun:
    bank: Bank
    ground: PassContext
    readying: AnswerServices
    ask: AskAnyModel
    run: Pass


def is_usable_answer(answered: AnticipatedAnswer) -> bool:
    """Return whether it is a complete answer in words: no tool call, no refusal by the provider."""
    return not (answered.called or answered.cut) and bool(answered.text.strip())
