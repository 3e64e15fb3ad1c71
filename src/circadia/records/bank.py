"""A memory bank: a memory with its own walls, of one end user or on purpose of a team (MEM-12)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import BankId

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.@~-]{0,127}")
"""What banks may be called."""


def explain_invalid_bank_name(name: str) -> str:
    """Return why no policy may name a bank or a template so; an empty text if it may.

    A template that is misspelt, such as `support-{usr}`, would be one bank for all end users.
    """
    if NAME.fullmatch(name.replace("{user}", "u")):
        return ""
    return f"bank name {name!r} must match {NAME.pattern}; with `{{user}}` in it, it is a template"


class Trust(StrEnum):
    """Where a text came from; what is derived inherits the least trusted of its sources (MEM-14, MEM-19)."""

    PERSON = "person"
    AGENT = "agent"
    TOOL = "tool"
    EXTERNAL = "external"

    @property
    def rank(self) -> int:
        """Return 0 for the most trusted … 3 for the least."""
        return _RANKS[self]


_RANKS: Final = {trust: rank for rank, trust in enumerate(Trust)}


class Capture(StrEnum):
    """What becomes an episode at the gateway (MEM-18)."""

    ALL = "all"
    """Each turn."""
    CONTENT = "content"
    """Turns that say something: not `ok`, `thanks`, an empty answer."""
    EXPLICIT = "explicit"
    """Nothing by itself; only what `remember` is given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportanceTuning:
    """From which importance on passes have found that turns are of use."""

    importance: float
    """Turns that score less are of none, 0 to 1."""
    before: float
    """What that was before."""
    pass_id: str
    """The pass that found it; empty once that was undone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BankPolicy:
    """How a bank is written to."""

    capture: Capture = Capture.CONTENT
    """What the gateway keeps."""
    capture_tools: bool = False
    """Whether calls of tools and their results are kept too."""
    min_importance: float = 0.0
    """Turns that score less than this are skipped and counted, 0 to 1; 0 states nothing."""
    tune_importance: bool = False
    """Whether `tuned` holds where nothing is stated, and passes tune it."""
    tuned: ImportanceTuning | None = None
    """What passes have tuned, by what was found later of the turns that were kept; none if they have not."""
    hot_edits: bool = False
    """Whether agents may write blocks while somebody waits; else only people and the sleep tier do (MEM-10)."""
    duplicate_seconds: float = 3600.0
    """An exact repetition within this time is linked to the first, not kept as another (MEM-04)."""
    keep_days: float | None = None
    """Episodes older than this are deleted with what is derived from them; none keeps them for ever."""
    sleeptime: Mapping[str, object] = field(default_factory=dict[str, object])
    """What this bank states of its passes, as in the file; the rest is what section `sleeptime` says."""
    own: bool = False
    """Whether a person has set it for this bank, so that what the file says changes it no more."""

    @property
    def tuned_importance(self) -> float:
        """Return from which importance on turns are kept where nothing is stated."""
        return self.tuned.importance if self.tune_importance and self.tuned is not None else 0.0

    @property
    def least_importance(self) -> float:
        """Return from which importance on turns are kept: what is stated, else what is tuned."""
        return self.min_importance or self.tuned_importance


@dataclass(frozen=True, kw_only=True, slots=True)
class Bank:
    """A memory."""

    id: BankId
    """Key."""
    name: str
    """Unique; as agents bind it and people name it."""
    description: str = ""
    """What it is for."""
    template: str | None = None
    """The template that it was made from, such as `support-{user}`."""
    end_user: str | None = None
    """The person whom it belongs to, where it was made from a template."""
    policy: BankPolicy = field(default_factory=BankPolicy)
    """How it is written to."""
    automatic: bool = False
    """Whether it was made since an agent is bound to it, and nobody has said since how it is to be."""
    generation: int = 0
    """Counts what makes its index anew: deletions, other vectors."""
    demotions: int = 0
    """Counts demotions of episodes, retirements of notes, and what was taken back of them."""
    vectors: int = 0
    """Counts vectors that were written to its rows."""
    answers: int = 0
    """Counts changes to its ready answers."""
    published: int = 0
    """Counts what passes have published: the generation of what is derived."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many turns the write policy has left out, by why."""
    created_at: datetime
    """When it was made."""
    edited_at: datetime | None = None
    """When a block of it was last written by somebody other than the sleep tier: a person, a program, a hot agent."""
    written_at: datetime | None = None
    """When something was last remembered: with the times of its agents' calls, the bank's activity."""
