"""Tools that write to an agent's inbox and wake it (WAKE-01 … WAKE-06)."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from circadia.ids import MessageId
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tool import Arguments, ToolResult, tool
from circadia.mcp_server.tools.threads import AgentName
from circadia.records.message import MessageType, Priority
from circadia.records.wake import Decision, WakeReason
from circadia.wake.admission.budgets import Budget, describe_decision, fetch_budgets, retry_at
from circadia.wake.inbox import MAX_KEY_CHARACTERS, OutgoingMessage

Key = Annotated[str | None, Field(max_length=MAX_KEY_CHARACTERS, description="Idempotency key: a repeat does nothing.")]


def _one_of(kind: type[Priority] | type[MessageType] | type[WakeReason]) -> BeforeValidator:
    """Return a validator that converts a string to a member, which strict models do not."""

    def read_member(value: object) -> object:
        if isinstance(value, kind):
            return value
        words = [member.value for member in kind]
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"it is one of {', '.join(map(repr, words))}")
        return kind(value)

    return BeforeValidator(read_member)


Urgency = Annotated[Priority, _one_of(Priority)]
Purpose = Annotated[MessageType, _one_of(MessageType)]
Reason = Annotated[WakeReason, _one_of(WakeReason)]


class MessageAgent(Arguments):
    to: AgentName
    message: str = Field(description="Text. Say all that its reader needs.")
    priority: Urgency = Field(
        default=Priority.NORMAL,
        description="Priority; `high` and `urgent` request a wake, with the limits of wake_agent.",
    )
    type: Purpose = Field(default=MessageType.INFO, description="Purpose.")
    key: Key = None


class WakeAgent(Arguments):
    to: AgentName
    message: str = Field(description="What is urgent, and what to do.")
    reason: Reason = Field(
        description="`blocker`: you cannot continue without it. `critical_finding`: it must know now. `user_request`: "
        "a person asked for it."
    )
    key: Key = None


class RemainingBudget(ToolResult):
    limit: float | None = Field(description="Limit; null means none.")
    left: float | None = Field(description="Amount left; null means no limit.")


class SendResult(ToolResult):
    summary: str = Field(description="Summary in words.")
    to: str = Field(description="Agent.")
    message: str = Field(description="Id of the message in the inbox.")
    wake: str | None = Field(description="Id of the wake request; null if there is none.")
    decision: Decision | None = Field(description="Decision; null if no wake was requested.")
    rule: str | None = Field(description="Limit that blocked it, if any.")
    retry_at: datetime | None = Field(
        description="When the wake may pass, if known. A deferred wake happens without another call."
    )
    pulse: str | None = Field(description="Id of the run that it started or joined.")
    session_budget: RemainingBudget | None = Field(description="Wakes that you may request in this run.")
    day_budget: RemainingBudget = Field(description="Wakes of that agent today.")
    pair_budget: RemainingBudget | None = Field(description="Wakes of that agent by you today.")


async def send(caller: Caller, message: OutgoingMessage, *, acknowledge: MessageId | None = None) -> SendResult:
    """Send a message as the caller; acknowledge the answered one in the same transaction."""
    async with caller.context.store.begin_write() as tx:
        session = await caller.find_session(tx)
        sent = await caller.context.wake.inbox.send(tx, caller.principal, session, message)
        own = caller.principal.agent
        if own is not None and acknowledge is not None:
            await caller.context.wake.inbox.ack(tx, own, [acknowledge])
        budgets = await fetch_budgets(
            tx, sent.to, caller.context.clock.now(), sender=own, place=sent.place, counts=sent.counts
        )  # fmt: skip
    wake = sent.wake
    return SendResult(
        summary=describe_decision(wake, sent.to),
        to=name_from(session, sent.to.reference),
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


@tool(
    "message_agent",
    "Put a message into an agent's inbox; the agent reads it at its next run. Use this for all that can wait: "
    "it is free, has no limit, and disturbs nobody. Only priority `high` or `urgent` also requests a wake.",
)
async def _message(caller: Caller, arguments: MessageAgent) -> SendResult:
    message = OutgoingMessage(
        to=arguments.to, content=arguments.message, type=arguments.type, priority=arguments.priority, key=arguments.key
    )
    return await send(caller, message)


@tool(
    "wake_agent",
    "Wake an agent now, for what cannot wait. Prefer message_agent for everything else: a wake starts a run that costs "
    "money, and there are few per day. The message stays in the inbox whatever the decision, so do not send it again: "
    "a deferred wake happens by itself, and the message of a refused one is read at the agent's next run.",
)
async def _wake(caller: Caller, arguments: WakeAgent) -> SendResult:
    return await send(
        caller, OutgoingMessage(to=arguments.to, content=arguments.message, wake=arguments.reason, key=arguments.key)
    )


WAKE_TOOLS: Final = (_message, _wake)
