"""Takes the new turns of the sessions that count into a folder's bank (DREAM-03, DREAM-10)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.memory.episodes import NewEpisode
from circadia.records.bank import Bank
from circadia.sleeptime.markdown.dream_state import DreamState
from circadia.sleeptime.markdown.folder_bank import FolderBank
from circadia.sleeptime.markdown.sessions import TranscriptSession, find_sessions, gather, group_by_project

RECENT: Final = timedelta(days=30)
"""The first dream of a folder reads no older sessions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionCounts:
    sessions: int = 0
    turns: int = 0
    marks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Changes of the folder's state, unless the dream is a dry run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionScan:
    new: Sequence[TranscriptSession]
    """Sessions with turns that no dream has read, the newest last."""
    excluded: Mapping[str, int]
    """Numbers of other sessions, by the reason."""
    marks: Mapping[str, Any]


class SessionIntake:
    """The sessions of one project in a folder of transcripts."""

    def __init__(self, clock: Clock, transcripts: Path | None, *, project: str | None = None) -> None:
        """Without `transcripts` there are no sessions; `project` chooses one if there are several."""
        self._clock = clock
        self._transcripts = transcripts
        self._project = project

    def scan(self, state: DreamState) -> SessionScan:
        """Look for sessions with new turns; files that have not changed are not read.

        Raises:
            InvalidRequest: there is no such folder, or its sessions belong to several projects.
        """
        if self._transcripts is None:
            return SessionScan(new=(), excluded={}, marks={})
        now, seen = self._clock.now(), dict(state.sessions)
        found = find_sessions(self._transcripts, seen, now)
        first = state.enabled_at if state.dreamed_at is None else None
        new: list[TranscriptSession] = []
        excluded: dict[str, int] = {}
        for session in found:
            if session.last_line <= state.read.get(session.id, 0):
                continue
            old = first is not None and (session.last is None or session.last < first - RECENT)
            if reason := session.excluded or ("it is older than 30 days" if old else None):
                excluded[reason] = excluded.get(reason, 0) + 1
            else:
                new.append(session)
        chosen = self._choose_project(new)
        marks = {
            "sessions": seen, "scanned_at": now, "transcripts": str(self._transcripts.resolve()),
            "new_sessions": len(chosen),
        }  # fmt: skip
        return SessionScan(new=chosen, excluded=excluded, marks=marks)

    def estimate_tokens(self, scan: SessionScan, state: DreamState) -> int:
        """Return about how many tokens the new turns have."""
        return round(sum(each.tokens * (1 - state.read.get(each.id, 0) / each.last_line) for each in scan.new))

    async def take_in(self, bank_of: FolderBank, bank: Bank, state: DreamState) -> SessionCounts:
        """Store the new turns in the bank. Raises InvalidRequest, as `scan`."""
        scan = await asyncio.to_thread(self.scan, state)
        turns = 0
        for session in scan.new:
            said = await asyncio.to_thread(_gather_all, [session], state)
            turns += await bank_of.take_in_turns(bank, said)
        read = {**state.read, **{session.id: session.last_line for session in scan.new}}
        return SessionCounts(sessions=len(scan.new), turns=turns, marks={**scan.marks, "read": read})

    def _choose_project(self, sessions: Sequence[TranscriptSession]) -> Sequence[TranscriptSession]:
        projects = group_by_project(sessions)
        if self._project is not None:
            if sessions and self._project not in projects:
                known = ", ".join(sorted(projects)) or "none"
                raise InvalidRequest(f"no new session belongs to {self._project!r}; there are sessions of {known}")
            return projects.get(self._project, ())
        if len(projects) > 1:
            names = ", ".join(sorted(projects))
            raise InvalidRequest(
                f"{str(self._transcripts)!r} has sessions of several projects ({names}); choose one with --project"
            )
        return sessions


def _gather_all(sessions: Sequence[TranscriptSession], state: DreamState) -> Sequence[NewEpisode]:
    return [turn for session in sessions for turn in gather(session, state.read.get(session.id, 0))]
