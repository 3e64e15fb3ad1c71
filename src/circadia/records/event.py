"""An entry of the append-only event log, its kinds, and the data of each kind.

Services record the data, and the OpenAPI document describes it by the docstrings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from circadia.records.agent import Cause
from circadia.records.approval import ApprovalRule, ApprovalStatus
from circadia.records.dream_job import DreamJobStatus, DreamSource
from circadia.records.message import MessageType, Priority
from circadia.records.principal import AccessRole
from circadia.records.pulse import PulseKind, PulseStatus
from circadia.records.sleep_pass import PassStatus, Trigger
from circadia.records.wake import Decision, WakeSource


class EventType(StrEnum):
    """Kinds of events (GATE-80)."""

    SESSION_CREATED = "session_created"
    SESSION_CLOSED = "session_closed"
    SESSION_STALLED = "session_stalled"
    AGENT_CREATED = "agent_created"
    AGENT_CHANGED = "agent_changed"
    AGENT_DELETED = "agent_deleted"
    TOKEN_ROTATED = "token_rotated"
    ACCESS_GRANTED = "access_granted"
    ACCESS_REVOKED = "access_revoked"
    SLEEP_START = "sleep_start"
    SLEEP_STOP = "sleep_stop"
    HELD = "held"
    ADMITTED = "admitted"
    RESUMED = "resumed"
    DROPPED = "dropped"
    THREAD_CREATED = "thread_created"
    THREAD_CLOSED = "thread_closed"
    PARTICIPANT_ADDED = "participant_added"
    PARTICIPANT_REMOVED = "participant_removed"
    MESSAGE = "message"
    UPSTREAM_ERROR = "upstream_error"
    DIRECT_MESSAGE = "direct_message"
    DELIVERY = "delivery"
    WAKE = "wake"
    PULSE = "pulse"
    ROUTINE = "routine"
    ALARM = "alarm"
    NAMED_EVENT = "named_event"
    COORDINATION = "coordination"
    HOOK = "hook"
    HOOK_DELIVERY = "hook_delivery"
    ALERT = "alert"
    APPROVAL = "approval"
    BANK_CREATED = "bank_created"
    BANK_CHANGED = "bank_changed"
    BANK_DELETED = "bank_deleted"
    BLOCK = "block"
    FORGOTTEN = "forgotten"
    RESTORED = "restored"
    CORRECTED = "corrected"
    DEMOTED = "demoted"
    PROMOTED = "promoted"
    PASS = "pass"
    DREAM = "dream"
    REVIEWED = "reviewed"
    PASSES_PAUSED = "passes_paused"
    PASSES_RESUMED = "passes_resumed"
    OPERATION_PAUSED = "operation_paused"
    ANSWERS_FELL_BACK = "answers_fell_back"
    ANSWERS_TRUSTED = "answers_trusted"
    ANSWERS_DROPPED = "answers_dropped"
    ALERT_RAISED = "alert_raised"
    ALERT_ACKNOWLEDGED = "alert_acknowledged"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    number: int = 0
    """Position in the log, ascending in commit order; 0 until stored."""
    type: EventType
    at: datetime
    session: str | None = None
    agent: str | None = None
    data: Mapping[str, object] = field(default_factory=dict[str, object])
    """Other data as JSON values; never a secret or a prompt."""


class EventData(BaseModel):
    """Data of an event; never a secret or a prompt."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    def to_json(self) -> dict[str, object]:
        """Return the fields that have a value, as JSON values."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


Author = Annotated[str, Field(description="Who did it.", examples=["operator"])]
BankName = Annotated[str, Field(description="Name of the bank.", examples=["support"])]
BankKey = Annotated[str, Field(description="Id of the bank.")]
Sender = Annotated[str, Field(serialization_alias="from", description="Sender.", examples=["lead"])]
MessageKey = Annotated[str, Field(description="Id of the message.")]
Root = Annotated[str, Field(description="First wake, pulse or message of the chain.")]
Depth = Annotated[int, Field(description="Number of wakes since the root.")]


class SessionCreation(EventData):
    """A session was created."""

    agents: int = Field(description="Number of its agents.")
    by: Author


class SessionClosing(EventData):
    """A session was closed."""

    by: Author


class SessionStall(EventData):
    """All agents of a session have slept for `defaults.stall_seconds` without outside activity."""

    since: datetime = Field(description="Last activity.")


class AccessChange(EventData):
    """A person got a token, or it was revoked."""

    name: str = Field(description="Name of the person.")
    role: AccessRole = Field(description="Role of the person.")
    by: Author


class AgentCreation(EventData):
    """An agent was created."""

    asleep: bool = Field(description="Whether it starts asleep.")
    by: Author


class AgentUpdate(EventData):
    """The settings of an agent changed."""

    enabled: bool = Field(description="Whether its token is valid.")
    by: Author


class AgentDeletion(EventData):
    """An agent was deleted."""

    reason: str = Field(description="Reason.")
    by: Author


class TokenRotation(EventData):
    """An agent got a new token."""

    by: Author


class SleepChange(EventData):
    """An agent fell asleep or woke."""

    generation: int = Field(description="Number of changes so far.")
    cause: Cause = Field(description="Interface of the change.")
    actor: str = Field(description="Who made the change.", examples=["mentioned by lead"])
    lasted_seconds: float = Field(description="Duration of the state before.")
    wake: str | None = Field(default=None, description="Id of the wake request that woke it.")
    message: str | None = Field(default=None, description="Id of the message behind that request.")


class HeldCallData(EventData):
    """A held call."""

    hold: str = Field(description="Id of the hold.")
    door: str = Field(description="`model` or `mcp`.")
    what: str = Field(description="Held call.", examples=["POST /v1/chat/completions"])


class CallHold(HeldCallData):
    """A call of a sleeping agent, or one that needs a person's approval, was held."""

    continues: str | None = Field(default=None, description="Id of the hold whose place and time it has, as a retry.")
    approval: str | None = Field(default=None, description="Id of the approval that it waits for.")


class CallRelease(HeldCallData):
    """A held call was released."""

    waited_seconds: float = Field(description="Time held.")
    generation: int = Field(description="Number of changes of the agent's sleep state.")


class CallDrop(HeldCallData):
    """A held call ended without execution."""

    waited_seconds: float = Field(description="Time held.")
    reason: str = Field(description="Reason.")
    by: str | None = Field(default=None, description="Operator who dropped it.", examples=["operator"])


class AnswerResume(EventData):
    """A caller whose connection broke fetches the rest of a streamed answer."""

    call: str = Field(description="Id of the call.")
    after: int = Field(description="Number of events that it has.")


class ThreadData(EventData):
    """A thread changed."""

    thread: str = Field(description="Id of the thread.")
    thread_name: str = Field(description="Name of the thread.")


class ThreadChange(ThreadData):
    """A thread was opened or closed."""

    by: Author


class ParticipantChange(ThreadChange):
    """An agent was added to a thread or removed."""

    participant: str = Field(description="Reference of the agent.")


class ThreadMessage(ThreadData):
    """A message was sent to a thread (its text is not in the event)."""

    message: MessageKey
    sender: Sender
    mentions: list[str] = Field(description="Mentioned participants.")


class UpstreamError(EventData):
    """A model provider failed."""

    upstream: str = Field(description="Provider.")
    endpoint: str = Field(description="Called endpoint.")
    status: int | None = Field(description="Its HTTP status; null without an answer.")
    message: str = Field(description="Error.")


class DirectMessage(EventData):
    """A message was put into an inbox (its text is not in the event)."""

    message: MessageKey
    sender: Sender
    type: MessageType = Field(description="Purpose.")
    priority: Priority = Field(description="Priority.")
    root: Root
    depth: Depth


class DeliveryUpdate(EventData):
    """An agent or a person marked messages of an inbox, or an operator requeued them."""

    state: Literal["handled", "snoozed", "requeued"] = Field(description="What happened to them.")
    messages: list[str] = Field(description="Ids of the messages.")
    by: str | None = Field(
        default=None, description="Operator who did it; none for the agent itself.", examples=["operator"]
    )


class WakeVerdict(EventData):
    """A wake request was decided or decided again."""

    wake: str = Field(description="Id of the wake request.")
    decision: Decision = Field(description="Decision.")
    source: WakeSource = Field(description="Source of the request.")
    sender: Sender
    reason: str = Field(description="Reason.")
    rule: str | None = Field(description="Guardrail that blocked it, if any.")
    detail: str = Field(description="Explanation.")
    not_before: datetime | None = Field(description="Latest next check if deferred; end of the obstacle if refused.")
    pulse: str | None = Field(description="Id of the pulse that it started or joined.")
    message: str | None = Field(description="Id of the message that caused it.")
    root: Root
    depth: Depth
    overridden_by: str | None = Field(description="Who bypassed the guardrails, and why.")


class PulseChange(EventData):
    """The status of a pulse changed."""

    pulse: str = Field(description="Id of the pulse.")
    status: PulseStatus = Field(description="New status.")
    kind: PulseKind = Field(description="Kind.")
    launcher: str = Field(description="Launcher.")
    by: str = Field(description="Who started it.")
    reason: str = Field(description="Reason.")
    attempt: int = Field(description="Number of runs so far.")
    detail: str = Field(description="Explanation.")
    root: Root
    depth: Depth
    run_seconds: float = Field(description="Run time so far.")
    released: int = Field(description="Number of wakes that no longer count.")


class RoutineOutcome(EventData):
    """A routine was due."""

    routine: str = Field(description="Name of the routine.")
    occurrence: datetime | None = Field(default=None, description="Time at which it was due.")
    missed: int = Field(default=0, description="Number of missed occurrences.")
    skips: int = Field(description="Number of consecutive skips.")
    verdict: Literal["run", "deferred", "skipped", "missed"] = Field(description="Action.")
    wake: str | None = Field(default=None, description="Id of the wake request.")
    decision: Decision | None = Field(default=None, description="Decision on the wake request.")
    reason: str | None = Field(default=None, description="Reason for the skip.")
    rule: str | None = Field(default=None, description="Guardrail that blocked it, if any.")


class RoutineUpdate(EventData):
    """The routines of an agent changed."""

    changed_by: str = Field(description="Who changed them.")
    routines: list[str] = Field(description="Names of the routines.")


class AlarmState(StrEnum):
    """What happened to an alarm, or to a routine of an agent's own; `routine` says how it ran."""

    SET = "set"
    CANCELLED = "cancelled"
    ENDED = "ended"
    """A wake came before it."""


class AlarmChange(EventData):
    """An alarm or an own routine was set, cancelled, or ended by a wake."""

    name: str = Field(description="Name.", examples=["alarm 2026-11-30T09:00:00Z"])
    state: AlarmState = Field(description="What happened.")
    at: datetime | None = Field(description="Its next time.")
    recurs: bool = Field(description="Whether it is a routine.")
    ends_on_wake: bool = Field(description="Whether a wake before its time deletes it.")


class NamedEventRecord(EventData):
    """A named event came in (its data is not in this entry)."""

    name: str = Field(description="Name of the event.", examples=["batch.completed"])
    by: Author
    agents: list[str] = Field(description="Agents that waited for it.")


class CoordinationUpdate(EventData):
    """Wake settings of an agent changed."""

    by: Author
    changed: dict[str, Any] = Field(description="New values by name.")


class ApprovalChange(EventData):
    """An approval of a call was asked for, given, refused or used, or has expired."""

    approval: str = Field(description="Id of the approval.")
    status: ApprovalStatus = Field(description="New status.")
    rule: ApprovalRule = Field(description="Part of the policy that asks for it.")
    door: str = Field(description="`model` or `mcp`.")
    target: str = Field(description="Provider or MCP server.")
    what: str = Field(description="Called endpoint or tool.")
    digest: str = Field(description="SHA-256 of the call.")
    by: Author
    reason: str = Field(default="", description="Reason of the person who decided.")


class HookChange(EventData):
    """Somebody created, changed or deleted a hook."""

    hook: str = Field(description="Name of the hook.")
    change: Literal["created", "changed", "deleted"] = Field(description="What happened to it.")
    by: Author


class HookDeliveryData(EventData):
    """A hook accepted a delivery."""

    hook: str = Field(description="Name of the hook.")
    delivery: str = Field(description="Id of the delivery, by its sender.")
    message: str | None = Field(default=None, description="Id of the message that it became.")
    wake: str | None = Field(default=None, description="Id of the wake request that it made.")


class BudgetAlert(EventData):
    """The last fifth of a daily budget is in use."""

    cause: Literal["budget"] = Field(description="Cause.")
    calls_today: int | None = Field(default=None, description="Calls today.")
    max_calls_per_day: int | None = Field(default=None, description="Their limit.")
    tokens_today: int | None = Field(default=None, description="Tokens today.")
    max_tokens_per_day: int | None = Field(default=None, description="Their limit.")
    usd_today: float | None = Field(default=None, description="US dollars today.")
    max_usd_per_day: float | None = Field(default=None, description="Their limit.")


class DeadLetterAlert(EventData):
    """A pulse has failed so often that its messages are set aside."""

    cause: Literal["dead_letter"] = Field(description="Cause.")
    pulse: str = Field(description="Id of the pulse.")
    messages: list[str] = Field(description="Ids of the messages.")
    detail: str = Field(description="Explanation.")


class RoutineAlert(EventData):
    """A routine was skipped too often in a row."""

    cause: Literal["routine_skipped"] = Field(description="Cause.")
    routine: str = Field(description="Name of the routine.")
    skips: int = Field(description="Number of consecutive skips.")


class SleepTimeAlert(EventData):
    """Passes over banks fail."""

    cause: Literal["sleep_time"] = Field(description="Cause.")
    banks: dict[str, str] = Field(description="Problem of each bank.")
    red: int = Field(description="Number of all banks with a problem.")


class SleepTimeOverAlert(EventData):
    """Passes over banks recovered a minute ago or more."""

    cause: Literal["sleep_time_over"] = Field(description="Cause.")
    banks: list[str] = Field(description="Names of the banks.")
    red: int = Field(description="Number of all banks with a problem.")


class EmbeddingAlert(EventData):
    """Texts have not been embedded for a minute or more."""

    cause: Literal["embedding"] = Field(description="Cause.")
    detail: str = Field(description="Last error.")


class EmbeddingOverAlert(EventData):
    """Texts are embedded again."""

    cause: Literal["embedding_over"] = Field(description="Cause.")


class BankLifecycle(EventData):
    """A bank was created or deleted."""

    bank: BankName
    by: Author


class ImportedRows(EventData):
    """Rows that an import has added."""

    episodes: int = Field(description="Number of episodes.")
    notes: int = Field(description="Number of notes.")
    versions: int = Field(description="Number of block versions.")


class BankUpdate(BankLifecycle):
    """A bank was changed, or filled by an import."""

    was: str | None = Field(default=None, description="Its name before, if that was in the request.")
    imported: ImportedRows | None = Field(default=None, description="Rows that an import has added.")


class BlockWrite(BankLifecycle):
    """A block has a new version (its text is not in the event)."""

    label: str = Field(description="Label of the block.")
    version: int = Field(description="Number of the version.")
    deleted: bool = Field(description="Whether this version deletes the block.")


class EpisodeDeletion(BankLifecycle):
    """Episodes were deleted with everything derived from them, or an agent forgot one, which can be restored."""

    keep_days: float | None = Field(
        default=None,
        description="Age limit of the bank, if that was the reason; null where `circadia` deletes what has expired.",
    )
    episodes: int = Field(description="Number of episodes.")
    notes: int = Field(description="Number of notes.")
    versions: int = Field(description="Number of block versions that lost a part.")
    episode: str | None = Field(default=None, description="Id of the episode that an agent forgot.")
    restorable_until: datetime | None = Field(default=None, description="Until when a person can restore it.")


class EpisodeRestoration(BankLifecycle):
    """An episode that an agent had forgotten was restored."""

    episode: str = Field(description="Id of the episode.")


class EpisodeCorrection(BankLifecycle):
    """An agent said that an episode of its end user is wrong."""

    episode: str = Field(description="Id of the wrong episode.")
    correction: str = Field(description="Id of the episode that says what is right.")


class EpisodeDemotion(BankLifecycle):
    """A person demoted an episode, or took a demotion back."""

    episode: str = Field(description="Id of the episode.")
    evidence: str = Field(description="Evidence of the demotion.")
    demoted: bool = Field(description="False if the demotion was taken back.")


class NotePromotion(BankLifecycle):
    """A note was copied into this bank."""

    source: str = Field(description="Bank of the note.")
    note: str = Field(description="Id of the note.")
    episode: str = Field(description="Id of the copy.")


PassKey = Annotated[str, Field(serialization_alias="pass", description="Id of the pass.")]
Review = Literal["accepted", "refused", "undone"]


class PassReviewChange(BankLifecycle):
    """Somebody decided on changes of a pass."""

    pass_id: PassKey
    act: Review = Field(description="What was done.")
    changes: int = Field(description="Number of changes for which it succeeded.")
    failed: int = Field(description="Number of changes for which it did not.")
    numbers: list[int] = Field(description="Numbers of the changes, up to 100.")


class DreamReviewChange(EventData):
    """Somebody decided on what a dream over a folder has proposed or written."""

    dream: str = Field(description="Id of the dream.")
    name: str = Field(description="Name of the folder.")
    act: Review = Field(description="What was done.")
    files: list[str] = Field(description="Paths in the folder, up to 100.")
    by: Author


class PassChange(EventData):
    """The status of a pass changed."""

    pass_id: PassKey
    bank: BankName
    status: PassStatus = Field(description="New status.")
    trigger: Trigger = Field(description="Trigger.")
    by: str | None = Field(default=None, description="Who asked for it, or cancelled it.", examples=["operator"])
    detail: str | None = Field(default=None, description="Explanation.")
    counts: dict[str, int] | None = Field(default=None, description="Number of changes by kind.")


class DreamChange(EventData):
    """The status of a dream that was asked for, or was due, changed."""

    dream: str = Field(description="Id of the dream.")
    source: DreamSource = Field(description="Whether it reads a folder or a bank.")
    name: str = Field(description="Name of the folder or bank.")
    status: DreamJobStatus = Field(description="Status.")
    by: Author
    detail: str = Field(default="", description="What it did, or why it failed.")


class PassSwitch(BankLifecycle):
    """Somebody paused or resumed passes over a bank."""

    bank_id: BankKey


class OperationSuspension(EventData):
    """Earlier releases paused an operation."""

    bank: BankName
    operation: str = Field(description="Name of the operation.")
    unit: str = Field(description="`usd` or `tokens`.")
    ratio: float | None = Field(description="Benefit over cost.")
    uses: int = Field(description="Number of calls that used what it made.")
    calls: int = Field(description="Number of its model calls.")
    saved_tokens: int = Field(description="Saved tokens.")
    saved_usd: float = Field(description="Saved US dollars.")
    spent_tokens: int = Field(description="Spent tokens.")
    spent_usd: float = Field(description="Spent US dollars.")
    window_days: int = Field(description="Length of the window.")
    until: datetime = Field(description="When it is tried again.")


class AnswerTrust(EventData):
    """An agent's ready answers became too often wrong, so that `serve` acts as `hint`, or are right again."""

    bank: BankName
    bank_id: BankKey
    least_precision: float = Field(description="Least share of right answers.")


class AnswerDrop(BankLifecycle):
    """A person dropped ready answers."""

    answers: int = Field(description="Number of answers.")
    answer: str | None = Field(default=None, description="Id of the answer, if it was one alone.")


class AlertChange(EventData):
    """An alert was raised or acknowledged."""

    alert: str = Field(description="Id of the alert.")
    cause: str = Field(description="Cause.", examples=["circuit_open"])
    by: str | None = Field(default=None, description="Who acknowledged it.", examples=["operator"])


EVENT_DATA: Final[Mapping[EventType, tuple[type[EventData], ...]]] = {
    EventType.SESSION_CREATED: (SessionCreation,),
    EventType.SESSION_CLOSED: (SessionClosing,),
    EventType.SESSION_STALLED: (SessionStall,),
    EventType.ACCESS_GRANTED: (AccessChange,),
    EventType.ACCESS_REVOKED: (AccessChange,),
    EventType.AGENT_CREATED: (AgentCreation,),
    EventType.AGENT_CHANGED: (AgentUpdate,),
    EventType.AGENT_DELETED: (AgentDeletion,),
    EventType.TOKEN_ROTATED: (TokenRotation,),
    EventType.SLEEP_START: (SleepChange,),
    EventType.SLEEP_STOP: (SleepChange,),
    EventType.HELD: (CallHold,),
    EventType.ADMITTED: (CallRelease,),
    EventType.RESUMED: (AnswerResume,),
    EventType.DROPPED: (CallDrop,),
    EventType.THREAD_CREATED: (ThreadChange,),
    EventType.THREAD_CLOSED: (ThreadChange,),
    EventType.PARTICIPANT_ADDED: (ParticipantChange,),
    EventType.PARTICIPANT_REMOVED: (ParticipantChange,),
    EventType.MESSAGE: (ThreadMessage,),
    EventType.UPSTREAM_ERROR: (UpstreamError,),
    EventType.DIRECT_MESSAGE: (DirectMessage,),
    EventType.DELIVERY: (DeliveryUpdate,),
    EventType.WAKE: (WakeVerdict,),
    EventType.PULSE: (PulseChange,),
    EventType.ROUTINE: (RoutineOutcome, RoutineUpdate),
    EventType.ALARM: (AlarmChange,),
    EventType.NAMED_EVENT: (NamedEventRecord,),
    EventType.COORDINATION: (CoordinationUpdate,),
    EventType.APPROVAL: (ApprovalChange,),
    EventType.HOOK: (HookChange,),
    EventType.HOOK_DELIVERY: (HookDeliveryData,),
    EventType.ALERT: (
        BudgetAlert,
        DeadLetterAlert,
        RoutineAlert,
        SleepTimeAlert,
        SleepTimeOverAlert,
        EmbeddingAlert,
        EmbeddingOverAlert,
    ),
    EventType.BANK_CREATED: (BankLifecycle,),
    EventType.BANK_CHANGED: (BankUpdate,),
    EventType.BANK_DELETED: (BankLifecycle,),
    EventType.BLOCK: (BlockWrite,),
    EventType.FORGOTTEN: (EpisodeDeletion,),
    EventType.RESTORED: (EpisodeRestoration,),
    EventType.CORRECTED: (EpisodeCorrection,),
    EventType.DEMOTED: (EpisodeDemotion,),
    EventType.PROMOTED: (NotePromotion,),
    EventType.PASS: (PassChange,),
    EventType.DREAM: (DreamChange,),
    EventType.REVIEWED: (PassReviewChange, DreamReviewChange),
    EventType.PASSES_PAUSED: (PassSwitch,),
    EventType.PASSES_RESUMED: (PassSwitch,),
    EventType.OPERATION_PAUSED: (OperationSuspension,),
    EventType.ANSWERS_FELL_BACK: (AnswerTrust,),
    EventType.ANSWERS_TRUSTED: (AnswerTrust,),
    EventType.ANSWERS_DROPPED: (AnswerDrop,),
    EventType.ALERT_RAISED: (AlertChange,),
    EventType.ALERT_ACKNOWLEDGED: (AlertChange,),
}
