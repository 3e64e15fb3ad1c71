"""What a folder's dreams have done, what the next one waits for, and what it would read (DREAM-01)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from circadia.clock import Clock
from circadia.llm.chat_model import ChatModel
from circadia.llm.usage import Usage
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

READINGS: Final = 2.5
"""Times that a model reads a turn, with the rules and entries beside it: to consolidate, and to verify."""
WRITTEN_SHARE: Final = 0.1
"""Tokens that it writes for each one that it reads."""


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


def fetch_status(root: Path, intake: SessionIntake, clock: Clock, model: ChatModel | None) -> DreamStatus:
    """Return the status of a folder, without a change. Raises InvalidRequest: it, or that of the sessions, is none."""
    now, state, snapshot = clock.now(), load_state(root), take_snapshot(root)
    scan = intake.scan(state)
    known = state.model_copy(update={**scan.marks})
    verdict = decide_scan(known.model_copy(update={"scanned_at": None}), now)
    read = 0 if model is None else int(intake.estimate_tokens(scan, state) * READINGS)
    written = int(read * WRITTEN_SHARE)
    price = None if model is None else model.price(Usage(input_tokens=read, output_tokens=written))
    upkeep = propose_upkeep(snapshot.folder, day=now.date())
    return DreamStatus(
        state=state, verdict=verdict if not verdict.is_open else decide_dream(known),
        waiting=next((each.id for each in list_history(root) if each.proposed), ""), files=len(snapshot.documents),
        entries=len(snapshot.entries), findings=[f"{each.path}: {each.message}" for each in upkeep.findings],
        sessions=len(scan.new), excluded=scan.excluded, tokens=read + written,
        usd=None if price is None else price / 1e9, model="" if model is None else model.name,
    )  # fmt: skip


def is_due(root: Path, intake: SessionIntake, now: datetime) -> DreamVerdict:
    """Return whether a dream that nobody asked for may begin now; looks for sessions if it is time to."""
    state = load_state(root)
    verdict = decide_scan(state, now)
    if not verdict.is_open:
        return verdict
    if any(each.proposed for each in list_history(root)):
        return DreamVerdict(False, "the changes of a dream wait for a person")
    state = save_state(root, state, **intake.scan(state).marks)
    return decide_dream(state)
