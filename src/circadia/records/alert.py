"""An alert in the history: what was raised, for whom, and who has acknowledged it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from circadia.ids import AlertId


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertRecord:
    id: AlertId
    cause: str
    session: str | None
    agent: str | None
    at: datetime
    detail: Mapping[str, Any]
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
