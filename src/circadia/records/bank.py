"""A memory bank: an isolated memory of one end user, or of a team by configuration (MEM-12)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from pydantic import ConfigDict, Field, StrictBool, StrictFloat

from circadia.ids import BankId
from circadia.records.agent import MAX_AMOUNT
from circadia.records.withdrawn_setting import WithdrawnSettings

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.@~-]{0,127}")


def explain_invalid_bank_name(name: str) -> str:
    """Return why a policy may not use this name for a bank or a template, or an empty string if it may.

    A misspelt template, such as `support-{usr}`, would be one bank shared by all end users.
    """
    if NAME.fullmatch(name.replace("{user}", "u")):
        return ""
    return f"bank name {name!r} must match {NAME.pattern}; with `{{user}}` in it, it is a template"


class Trust(StrEnum):
    """Source of a text; derived texts inherit the least trusted source (MEM-14, MEM-19)."""

    PERSON = "person"
    AGENT = "agent"
    TOOL = "tool"
    EXTERNAL = "external"

    @property
    def rank(self) -> int:
        """0 is the most trusted, 3 the least."""
        return _RANKS[self]


_RANKS: Final = {trust: rank for rank, trust in enumerate(Trust)}


class CaptureMode(StrEnum):
    """What the gateway stores as an episode (MEM-18)."""

    ALL = "all"
    CONTENT = "content"
    """Turns with content: not `ok`, `thanks` or an empty answer."""
    EXPLICIT = "explicit"
    """Nothing automatically; only what `remember` receives."""


class BankRules(WithdrawnSettings):
    """Rules for writing to a bank: the keys that the configuration file, REST and exports share."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)
    withdrawn = ("tune_importance",)

    mission: str = Field(
        default="",
        max_length=500,
        description="What the owner wants remembered, in two sentences that every pass and every judge reads.",
        examples=["A law firm. Remember deadlines, never health."],
    )
    capture_mode: CaptureMode = Field(
        default=CaptureMode.CONTENT,
        description="Turns to keep of the conversations that pass the gateway: `all`, those with `content`, or only "
        "explicit memories (`explicit`).",
    )
    capture_tools: StrictBool = Field(default=False, description="Also keep tool calls and their results.")
    min_importance: StrictFloat = Field(
        default=0.0, ge=0, le=1, description="Minimum importance score; turns below it are counted but not stored."
    )
    hot_edits: StrictBool = Field(default=False, description="Let agents write blocks while somebody waits.")
    duplicate_seconds: StrictFloat = Field(
        default=3600.0, ge=0, allow_inf_nan=False, description="Time within which an exact repetition is only counted."
    )
    keep_days: StrictFloat | None = Field(
        default=None,
        gt=0,
        le=MAX_AMOUNT,
        description="Age at which episodes are deleted with everything derived from them; by default never.",
    )


class BankPolicy(BankRules):
    """The policy of a bank."""

    sleeptime: Mapping[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Settings of its passes that differ from section `sleeptime`, nested as in the file. A change "
        "replaces the keys it contains; null removes one.",
        examples=[{"frequency_turns": 10}],
    )
    own: StrictBool = Field(
        default=False,
        description="Whether the policy was set over REST, so that the file no longer changes it. Sending any key "
        "sets this; `own: false` returns the bank to the file.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Bank:
    id: BankId
    name: str
    """Unique."""
    description: str = ""
    template: str | None = None
    """The template that it was created from, such as `support-{user}`."""
    end_user: str | None = None
    """Its owner, if it was created from a template."""
    policy: BankPolicy = field(default_factory=BankPolicy)
    automatic: bool = False
    """Created for an agent's binding, and not configured by anyone since."""
    generation: int = 0
    """Number of changes that force an index rebuild: deletions, other vectors."""
    demotions: int = 0
    """Number of demotions of episodes, retirements of notes, and reversals of both."""
    vectors: int = 0
    """Number of vectors written to its rows."""
    answers: int = 0
    """Number of changes to its ready answers."""
    published: int = 0
    """Number of publications by passes: the generation of derived data."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of turns that the write policy skipped, by reason."""
    created_at: datetime
    edited_at: datetime | None = None
    """Last write to a block by anyone but the sleep tier."""
    written_at: datetime | None = None
    """Time of the last stored memory; with the times of its agents' calls, the bank's activity."""
