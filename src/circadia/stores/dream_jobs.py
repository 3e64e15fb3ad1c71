"""Store protocol for dreams that were asked for."""

from collections.abc import Collection, Sequence
from typing import Protocol

from circadia.ids import DreamId
from circadia.records.dream_job import DreamJob, DreamJobStatus, DreamSource


class DreamJobs(Protocol):
    """Dreams over memory folders and banks. One over each is open at a time."""

    async def add(self, job: DreamJob) -> bool:
        """Add an open dream; return False if another one over the same folder or bank is open."""
        ...

    async def save(self, now: DreamJob, *, origin: Collection[DreamJobStatus]) -> bool:
        """Write the dream if its stored status is one of `origin`; return whether it was."""
        ...

    async def get(self, dream_id: DreamId) -> DreamJob | None: ...

    async def find_all(
        self,
        *,
        statuses: Collection[DreamJobStatus] = (),
        source: DreamSource | None = None,
        name: str | None = None,
        before: DreamId | None = None,
        limit: int = 100,
    ) -> Sequence[DreamJob]:
        """Return dreams of these statuses (all without any), the newest first."""
        ...
