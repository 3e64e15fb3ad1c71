"""Alerts: the budget threshold, a cause, and alerts that are not posted yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

BUDGET_SHARE: Final = 0.8
"""Share of a budget at which people are alerted (WAKE-76)."""
NO_LAUNCHER: Final = "no_launcher"
"""Cause: no live worker has the launcher of a pulse."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingAlertPost:
    """An alert that a server has claimed for posting, and may not have posted yet."""

    cause: str
    subject: str
    """Empty if the alert belongs to no session."""
    told_at: datetime
    """When the server claimed it."""
    body: Mapping[str, object]
