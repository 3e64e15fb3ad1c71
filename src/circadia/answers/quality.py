"""Whether ready answers are right often enough to be served (ANS-07)."""

from collections.abc import Sequence
from typing import Final

from circadia.records.answer import AnswerUse
from circadia.settings.answers import AnswersSettings

LAST: Final = 50
"""Judged uses that tell: what was long ago says little of what is made now."""


def judged_use_limit(settings: AnswersSettings) -> int:
    """Return how many judged uses tell, the newest first."""
    return max(LAST, settings.least_samples)


def precision(uses: Sequence[AnswerUse]) -> float | None:
    """Return the share of right ones among those that were judged; none if none was."""
    judged = [each.right for each in uses if each.right is not None]
    return judged.count(True) / len(judged) if judged else None


def are_answers_trusted(uses: Sequence[AnswerUse], settings: AnswersSettings) -> bool:
    """Return whether answers may be served: too few were judged, or enough of the newest were right.

    `uses` are those of one bank and agent, the newest first (`Answers.find_uses`); at most `telling` judged ones count.
    """
    judged = [each for each in uses if each.right is not None][: judged_use_limit(settings)]
    share = precision(judged)
    return share is None or len(judged) < settings.least_samples or share >= settings.least_precision
