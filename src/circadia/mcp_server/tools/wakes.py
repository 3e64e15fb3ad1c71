"""Tools that write to an agent's inbox, and that wake it (WAKE-01 … WAKE-06)."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from circadia.ids import MessageId
from circadia.mcp_server.arguments import Arguments, ToolResult
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tools.threads import AgentName
from circadia.mcp_server.tools.tool import Tool
from circadia.records.message import MessageType, Priority
from circadia.records.wake import Decision, WakeReason
from circadia.wake.admission.budgets import Budget, describe_decision, fetch_budgets, retry_at
from circadia.wake.inbox import MAX_KEY_CHARACTERS, OutgoingMessage

Key = Annotated[
    str | None,
    Field(
        max_length=MAX_KEY_CHARACTERS,
        description="Your own key: a call that you repeat with it does nothing twice. Take a new one for other words.",
    ),
]


def _one_of(kind: type[Priority] | type[MessageType] | type[WakeReason]) -> BeforeValidator:
    """Return what reads a word as its member; strict models take no words for members."""

    def read_member(given: object) -> object:
        if isinstance(given, kind):
            return given
        words = [each.value for each in kind]
        if not isinstance(given, str) or given not in words:
            raise ValueError(f"it is one of {', '.join(map(repr, words))}")
        return kind(given)

    return BeforeValidator(read_member)


Urgency = Annotated[Priority, _one_of(Priority)]
Purpose = Annotated[MessageType, _one_of(MessageType)]
Reason = Annotated[WakeReason, _one_of(WakeReason)]


class MessageAgent(Arguments):
    """What `message_agent` takes."""

    to: AgentName
    message: str = Field(description="The text. Say all that its reader needs.")
    priority: Urgency = Field(
        default=Priority.NORMAL,
        description="How soon it wants to be read; `high` and `urgent` ask for a wake, with the limits of wake_agent.",
    )
    type: Purpose = Field(default=MessageType.INFO, description="What it is for.")
    key: Key = None


class WakeAgent(Arguments):
    """What `wake_agent` takes."""

    to: AgentName
    message: str = Field(description="What is so urgent, and what it is to do. It is in the inbox whatever is decided.")
    reason: Reason = Field(
        description="`blocker`: you cannot go on without it. `critical_finding`: it must know now. `user_request`: a "
        "person asked for it."
    )
    key: Key = None


class RemainingBudget(ToolResult):
    """A budget."""

    limit: float | None = Field(description="The limit; null is none.")
    left: float | None = Field(description="What is left of it; null is no limit.")


class SendResult(ToolResult):
    """What became of the message, and of the wake."""

    told: str = Field(description="What happened, in words.")
    to: str = Field(description="The agent.")
    message: str = Field(description="Id of the message, which is in its inbox.")
    wake: str | None = Field(description="Id of the wake request; null if none was made.")
    decision: Decision | None = Field(description="What is decided of it; null if none was made.")
    rule: str | None = Field(description="The limit that was against it, if one was.")
    retry_at: datetime | None = Field(
        description="From when on it may pass, if that is known. A deferred wake happens without another call."
    )
    pulse: str | None = Field(description="Id of the run that it started or joined.")
    session_budget: RemainingBudget | None = Field(description="Wakes that you may ask for in this run.")
    day_budget: RemainingBudget = Field(description="Wakes of that agent today.")
    pair_budget: RemainingBudget | None = Field(description="Wakes of that agent by you today.")


async def send(caller: Caller, letter: OutgoingMessage, *, acknowledge: MessageId | None = None) -> SendResult:
    """Send as the caller, with what it answers handled in the same transaction; tell what became of it."""
    async with caller.parts.store.begin_write() as tx:
        home = await caller.home(tx)
        sent = await caller.parts.wake.inbox.send(tx, caller.principal, home, letter)
        own = caller.principal.agent
        if own is not None and acknowledge is not None:
            await caller.parts.wake.inbox.ack(tx, own, [acknowledge])
        budgets = await fetch_budgets(tx, sent.to, caller.parts.clock.now(), sender=own, place=sent.place)
    wake = sent.wake
    return SendResult(
        told=describe_decision(wake, sent.to),
        to=name_from(home, sent.to.reference),
        message=sent.message.id,
        wake=None if wake is None else wake.id,
        decision=None if wake is None else wake.decision,
        rule=None if wake is None else wake.rule,
        retry_at=None if wake is None else retry_at(wake, sent.to),
        pulse=None if wake is None else wake.pulse_id,
        session_budget=_remaining_budget(budgets.session),
        day_budget=RemainingBudget(limit=budgets.day.limit, left=budgets.day.remaining),
        pair_budget=_remaining_budget(budgets.pair),
    )


def _remaining_budget(budget: Budget | None) -> RemainingBudget | None:
    return None if budget is None else RemainingBudget(limit=budget.limit, left=budget.remaining)


async def _message(caller: Caller, given: MessageAgent) -> ToolResult:
    letter = OutgoingMessage(
        to=given.to, content=given.message, type=given.type, priority=given.priority, key=given.key
    )
    return await send(caller, letter)


async def _wake(caller: Caller, given: WakeAgent) -> ToolResult:
    return await send(caller, OutgoingMessage(to=given.to, content=given.message, wake=given.reason, key=given.key))


WAKE_TOOLS: Final = (
    Tool(
        name="message_agent",
        description=(
            "Put a message into an agent's inbox; it reads it at its next run. Use this for all that can wait: it is "
            "free, has no limit, and disturbs nobody. Only with priority `high` or `urgent` it also asks for a wake."
        ),
        arguments=MessageAgent,
        answer=SendResult,
        run=_message,
    ),
    Tool(
        name="wake_agent",
        description=(
            "Wake an agent now, for what cannot wait: a blocker, a critical finding, a person's request. Prefer "
            "message_agent for everything else: a wake starts a run that costs money, and wakes are few a day. The "
            "message is in its inbox whatever is decided, so do not send it again: a deferred wake happens by itself, "
            "and a refused one is read at the agent's next run."
        ),
        arguments=WakeAgent,
        answer=SendResult,
        run=_wake,
    ),
)
