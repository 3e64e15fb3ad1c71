"""What a folder's dreams have done, what the next one waits for, and what it would read (DREAM-01).

The memory folders of a server, by name, are what its interfaces use of all this (DREAM-31).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from circadia.clock import Clock
from circadia.llm.chat_model import ChatModel
from circadia.records.dream_job import DreamJob, DreamMode, ReviewKind
from circadia.sleeptime.budget.model_calls import estimate_usage
from circadia.sleeptime.markdown.changeset import Changeset
from circadia.sleeptime.markdown.dream_state import (
    DreamReport,
    DreamState,
    count_nouns,
    find_wait_after_scan,
    find_wait_before_scan,
    load_state,
    save_state,
)
from circadia.sleeptime.markdown.folder_bank import take_snapshot
from circadia.sleeptime.markdown.folder_lock import find_holder
from circadia.sleeptime.markdown.publication import PublicationResult, has_proposal, list_history
from circadia.sleeptime.markdown.sessions import SessionIntake
from circadia.sleeptime.markdown.upkeep import UpkeepRun
from circadia.sleeptime.triggers.dream_requests import DreamRequests
from circadia.stores.base import Store

WAITS: Final = "the changes of a dream wait for a person"


@dataclass(frozen=True, kw_only=True, slots=True)
class DreamStatus:
    state: DreamState
    waits_for: str
    """What a dream that begins by itself waits for; empty if one is due."""
    dreaming: str
    """Who dreams over the folder now; empty if nobody does."""
    waiting: str
    """The dream that waits for a person; empty without one."""
    files: int
    entries: int
    findings: Sequence[str]
    sessions: int
    """Sessions that the next dream would read."""
    excluded: Mapping[str, int]
    """Numbers of other new sessions, by the reason."""
    worktrees: Sequence[str]
    """Folders with the sessions of worktrees, which are read too."""
    tokens: int
    """About how many tokens the next dream would take."""
    usd: float | None
    """About what that costs; None if no price is known."""
    model: str
    """Empty without a model."""

    @property
    def outlook(self) -> str:
        """What a dream does that a person starts now, and why not more."""
        if self.dreaming:
            return f"nothing: {self.dreaming} dreams over the folder now"
        if self.waiting:
            return f"nothing: the changes of {self.waiting} wait; accept or refuse them"
        reads = (
            f"it reads {count_nouns(self.sessions, 'session')}" if self.model else "it reads no session without a model"
        )
        if not self.model or not self.sessions:
            reads += ", and only tidies the folder"
        if self.state.mode is DreamMode.AUTO and self.state.is_accepted:
            return f"{reads}; it writes, unless too many entries would leave their files"
        return f"{reads}; it proposes{'' if self.state.is_accepted else ', since you have accepted no dream yet'}"


def fetch_status(root: Path, intake: SessionIntake, clock: Clock, model: ChatModel | None) -> DreamStatus:
    """Return the status of a folder, without a change. Raises InvalidRequest: it, or that of the sessions, is none."""
    now, state, snapshot = clock.now(), load_state(root), take_snapshot(root)
    scan = intake.scan(state)
    known = state.model_copy(update={**scan.marks})
    used = None if model is None else estimate_usage(model, intake.estimate_tokens(scan, state))
    price = None if model is None or used is None else model.price(used)
    upkeep = UpkeepRun(snapshot.folder, day=now.date()).run()
    findings = [*upkeep.findings]
    findings += [
        f"{folder / 'memory'}: the memory of a worktree, which is not read; move what is worth it"
        for folder in scan.worktrees
        if any((folder / "memory").glob("*.md"))
    ]
    waiting = next((each.id for each in list_history(root) if each.proposed), "")
    dreaming = find_holder(root, clock)
    waits_for = (
        f"{dreaming} dreams over it now"
        if dreaming
        else find_wait_before_scan(known.model_copy(update={"scanned_at": None}), now)
    )
    return DreamStatus(
        state=state, waits_for=waits_for or (WAITS if waiting else find_wait_after_scan(known)),
        dreaming=dreaming, waiting=waiting, files=len(snapshot.documents),
        entries=len(snapshot.entries), findings=findings, worktrees=list(map(str, scan.worktrees)),
        sessions=len(scan.new), excluded=scan.excluded,
        tokens=0 if used is None else (used.input_tokens or 0) + (used.output_tokens or 0),
        usd=None if price is None else price / 1e9, model="" if model is None else model.name,
    )  # fmt: skip


def find_wait(root: Path, intake: SessionIntake, now: datetime) -> str:
    """Return what a dream that nobody asked for waits for, empty if it is due; looks for sessions if it is time to."""
    state = load_state(root)
    if waits_for := find_wait_before_scan(state, now):
        return waits_for
    if any(each.proposed for each in list_history(root)):
        return WAITS
    return find_wait_after_scan(save_state(root, state, **intake.scan(state).marks))


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
