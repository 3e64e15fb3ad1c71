"""Policies of agents and banks, as keys of requests and answers."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, FailFast, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from circadia.records.agent import OnWake, ToolGroup
from circadia.records.answer import AnswerMode
from circadia.records.bank import CaptureMode
from circadia.schemas.view import View


@dataclass(unsafe_hash=True)  # a type that may be null needs a hash
class FirstMistake(FailFast):
    """Stops the validation of a list at its first mistake: a body can hold half a million."""


Name = Annotated[str, StringConstraints(max_length=200)]
"""A name or a reference; nothing has a longer one."""
Reach = Annotated[tuple[Name, ...], FirstMistake()]
"""Names that a policy grants, or `*`."""

MOST_COUNTED: Final = 2**53
"""Largest whole number that every JSON reader reads exactly (RFC 8259, section 6)."""
MOST_MEASURED: Final = 10.0**9
"""Largest number of seconds or dollars."""


class PolicyKeys(BaseModel):
    """All keys of a policy; the OpenAPI document describes them as the settings do."""

    upstreams: Reach = Field(("*",), examples=[["openai"]])
    mcp_servers: Reach = Field(("*",), examples=[["*"]])
    tools: Annotated[tuple[ToolGroup, ...], FirstMistake()] = ("*",)
    sessions: Reach = ()
    may_wake: Reach = Field((), examples=[["writer"]])
    may_sleep: Reach = ()
    models: Reach | None = None
    max_calls_per_day: StrictInt | None = Field(None, ge=0, le=MOST_COUNTED)
    max_tokens_per_day: StrictInt | None = Field(None, ge=0, le=MOST_COUNTED)
    max_usd_per_day: StrictFloat | None = Field(None, ge=0, le=MOST_MEASURED)
    on_wake: OnWake = OnWake.NOTICE
    include_usage: StrictBool = True
    hold_max_seconds: StrictFloat | None = Field(None, gt=0, le=MOST_MEASURED)
    hold_lists: StrictBool = False
    abort_streams: StrictBool = False
    bank: Name | None = Field(None, examples=["support-{user}"])
    write_banks: Reach = ()
    read_banks: Reach = ()
    multi_user: StrictBool = False
    capture: StrictBool = True
    inject: StrictBool = True
    stable_tokens: StrictInt = Field(2_000, ge=0, le=MOST_COUNTED)
    fitting_tokens: StrictInt = Field(1_000, ge=0, le=MOST_COUNTED)
    answer_mode: AnswerMode = AnswerMode.HINT
    sleeptime_agent: StrictBool = False


class PolicyView(PolicyKeys, View):
    """An agent's whole policy."""


class BankPolicyKeys(BaseModel):
    """The policy of a bank."""

    capture_mode: CaptureMode = CaptureMode.CONTENT
    capture_tools: StrictBool = False
    min_importance: StrictFloat = Field(0.0, ge=0, le=1)
    tune_importance: StrictBool = False
    hot_edits: StrictBool = False
    duplicate_seconds: StrictFloat = Field(3600.0, ge=0, le=MOST_MEASURED)
    keep_days: StrictFloat | None = Field(None, gt=0, le=MOST_MEASURED)
    sleeptime: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Settings of its passes that differ from section `sleeptime`, nested as in the file. A change "
        "replaces the keys it contains; null removes one.",
        examples=[{"frequency_turns": 10}],
    )
    own: StrictBool = Field(
        False,
        description="Whether the policy was set over REST, so that the file no longer changes it. Sending any key "
        "sets this; `own: false` returns the bank to the file.",
    )
