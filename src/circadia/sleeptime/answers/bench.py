"""What one pass makes and samples answers on, and what counts as an answer at all."""

import re
from dataclasses import dataclass
from typing import Final

from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.ahead import AnsweredAhead, Readying
from circadia.sleeptime.operation import AskAnyone, Ground

_BEGINNING: Final = 200
"""Characters of an answer that show whether it is a refusal."""
_REFUSAL: Final = re.compile(
    r"(?i)\s*(?:i['’]?m |i am )?(?:so |very )?(?:sorry|apologi[sz]e|afraid)?[,.;]?\s*(?:but )?\s*(?:as an ai\b|"
    r"i (?:can(?:no|['’])t|cannot|am unable to|am not able to|won['’]t|will not|must decline)|"
    r"i['’]m (?:unable|not able) to|unable to (?:help|assist|comply))"
)


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
    """Return whether it is an answer: whole, in words, and none that only says that there is none."""
    return (
        not (answered.called or answered.cut)
        and bool(answered.text.strip())
        and not _REFUSAL.match(answered.text.strip()[:_BEGINNING])
    )
