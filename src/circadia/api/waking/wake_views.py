"""Wake requests as they are shown, and what a sender is told of one (WAKE-05)."""

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

    id: str = Field(description="Key.", examples=["wak_0cwd…"])
    at: datetime = Field(description="When it was asked.")
    agent: str = Field(description="Reference of the agent to wake.", examples=["writer"])
    source: WakeSource = Field(description="What asked: `agent`, `thread`, `schedule` or `person`.")
    sender: str = Field(serialization_alias="from", description="Who asked.", examples=["lead", "schedule nightly"])
    sender_pulse: str | None = Field(description="Key of the pulse in which its sender asked.")
    reason: str = Field(description="What for.", examples=["blocker"])
    priority: Priority = Field(description="Its place among deferred requests.")
    message: str | None = Field(description="Key of the message behind it.")
    routine: str | None = Field(description="The routine that is due.")
    decision: Decision = Field(description="What became of it.")
    rule: str | None = Field(description="The guardrail that decided, if one was against it.")
    detail: str = Field(description="Why, in words.")
    not_before: datetime | None = Field(
        description="Deferred: when it is looked at again at the latest; refused: when what was in the way ends."
    )
    expires_at: datetime | None = Field(description="Deferred: when it expires.")
    decided_at: datetime = Field(description="When the present decision was made.")
    charge: Charge = Field(description="Where it stands with the budgets.")
    pulse: str | None = Field(description="Key of the pulse that it started or joined.")
    root: str = Field(description="First wake or message of its chain.")
    parent: str | None = Field(description="The wake behind the pulse in which it was asked.")
    depth: int = Field(description="Wakes from the root to this one.")
    overridden_by: str | None = Field(description="Who let it pass the guardrails, and why.")


class GuardrailCheckView(BaseModel):
    """What one guardrail said."""

    rule: str = Field(description="The guardrail.", examples=["max_wakes_per_day"])
    passed: bool = Field(description="Whether it has nothing against the wake.")
    limit: float | None = Field(description="The setting that it compared with; null is no limit, or no number.")
    value: float | None = Field(description="What it counted, before this request.")
    detail: str = Field(description="What is in the way, in words.")


class WakeDetail(WakeView):
    """A wake request with what each guardrail said."""

    trace: list[GuardrailCheckView] = Field(description="In the order in which they are asked.")


class BudgetView(BaseModel):
    """A limit and what is left of it."""

    limit: float | None = Field(description="The setting; null is no limit.")
    used: float = Field(description="What counts against it.")
    left: float | None = Field(description="What is left; null is no limit.")


class BudgetsView(BaseModel):
    """What is left of the budgets after the decision."""

    session: BudgetView | None = Field(
        description="Wakes that the sender may ask for in its present pulse or time awake; null for a person."
    )
    day: BudgetView = Field(description="Wakes of the target in its day.")
    pair: BudgetView | None = Field(description="Of these, those of the pair; null for a person.")


class SendOutcome(BaseModel):
    """What became of a message, and of the wake that was asked with it."""

    to: str = Field(description="Reference of the agent.", examples=["writer"])
    message: str | None = Field(description="Key of the message in its inbox.", examples=["msg_0cwd…"])
    wake: str | None = Field(description="Key of the wake request; null if none was made.", examples=["wak_0cwd…"])
    decision: Decision | None = Field(description="What is decided; null if no wake was asked for.")
    rule: str | None = Field(description="The guardrail that decided, if one was against it.")
    detail: str = Field(description="Why.")
    retry_at: datetime | None = Field(
        description="From when on it may pass, if that is known; a deferred one is tried by itself."
    )
    pulse: str | None = Field(description="Key of the pulse that it started or joined.")
    root: str | None = Field(description="First wake or message of the chain.")
    budgets: BudgetsView = Field(description="What is left.")
    told: str = Field(description="All that in words, for a model or a person.")


class WakeOutcome(SendOutcome):
    """What became of a wake request, with what each guardrail said."""

    trace: list[GuardrailCheckView] = Field(
        description="In the order in which they are asked, up to the one that decided; of a dry run, all."
    )
    dry_run: bool = Field(description="Whether nothing was written.")


def wake_view(wake: Wake) -> WakeView:
    """Return the request as it is shown."""
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
    """Return the request with its trace."""
    return WakeDetail(**dict(wake_view(wake)), trace=_trace(wake))


def message_outcome(target: Agent, message: Message | None, wake: Wake | None, budgets: Budgets) -> SendOutcome:
    """Return what the sender is told."""
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
        told=describe_decision(wake, target),
    )


def wake_outcome(target: Agent, message: Message | None, wake: Wake, budgets: Budgets) -> WakeOutcome:
    """Return what the sender of a wake is told."""
    told = message_outcome(target, message, wake, budgets)
    return WakeOutcome(**dict(told), trace=_trace(wake), dry_run=False)


def dry_run_outcome(target: Agent, wake: Wake, budgets: Budgets) -> WakeOutcome:
    """Return what would be decided; there is no request and no chain."""
    told = message_outcome(target, None, wake, budgets).model_copy(
        update={"wake": None, "root": None, "told": f"Dry run: {describe_decision(wake, target)} Nothing was written."}
    )
    return WakeOutcome(**dict(told), trace=_trace(wake), dry_run=True)


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
