"""What one pass makes and samples answers on, and what counts as an answer at all."""

from dataclasses import dataclass

from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.ahead import AnsweredAhead, Readying
from circadia.sleeptime.operation import AskAnyone, Ground


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """What answers of one pass are made on."""

    bank: Bank
    """Whose memory."""
    ground: Ground
    """The pass' own ground."""
    readying: Readying
    """What they are made with."""
    ask: AskAnyone
    """Asks models."""
    run: Pass
    """The pass."""


def usable(answered: AnsweredAhead) -> bool:
    """Return whether it is a whole answer in words, without a tool and without the provider's refusal."""
    return not (answered.called or answered.cut) and bool(answered.text.strip())
