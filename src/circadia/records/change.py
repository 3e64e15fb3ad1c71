"""A proposed change of a pass: target, value before and value after (SLEEP-30 … SLEEP-32)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import PassId

FORGOTTEN: Final = "what it rests on was forgotten"
"""Reason of a change whose sources were forgotten; it can be neither applied nor undone."""


class ChangeKind(StrEnum):
    ADD_NOTE = "add_note"
    RETIRE_NOTE = "retire_note"
    """Takes a note out of search; it stays as evidence."""
    DEMOTE_EPISODE = "demote_episode"
    """Lowers an episode's weight."""
    WRITE_BLOCK = "write_block"
    FLAG = "flag"
    """Reports two contradicting statements that no date settles to the agent."""


class ChangeState(StrEnum):
    STAGED = "staged"
    """Proposed and not visible yet."""
    PUBLISHED = "published"
    """Applied to the bank."""
    REFUSED = "refused"
    """Rejected; `why` has the reason."""
    UNDONE = "undone"
    """Reverted after publication."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One proposed change. Diff, review, undo and the pass record are views of these."""

    pass_id: PassId
    number: int
    """Position in the pass, from 1."""
    operation: str
    kind: ChangeKind
    target: str
    """Id of the note or episode, or label of the block."""
    before: Mapping[str, object] | None = None
    """The changed part of the old value; none if there was nothing."""
    after: Mapping[str, object] | None = None
    """The new value; none for a removal."""
    state: ChangeState = ChangeState.STAGED
    why: str = ""
    """Reason of the proposal, refusal or undo."""
    at: datetime
    """Time of the last state change."""
