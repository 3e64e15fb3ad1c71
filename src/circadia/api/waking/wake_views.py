"""REST views of wake requests and of their outcome for the sender (WAKE-05)."""

from datetime import datetime

from pydantic import BaseModel, Field

from circadia.errors import Forbidden
from circadia.records.agent import Agent
from circadia.records.message import Message, Priority
from circadia.records.principal import Principal
from circadia.records.wake import Charge, Decision, Wake, WakeSource
from circadia.wake.admission.budgets import Budget, Budgets, describe_decision, retry_at


class WakeView(BaseModel):
    """A wake request and its decision."""

    id: str = Field(description="Unique id.", examples=["wak_0cwd…"])
    at: datetime = Field(description="Time of the request.")
    agent: str = Field(description="Reference of the agent to wake.", examples=["writer"])
    source: WakeSource = Field(description="Source of the request: `agent`, `thread`, `schedule` or `person`.")
    sender: str = Field(serialization_alias="from", description="Requester.", examples=["lead", "schedule nightly"])
    sender_pulse: str | None = Field(description="Id of the pulse in which the sender made the request.")
    reason: str = Field(description="Reason.", examples=["blocker"])
    priority: Priority = Field(description="Priority among deferred requests.")
    message: str | None = Field(description="Id of the message that caused it.")
    routine: str | None = Field(description="Due routine.")
    decision: Decision = Field(description="Decision.")
    rule: str | None = Field(description="Guardrail that blocked it, if any.")
    detail: str = Field(description="Explanation.")
    not_before: datetime | None = Field(description="Latest next check if deferred; end of the obstacle if refused.")
    expires_at: datetime | None = Field(description="When a deferred request expires.")
    decided_at: datetime = Field(description="Time of the current decision.")
    charge: Charge = Field(description="Charge against the budgets.")
    pulse: str | None = Field(description="Id of the pulse that it started or joined.")
    root: str = Field(description="First wake or message of the chain.")
    parent: str | None = Field(description="Wake that started the pulse of the request.")
    depth: int = Field(description="Number of wakes from the root to this one.")
    overridden_by: str | None = Field(description="Who bypassed the guardrails, and why.")


class GuardrailCheckView(BaseModel):
    """The result of one guardrail."""

    rule: str = Field(description="Guardrail.", examples=["max_wakes_per_day"])
    passed: bool = Field(description="Whether the guardrail allows the wake.")
    limit: float | None = Field(description="Limit; null if there is none or it is no number.")
    value: float | None = Field(description="Counted value before this request.")
    detail: str = Field(description="What blocks the wake.")


class WakeDetail(WakeView):
    """A wake request with its guardrail checks."""

    trace: list[GuardrailCheckView] = Field(description="Guardrail checks in order.")


class BudgetView(BaseModel):
    """A limit and its remainder."""

    limit: float | None = Field(description="Limit; null means none.")
    used: float = Field(description="Amount used.")
    left: float | None = Field(description="Amount left; null means no limit.")


class BudgetsView(BaseModel):
    """Budgets after the decision."""

    session: BudgetView | None = Field(
        description="Wakes that the sender may request in its current pulse or wake period; null for a person."
    )
    day: BudgetView = Field(description="Wakes of the target today.")
    pair: BudgetView | None = Field(description="Wakes of the target by this sender today; null for a person.")


class SendOutcome(BaseModel):
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


def wake_view(wake: Wake) -> WakeView:
    return WakeView(
        id=wake.id,
        at=wake.at,
        agent=wake.agent,
        source=wake.source,
        sender=wake.sender,
        sender_pulse=wake.sender_pulse,
        reason=wake.reason,
        priority=wake.priority,
        message=wake.message_id,
        routine=wake.routine,
        decision=wake.decision,
        rule=wake.rule,
        detail=wake.detail,
        not_before=wake.not_before,
        expires_at=wake.expires_at,
        decided_at=wake.decided_at,
        charge=wake.charge,
        pulse=wake.pulse_id,
        root=wake.root_id,
        parent=wake.parent_id,
        depth=wake.depth,
        overridden_by=wake.overridden_by,
    )


def wake_detail(wake: Wake) -> WakeDetail:
    return WakeDetail(**dict(wake_view(wake)), trace=_trace(wake))


def message_outcome(target: Agent, message: Message | None, wake: Wake | None, budgets: Budgets) -> SendOutcome:
    return SendOutcome(
        to=target.reference,
        message=None if message is None else message.id,
        wake=None if wake is None else wake.id,
        decision=None if wake is None else wake.decision,
        rule=None if wake is None else wake.rule,
        detail="" if wake is None else wake.detail,
        retry_at=None if wake is None else retry_at(wake, target),
        pulse=None if wake is None else wake.pulse_id,
        root=message.root_id if message is not None else wake.root_id if wake is not None else None,
        budgets=_budgets(budgets),
        summary=describe_decision(wake, target),
    )


def wake_outcome(target: Agent, message: Message | None, wake: Wake, budgets: Budgets) -> WakeOutcome:
    outcome = message_outcome(target, message, wake, budgets)
    return WakeOutcome(**dict(outcome), trace=_trace(wake), dry_run=False)


def dry_run_outcome(target: Agent, wake: Wake, budgets: Budgets) -> WakeOutcome:
    """Return the expected decision, without request or chain."""
    outcome = message_outcome(target, None, wake, budgets).model_copy(
        update={
            "wake": None,
            "root": None,
            "summary": f"Dry run: {describe_decision(wake, target)} Nothing was written.",
        }
    )
    return WakeOutcome(**dict(outcome), trace=_trace(wake), dry_run=True)


def require_speaker(principal: Principal, sender: str | None) -> None:
    """Raise Forbidden if `from` names anybody but the token's owner (WAKE-04)."""
    own = {"operator"} if principal.agent is None else {principal.agent.name, principal.agent.reference}
    if sender is not None and sender not in own:
        raise Forbidden(f"the token is that of {principal.name!r}, not of {sender!r}; leave `from` out")


def _trace(wake: Wake) -> list[GuardrailCheckView]:
    return [
        GuardrailCheckView(rule=each.rule, passed=each.passed, limit=each.limit, value=each.value, detail=each.detail)
        for each in wake.trace
    ]


def _budget(budget: Budget | None) -> BudgetView | None:
    return None if budget is None else BudgetView(limit=budget.limit, used=budget.used, left=budget.remaining)


def _budgets(budgets: Budgets) -> BudgetsView:
    day = BudgetView(limit=budgets.day.limit, used=budgets.day.used, left=budgets.day.remaining)
    return BudgetsView(session=_budget(budgets.session), day=day, pair=_budget(budgets.pair))
