"""Pulses in answers."""

from datetime import datetime

from pydantic import AliasChoices, Field

from circadia.records.pulse import PulseKind, PulseStatus
from circadia.schemas.view import View


class PulseView(View):
    """A bounded run of an agent."""

    id: str = Field(description="Unique id.", examples=["pls_0cwd…"])
    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    kind: PulseKind = Field(description="Cause of the start: `wake`, `schedule`, `manual` or `gate`.")
    status: PulseStatus = Field(description="Status.")
    launcher: str = Field(description="Launcher.", examples=["resident"])
    wake: str | None = Field(
        validation_alias=AliasChoices("wake", "wake_id"), description="Id of the admitted wake request."
    )
    by: str = Field(description="Who requested the wake.", examples=["lead"])
    reason: str = Field(description="Reason.", examples=["blocker"])
    routine: str | None = Field(description="Routine.")
    attempt: int = Field(description="Number of starts, without those that a server stop interrupted.")
    epoch: int = Field(description="Fencing number; each start and takeover adds one.")
    created_at: datetime = Field(description="Time of admission.")
    not_before: datetime | None = Field(description="Earliest start of the next attempt.")
    started_at: datetime | None = Field(description="When the agent began to run in the latest attempt.")
    ended_at: datetime | None = Field(description="Time of the end.")
    run_seconds: float = Field(description="Run time of all attempts.")
    timeout_seconds: float | None = Field(description="Longest attempt; null means no limit.")
    detail: str = Field(description="How it ended.")
    root: str = Field(
        validation_alias=AliasChoices("root", "root_id"), description="First wake or message of the chain."
    )
    depth: int = Field(description="Number of wakes since the root.")


class PulseList(View):
    """Pulses of an agent."""

    pulses: list[PulseView] = Field(description="Newest first.")
    before: str | None = Field(description="Value of `before` for the next page; null at the end.")
