"""The memory folders of a server, by name, as its interfaces use them (DREAM-31)."""

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Protocol

from circadia.records.dream_job import DreamJob, ReviewKind
from circadia.sleeptime.markdown.changeset import Changeset
from circadia.sleeptime.markdown.dream_report import DreamReport
from circadia.sleeptime.markdown.dream_status import DreamStatus
from circadia.sleeptime.markdown.history import has_proposal
from circadia.sleeptime.markdown.publication import PublicationResult
from circadia.sleeptime.triggers.dream_requests import DreamRequests
from circadia.stores.base import Store


class MemoryFolders(Protocol):
    """All raise NotFound for an unknown name, and InvalidRequest for a folder that is not on this machine."""

    @property
    def requests(self) -> DreamRequests: ...

    async def fetch_status(self, name: str) -> DreamStatus: ...

    async def list_history(self, name: str) -> Collection[Changeset]:
        """Return the dreams and undos, the newest first."""
        ...

    async def show_diff(self, name: str, dream_id: str) -> str:
        """Return what a dream changed or proposes, as a unified diff. Raises NotFound: no such dream."""
        ...

    async def accept(self, name: str, files: Collection[PurePosixPath]) -> DreamReport:
        """Publish what waits. Raises NotFound, Conflict."""
        ...

    async def refuse(self, name: str, files: Collection[PurePosixPath]) -> int:
        """Drop what waits; return the number of changes. Raises NotFound, Conflict."""
        ...

    async def undo(self, name: str, dream_id: str) -> PublicationResult:
        """Restore what a dream has replaced. Raises NotFound, Conflict."""
        ...


async def record_review(
    folders: MemoryFolders, store: Store, job: DreamJob, act: ReviewKind, files: Iterable[PurePosixPath], *, by: str
) -> DreamJob:
    """Record what somebody has decided on a dream's changes: in its row, and as an event."""
    waits = has_proposal(await folders.list_history(job.name), job.pass_id)
    async with store.begin_write() as tx:
        return await folders.requests.review(tx, job, act, [str(path) for path in files], by=by, waits=waits)
