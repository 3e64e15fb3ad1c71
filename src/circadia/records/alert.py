"""Alerts: from when on a budget is told of, and what is told and not posted yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

BUDGET_SHARE: Final = 0.8
"""Share of a budget from which on people are told of it (WAKE-76)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingAlertPost:
    """What a server has taken upon itself to post, and perhaps has not."""

    cause: str
    """What it is about."""
    subject: str
    """Of whom or what; empty if of no session."""
    told_at: datetime
    """When the server took it."""
    body: Mapping[str, object]
    """What is posted."""
