"""A dream that was asked for: what it reads, how far it is, and what has come of it (DREAM-31)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from circadia.ids import DreamId


class DreamSource(StrEnum):
    FOLDER = "folder"
    """A memory folder of the settings; the dream proposes changes beside it, or writes them."""
    BANK = "bank"
    """A bank; the dream makes another one and leaves it as it is."""


class DreamMode(StrEnum):
    PROPOSE = "propose"
    """The changes wait for a person, beside the folder."""
    AUTO = "auto"
    """The changes are written, unless they remove more than a person should be asked about."""
    DRY_RUN = "dry-run"
    """The changes are shown, and nothing is written."""


class ReviewKind(StrEnum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNDONE = "undone"


@dataclass(frozen=True, kw_only=True, slots=True)
class DreamReview:
    """What somebody decided on the changes of a dream over a folder."""

    act: ReviewKind
    by: str
    at: datetime
    files: Sequence[str] = ()
    """Paths in the folder; empty for all."""


class DreamJobStatus(StrEnum):
    """The names are those of Anthropic's `/v1/dreams`."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


OPEN_DREAMS: Final = (DreamJobStatus.PENDING, DreamJobStatus.RUNNING)


@dataclass(frozen=True, kw_only=True, slots=True)
class DreamJob:
    id: DreamId
    source: DreamSource
    name: str
    """Of the folder or bank that it reads."""
    mode: str
    """A `DreamMode`; empty for a bank."""
    instructions: str
    by: str
    """Who asked for it; `circadia` if it was due."""
    status: DreamJobStatus
    created_at: datetime
    ended_at: datetime | None = None
    output: str = ""
    """The new bank, or the folder or branch that shows what is proposed."""
    pass_id: str = ""
    """The pass over the new bank, or the changeset in the folder's history."""
    error: str = ""
    """Why it failed."""
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it did, in numbers and texts for people."""
    waits: bool = False
    """Whether what it proposes waits for a person."""
    reviews: Sequence[DreamReview] = ()
    """What people decided on it, the oldest first."""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_DREAMS
