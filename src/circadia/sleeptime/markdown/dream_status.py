"""What a folder's dreams have done, what the next one waits for, and what it would read (DREAM-01)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from circadia.clock import Clock
from circadia.llm.chat_model import ChatModel
from circadia.records.dream_job import DreamMode
from circadia.sleeptime.budget.model_calls import estimate_usage
from circadia.sleeptime.markdown.dream_report import count_nouns
from circadia.sleeptime.markdown.dream_state import (
    DreamState,
    DreamVerdict,
    decide_dream,
    decide_scan,
    load_state,
    save_state,
)
from circadia.sleeptime.markdown.folder_bank import take_snapshot
from circadia.sleeptime.markdown.history import list_history
from circadia.sleeptime.markdown.sessions import SessionIntake
from circadia.sleeptime.markdown.upkeep import propose_upkeep

WAITS: Final = "the changes of a dream wait for a person"


@dataclass(frozen=True, kw_only=True, slots=True)
class DreamStatus:
    state: DreamState
    verdict: DreamVerdict
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
    def next_dream(self) -> str:
        """What the next dream waits for; empty if one is due."""
        return "" if self.verdict.is_open else self.verdict.detail

    @property
    def outlook(self) -> str:
        """What a dream does that a person starts now, and why not more."""
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
    verdict = decide_scan(known.model_copy(update={"scanned_at": None}), now)
    used = None if model is None else estimate_usage(model, intake.estimate_tokens(scan, state))
    price = None if model is None or used is None else model.price(used)
    upkeep = propose_upkeep(snapshot.folder, day=now.date())
    findings = list(map(str, upkeep.findings))
    findings += [
        f"{folder / 'memory'}: the memory of a worktree, which is not read; move what is worth it"
        for folder in scan.worktrees
        if any((folder / "memory").glob("*.md"))
    ]
    waiting = next((each.id for each in list_history(root) if each.proposed), "")
    if verdict.is_open:
        verdict = DreamVerdict(False, WAITS) if waiting else decide_dream(known)
    return DreamStatus(
        state=state, verdict=verdict, waiting=waiting, files=len(snapshot.documents),
        entries=len(snapshot.entries), findings=findings, worktrees=list(map(str, scan.worktrees)),
        sessions=len(scan.new), excluded=scan.excluded,
        tokens=0 if used is None else (used.input_tokens or 0) + (used.output_tokens or 0),
        usd=None if price is None else price / 1e9, model="" if model is None else model.name,
    )  # fmt: skip


def is_due(root: Path, intake: SessionIntake, now: datetime) -> DreamVerdict:
    """Return whether a dream that nobody asked for may begin now; looks for sessions if it is time to."""
    state = load_state(root)
    verdict = decide_scan(state, now)
    if not verdict.is_open:
        return verdict
    if any(each.proposed for each in list_history(root)):
        return DreamVerdict(False, WAITS)
    state = save_state(root, state, **intake.scan(state).marks)
    return decide_dream(state)
