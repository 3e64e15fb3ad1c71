"""A change that a pass proposes: what it is about, how it was before, how it is to be (SLEEP-30 … SLEEP-32)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import PassId

FORGOTTEN: Final = "what it rests on was forgotten"
"""Why a change says nothing any more; it can be neither done nor undone."""


class ChangeKind(StrEnum):
    """What is changed."""

    ADD_NOTE = "add_note"
    """A note that was not there."""
    RETIRE_NOTE = "retire_note"
    """A note leaves the searches; it stays as evidence."""
    DEMOTE_EPISODE = "demote_episode"
    """An episode counts less."""
    WRITE_BLOCK = "write_block"
    """A block is written anew."""
    FLAG = "flag"
    """Two things contradict each other, and no date decides; the agent is told."""


class ChangeState(StrEnum):
    """Where a change stands."""

    STAGED = "staged"
    """Proposed; nobody sees it yet."""
    PUBLISHED = "published"
    """In the bank."""
    REFUSED = "refused"
    """Not let in; `why` says what is wrong with it."""
    UNDONE = "undone"
    """Was in the bank, and was taken back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One proposed change. Diff, review, undo and the record of a pass are views of these."""

    pass_id: PassId
    """The pass that proposes it."""
    number: int
    """Its place in the pass, from 1."""
    operation: str
    """The operation that proposes it."""
    kind: ChangeKind
    """What is changed."""
    target: str
    """Id of the note or episode, or the block's label."""
    before: Mapping[str, object] | None = None
    """What was there, as far as it is changed; none if nothing was."""
    after: Mapping[str, object] | None = None
    """What is to be there; none if nothing is."""
    state: ChangeState = ChangeState.STAGED
    """Where it stands."""
    why: str = ""
    """Why it is proposed, or was refused or taken back, in words."""
    at: datetime
    """When its state was written."""
