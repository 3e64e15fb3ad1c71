"""Store protocol for counts over the whole fleet."""

from datetime import datetime
from typing import Protocol

from circadia.ids import MemberId
from circadia.records.overview import Overview


class Overviews(Protocol):
    async def count(self, now: datetime, *, own: MemberId | None) -> Overview:
        """Count what there is now and was in this UTC day; calls held at the server `own` are left out."""
        ...
