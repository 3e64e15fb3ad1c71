"""Wake requests, their outcome for the sender, wake statistics, pulses and chains, in answers."""

from datetime import date as Day
from datetime import datetime
from typing import Literal

from pydantic import AliasChoices, Field

from circadia.records.message import Priority
from circadia.records.pulse import PulseKind, PulseStatus
from circadia.records.wake import Charge, Decision, WakeSource
from circadia.schemas.agents import NextWakeView
from circadia.schemas.fleet import UsageLine
from circadia.schemas.view import View


class WakeView(View):
    """A wake request and its decision."""

    id: str = Field(description="Unique id.", examples=["wak_0cwd…"])
    at: datetime = Field(description="Time of the request.")
    agent: str = Field(description="Reference of the agent to wake.", examples=["writer"])
    source: WakeSource = Field(description="Source of the request: `agent`, `thread`, `schedule` or `person`.")
    sender: str = Field(
        validation_alias=AliasChoices("from", "sender"),
        serialization_alias="from",
        description="Requester.",
        examples=["lead", "schedule nightly"],
    )
    sender_pulse: str | None = Field(description="Id of the pulse in which the sender made the request.")
    reason: str = Field(description="Reason.", examples=["blocker"])
    priority: Priority = Field(description="Priority among deferred requests.")
    message: str | None = Field(
        validation_alias=AliasChoices("message", "message_id"), description="Id of the message that caused it."
    )
    routine: str | None = Field(description="Due routine.")
    decision: Decision = Field(description="Decision.")
    rule: str | None = Field(description="Guardrail that blocked it, if any.")
    detail: str = Field(description="Explanation.")
    not_before: datetime | None = Field(description="Latest next check if deferred; end of the obstacle if refused.")
    expires_at: datetime | None = Field(description="When a deferred request expires.")
    decided_at: datetime = Field(description="Time of the current decision.")
    charge: Charge = Field(description="Charge against the budgets.")
    pulse: str | None = Field(
        validation_alias=AliasChoices("pulse", "pulse_id"), description="Id of the pulse that it started or joined."
    )
    root: str = Field(
        validation_alias=AliasChoices("root", "root_id"), description="First wake or message of the chain."
    )
    parent: str | None = Field(
        validation_alias=AliasChoices("parent", "parent_id"), description="Wake that started the pulse of the request."
    )
    depth: int = Field(description="Number of wakes from the root to this one.")
    overridden_by: str | None = Field(description="Who bypassed the guardrails, and why.")


class GuardrailCheckView(View):
    """The result of one guardrail."""

    rule: str = Field(description="Guardrail.", examples=["max_wakes_per_day"])
    passed: bool = Field(description="Whether the guardrail allows the wake.")
    limit: float | None = Field(description="Limit; null if there is none or it is no number.")
    value: float | None = Field(description="Counted value before this request.")
    detail: str = Field(description="What blocks the wake.")


class WakeDetail(WakeView):
    """A wake request with its guardrail checks."""

    trace: list[GuardrailCheckView] = Field(description="Guardrail checks in order.")


class BudgetView(View):
    """A limit and its remainder."""

    limit: float | None = Field(description="Limit; null means none.")
    used: float = Field(description="Amount used.")
    left: float | None = Field(
        validation_alias=AliasChoices("left", "remaining"), description="Amount left; null means no limit."
    )


class BudgetsView(View):
    """Budgets after the decision."""

    session: BudgetView | None = Field(
        description="Wakes that the sender may request in its current pulse or wake period; null for a person."
    )
    day: BudgetView = Field(description="Wakes of the target today.")
    pair: BudgetView | None = Field(description="Wakes of the target by this sender today; null for a person.")


class SendOutcome(View):
    """The outcome of a message and of its wake request."""

    to: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    message: str | None = Field(description="Id of the message in the inbox.", examples=["msg_0cwd…"])
    wake: str | None = Field(description="Id of the wake request; null if there is none.", examples=["wak_0cwd…"])
    decision: Decision | None = Field(description="Decision; null if no wake was requested.")
    rule: str | None = Field(description="Guardrail that blocked it, if any.")
    detail: str = Field(description="Explanation.")
    retry_at: datetime | None = Field(
        description="When the request may pass, if known; a deferred request is retried automatically."
    )
    pulse: str | None = Field(description="Id of the pulse that it started or joined.")
    root: str | None = Field(description="First wake or message of the chain.")
    budgets: BudgetsView = Field(description="Remaining budgets.")
    summary: str = Field(description="Summary in words, for a model or a person.")


class WakeOutcome(SendOutcome):
    """The outcome of a wake request, with guardrail checks."""

    trace: list[GuardrailCheckView] = Field(
        description="Guardrail checks in order, up to the deciding one; all of them in a dry run."
    )
    dry_run: bool = Field(description="Whether it was a dry run without changes.")


class WakeList(View):
    """Wake requests."""

    wakes: list[WakeDetail | WakeView] = Field(description="Newest first, with traces if requested.")
    before: str | None = Field(description="Value of `before` for the next page; null at the end.")


class WakePairCounts(View):
    """Wake requests of one sender for one target."""

    sender: str = Field(
        validation_alias=AliasChoices("from", "sender"),
        serialization_alias="from",
        description="Requester.",
        examples=["lead"],
    )
    to: str = Field(description="Reference of the target.", examples=["writer"])
    decisions: dict[Decision, int] = Field(description="Number of requests by decision, without zeros.")
    total: int = Field(description="Number of requests.")


class WakeMatrix(View):
    """Wake requests by sender and target."""

    pairs: list[WakePairCounts] = Field(description="Sorted by name.")


class WakeStatsView(View):
    """An agent's wakes in its current day, against its limits; null means no limit, or never."""

    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    wakes_today: int = Field(description="Number of wakes today that count.")
    max_wakes_per_day: int | None = Field(description="Maximum number of wakes per day.")
    cooldown_seconds: float | None = Field(description="Minimum time between two wakes.")
    last_wake_time: int | None = Field(
        description="Time of the last admitted wake that counts, in milliseconds since 1970.",
        examples=[1_740_000_000_000],
    )
    max_daily_session_minutes: float | None = Field(description="Maximum run time of its pulses per day.")
    date: Day = Field(validation_alias=AliasChoices("date", "day"), description="Current day in the agent's time zone.")
    timezone: str = Field(
        validation_alias=AliasChoices("timezone", "zone"),
        description="Time zone of the agent.",
        examples=["Europe/Berlin"],
    )
    resets_at: datetime = Field(description="End of that day.")
    cooldown_remaining_seconds: float = Field(description="Remaining cooldown; 0 if it is over.")
    session_minutes_today: float = Field(description="Run time of its pulses today, including open ones.")
    per_source: dict[str, int] = Field(description="Number of counted wakes by requester.")
    refused_today: dict[str, int] = Field(description="Number of refused requests today by guardrail.")
    deferred: int = Field(description="Number of deferred requests.")
    active_pulses: int = Field(description="Number of open pulses.")


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


class ChainNode(View):
    """A wake, pulse or message in a chain."""

    kind: Literal["message", "wake", "pulse"] = Field(description="Kind of node.")
    id: str = Field(description="Id of the wake, pulse or message.", examples=["wak_0cwd…"])
    at: datetime = Field(description="Time of creation.")
    agent: str = Field(
        description="Agent of the wake or pulse, or author of the message.", examples=["writer"]
    )  # fmt: skip
    by: str = Field(description="Who caused it.", examples=["lead"])
    state: str = Field(description="Decision of a wake, or status of a pulse; empty for a message.")
    detail: str = Field(description="Explanation; for a message, the start of its text.")
    depth: int = Field(description="Number of wakes since the root.")
    parent: str | None = Field(description="Id of the cause; null without a cause in the chain.")
    ended_at: datetime | None = Field(default=None, description="When a pulse ended.")
    usage: UsageLine | None = Field(
        default=None, description="Model calls of a pulse; null for others, and for a pulse without a stored call."
    )


class Chain(View):
    """A chain."""

    root: str = Field(description="Id of the first wake, pulse or message.", examples=["msg_0cwd…"])
    wakes: int = Field(description="Number of wake requests.")
    pulses: int = Field(description="Number of pulses.")
    messages: int = Field(description="Number of messages.")
    depth: int = Field(description="Maximum depth.")
    usage: UsageLine = Field(description="Model calls of all its pulses.")
    nodes: list[ChainNode] = Field(
        description="Tree in depth-first order. A message leads to its wake, a wake to its pulse, and a pulse to its "
        "agent's messages and wake requests."
    )


class AgentReasonView(View):
    """Why an agent sleeps or is awake, and what wakes it."""

    agent: str = Field(description="Reference of the agent.", examples=["writer"])
    sleeping: bool = Field(
        validation_alias=AliasChoices("sleeping", "asleep"), description="Whether the agent is asleep."
    )
    since: datetime = Field(description="When the sleep state last changed.")
    because: str = Field(description="Who or what changed it, and why.", examples=["mentioned by lead"])
    wake: str | None = Field(description="Id of the wake request that woke it.")
    message: str | None = Field(description="Id of the message behind that request.")
    next: NextWakeView | None = Field(description="What wakes it next; null if nothing that is known.")
    wakers: list[str] = Field(description="What can wake it: events, messages, routines.", examples=[["mentioned"]])


class MessageWakeView(View):
    """Why a message woke a recipient, or did not."""

    agent: str = Field(description="Reference of the recipient.", examples=["writer"])
    mentioned: bool = Field(description="Whether the message mentions it.")
    wake: str | None = Field(description="Id of the wake request, if there was one.")
    decision: Decision | None = Field(description="Its decision.")
    rule: str | None = Field(description="Guardrail that blocked it, if any.")
    why: str = Field(description="Explanation.", examples=["it was awake then, and reads the message by itself"])


class MessageWakeList(View):
    """Why a message woke its recipients, or did not."""

    message: str = Field(description="Id of the message.")
    sender: str = Field(
        validation_alias=AliasChoices("from", "sender"), serialization_alias="from", description="Sender."
    )
    recipients: list[MessageWakeView] = Field(description="Mentioned ones first.")


class WakeCircleView(View):
    """Agents that wake each other, directly or over others."""

    agents: list[str] = Field(description="References of the agents, sorted.", examples=[["ping", "pong"]])
    wakes: int = Field(description="Granted wakes among them.")
    sender: str = Field(
        validation_alias=AliasChoices("from", "sender"), serialization_alias="from",
        description="Sender of the pair that is nearest to its limit.",
    )  # fmt: skip
    to: str = Field(validation_alias=AliasChoices("to", "target"), description="Target of that pair.")
    used: int = Field(description="Granted wakes of that pair, as its limit counts them.")
    limit: int | None = Field(description="`max_wakes_per_pair_per_day` of the target; null without a limit.")


class WakeCircleList(View):
    """Agents that wake each other."""

    circles: list[WakeCircleView] = Field(description="Those with the most wakes first.")
