"""REST views of wake requests and of their outcome for the sender (WAKE-05)."""

from circadia.errors import Forbidden
from circadia.records.agent import Agent
from circadia.records.message import Message
from circadia.records.principal import OPERATOR, Principal
from circadia.records.wake import Wake
from circadia.schemas.wakes import BudgetsView, SendOutcome, WakeOutcome
from circadia.wake.admission.budgets import Budgets, describe_decision, retry_at


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
        budgets=BudgetsView.of(budgets),
        summary=describe_decision(wake, target),
    )


def wake_outcome(target: Agent, message: Message | None, wake: Wake, budgets: Budgets) -> WakeOutcome:
    outcome = message_outcome(target, message, wake, budgets)
    return WakeOutcome.of(outcome, trace=wake.trace, dry_run=False)


def dry_run_outcome(target: Agent, wake: Wake, budgets: Budgets) -> WakeOutcome:
    """Return the expected decision, without request or chain."""
    outcome = message_outcome(target, None, wake, budgets).model_copy(
        update={
            "wake": None,
            "root": None,
            "summary": f"Dry run: {describe_decision(wake, target)} Nothing was written.",
        }
    )
    return WakeOutcome.of(outcome, trace=wake.trace, dry_run=True)


def require_speaker(principal: Principal, sender: str | None) -> None:
    """Raise Forbidden if `from` names anybody but the token's owner (WAKE-04)."""
    own = {OPERATOR if principal.agent is None else principal.agent.name, principal.name}
    if sender is not None and sender not in own:
        raise Forbidden(f"the token is that of {principal.name!r}, not of {sender!r}; leave `from` out")
