"""The timeline in answers: what agents did, and when."""

from datetime import datetime

from pydantic import Field

from circadia.records.span import SpanKind
from circadia.schemas.view import View


class TimelineSpan(View):
    """What an agent did for a time, or a moment at which a wake was admitted or refused."""

    kind: SpanKind = Field(
        description="`asleep` or `awake`; `held` is a call that was held, `pulse` an attempt of a pulse; `wake` and "
        "`refusal` are moments."
    )
    started_at: datetime = Field(description="Begin, also if it is before `since`.")
    ended_at: datetime | None = Field(description="End; null while it lasts.")
    by: str = Field(description="Who or what it came from.", examples=["mentioned by lead"])
    reason: str = Field(
        description="Interface of a change of sleep, reason of a pulse or wake, or operation of a held call.",
        examples=["POST /v1/chat/completions"],
    )
    outcome: str = Field(
        description="Status of an ended pulse, `admitted` or `dropped` of a held call, guardrail of a refusal; else "
        "empty.",
        examples=["succeeded"],
    )
    failed: bool = Field(description="Whether it is a pulse that did not end well.")
    ref: str = Field(description="Id of the pulse, hold or wake; empty for sleep.", examples=["pls_0cwd…"])


class TimelineLane(View):
    """What one agent did."""

    agent: str = Field(description="Name of the agent.", examples=["writer"])
    session: str = Field(description="Name of the session.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    asleep: bool = Field(description="Whether it is asleep now.")
    since: datetime = Field(description="Begin of its present state.")
    by: str = Field(description="Who or what brought it about.", examples=["operator"])
    is_deleted: bool = Field(description="Whether the agent was deleted.")
    is_continued: bool = Field(description="Whether the next page goes on with this agent.")
    spans: list[TimelineSpan] = Field(description="By their end; those that last come last.")


class Timeline(View):
    """A page of what agents did."""

    since: datetime = Field(description="Begin of the window.")
    until: datetime = Field(description="End of the window.")
    lanes: list[TimelineLane] = Field(description="By session and agent.")
    next: str | None = Field(None, description="`after` of the next page; null in the last one.")


class TimelineSum(View):
    """What agents did in a quarter of an hour. Times add up over agents."""

    session: str = Field(description="Name of the session; empty for the sum over all.", examples=["default"])
    at: datetime = Field(description="Begin of the quarter.")
    asleep_seconds: float = Field(description="Time asleep.")
    awake_seconds: float = Field(description="Time awake.")
    held_seconds: float = Field(description="Time that calls were held; counted once they have ended.")
    pulse_seconds: float = Field(description="Run time of pulses; counted once they have ended.")
    pulses: int = Field(description="Pulses that ended.")
    failed: int = Field(description="Those of them that did not end well.")
    wakes: int = Field(description="Wake requests that were admitted.")
    refusals: int = Field(description="Wake requests that were refused.")


class TimelineSums(View):
    """Sums by quarter of an hour."""

    sums: list[TimelineSum] = Field(description="By time and session.")
    next: str | None = Field(None, description="`since` of the next page; null in the last one.")
