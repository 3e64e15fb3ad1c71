"""What one pass makes and samples answers on, and what counts as an answer at all."""

from dataclasses import dataclass

from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.proposals.operation import AskAnyModel, PassContext
from circadia.sleeptime.proposals.question_drafts import AnswerServices, AnticipatedAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRun:
    """What answers of one pass are made on."""

    bank: Bank
    """Whose memory."""
    ground: PassContext
    """The pass' own ground."""
    readying: AnswerServices
    """What they are made with."""
    ask: AskAnyModel
    """Asks models."""
    run: Pass
    """The pass."""


def is_usable_answer(answered: AnticipatedAnswer) -> bool:
    """Return whether it is a whole answer in words, without a tool and without the provider's refusal."""
    return not (answered.called or answered.cut) and bool(answered.text.strip())
