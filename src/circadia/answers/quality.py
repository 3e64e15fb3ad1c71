"""Whether ready answers are right often enough to be served (ANS-07)."""

from collections.abc import Sequence
from typing import Final

from circadia.records.answer import AnswerUse
from circadia.settings.answers import AnswersSettings

LAST: Final = 50
"""Judged uses that count; older ones say little about today's answers."""


def judged_use_limit(settings: AnswersSettings) -> int:
    return max(LAST, settings.least_samples)


def precision(uses: Sequence[AnswerUse]) -> float | None:
    """Return the share of right uses among the judged ones; none without any."""
    judged = [use.right for use in uses if use.right is not None]
    return judged.count(True) / len(judged) if judged else None


def are_answers_trusted(uses: Sequence[AnswerUse], settings: AnswersSettings) -> bool:
    """Return whether answers may be served: too few uses were judged, or enough of the newest were right.

    `uses` are those of one bank and agent, the newest first (`Answers.find_uses`).
    """
    judged = [use for use in uses if use.right is not None][: judged_use_limit(settings)]
    share = precision(judged)
    return share is None or len(judged) < settings.least_samples or share >= settings.least_precision
