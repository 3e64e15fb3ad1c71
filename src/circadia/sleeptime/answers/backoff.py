"""How many questions are answered ahead: fewer where few of the answers were used (ANS-08)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from circadia.records.answer import AnswerDay
from circadia.settings.answers import AnswersSettings

WINDOW: Final = timedelta(days=7)
"""What became of answers longer ago tells nothing of the next."""
FEWEST: Final = 10
"""Answers of which it is known whether they were used, before fewer are made."""


def count_affordable_questions(settings: AnswersSettings, days: Sequence[AnswerDay]) -> int:
    """Return how many questions a pass answers ahead for an agent, given the counts of the window; 1 at least.

    An answer was useful if it was used, and waste if it was dropped unused; one that still waits is neither. So one
    question at a time is still tried, and as many as ever once those are asked.
    """
    used, wasted = sum(each.used for each in days), sum(each.wasted for each in days)
    if not settings.useful_share or used + wasted < FEWEST:
        return settings.questions
    share = used / (used + wasted) / settings.useful_share
    return max(1, min(settings.questions, round(settings.questions * share)))
