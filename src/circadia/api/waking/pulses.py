"""Pulses: the bounded runs of agents; list, start by hand, stop, and hear of an end elsewhere."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field, StrictFloat, StrictInt

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.references import Instant, named_agent, own_agent, require_enabled
from circadia.api.waking.wake_views import WakeOutcome, wake_outcome
from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import PulseId
from circadia.records.principal import Principal
from circadia.records.pulse import PULSE_MOVES, Pulse, PulseKind, PulseStatus
from circadia.records.schedule import MAX_TIMEOUT_SECONDS
from circadia.records.wake import WakeSource
from circadia.settings.launchers import WebhookLauncherSettings
from circadia.stores.base import Tx
from circadia.wake.admission.budgets import fetch_budgets
from circadia.wake.admission.chains import NOWHERE
from circadia.wake.admission.requests import NewWake
from circadia.wake.launchers.base import LaunchResult
from circadia.wake.launchers.output import redact_tokens
from circadia.wake.pulse_lifecycle import total_run_seconds

router = noun_router("pulses")


class StartBody(Body):
    """A pulse to start by hand."""

    reason: str = Field(
        "manual", min_length=1, max_length=200, description="What for, as its prompt and its row say.", examples=["try"]
    )
    timeout_seconds: StrictFloat | StrictInt | None = Field(
        None, gt=0, le=MAX_TIMEOUT_SECONDS, description="Longest run; the agent's own limit if left out."
    )
    override: str | None = Field(
        None, min_length=1, max_length=500, description="Why it passes the guardrails; it is recorded."
    )


class EndBody(Body):
    """How a run elsewhere ended."""

    bears_nul = True
    status: Literal["succeeded", "failed"] = Field(description="How it ended.")
    detail: str = Field("", max_length=4000, description="What people read about it; no secret.")
    epoch: StrictInt | None = Field(
        None, ge=0, description="The `epoch` that its start came with; a report of an earlier one is refused."
    )


class PulseView(BaseModel):
    """One bounded run of an agent."""

    id: str = Field(description="Key.", examples=["pls_0cwd…"])
    agent: str = Field(description="Reference of the agent.", examples=["writer"])
    kind: PulseKind = Field(description="What started it: `wake`, `schedule`, `manual` or `gate`.")
    status: PulseStatus = Field(description="Where it stands.")
    launcher: str = Field(description="How it runs.", examples=["resident"])
    wake: str | None = Field(description="Key of the request that it was admitted for.")
    by: str = Field(description="Who woke it.", examples=["lead"])
    reason: str = Field(description="What for.", examples=["blocker"])
    routine: str | None = Field(description="The routine that it runs.")
    attempt: int = Field(description="Starts so far, without those that a stop of the server interrupted.")
    epoch: int = Field(description="Fencing number: one more with each start and takeover.")
    created_at: datetime = Field(description="When it was admitted.")
    not_before: datetime | None = Field(description="When it may be started, if it waits for another attempt.")
    started_at: datetime | None = Field(description="When its agent began to run, for the present or last attempt.")
    ended_at: datetime | None = Field(description="When it ended.")
    run_seconds: float = Field(description="Time that its agent has run, in all attempts.")
    timeout_seconds: float | None = Field(description="How long an attempt may run; null is no limit.")
    detail: str = Field(description="How it ended, in words.")
    root: str = Field(description="First wake or message of its chain.")
    depth: int = Field(description="Wakes from the root.")


class PulseList(BaseModel):
    """Pulses of an agent."""

    pulses: list[PulseView] = Field(description="The newest first.")
    before: str | None = Field(description="What to send as `before` for the next page; null at the end.")


@router.get("/agents/{a}/pulses")
async def list_pulses(
    a: str,
    who: Who,
    parts: Parts,
    status: Annotated[PulseStatus | None, Query(description="Of this status only.")] = None,
    since: Annotated[Instant, Query(description="Admitted at or after this date or time.")] = None,
    before: Annotated[str | None, Query(description="Key of the last pulse of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
) -> PulseList:
    """List an agent's pulses. The operator, and the agent itself."""
    async with parts.store.begin_read() as tx:
        agent = await own_agent(tx, who, a)
        last = None if before is None else PulseId(before)
        if last is not None and await tx.pulses.get(last) is None:
            raise InvalidRequest(f"no pulse {before!r}; `before` is that of the page before")
        found = await tx.pulses.find_all(agent_id=agent.id, status=status, since=since, before=last, limit=limit)
    return PulseList(
        pulses=[pulse_view(each, parts.clock.now()) for each in found],
        before=found[-1].id if len(found) == limit else None,
    )


@router.post("/agents/{a}/pulses", status_code=201)
async def start_pulse(a: str, who: Who, parts: Parts, body: StartBody | None = None) -> WakeOutcome:
    """Start a pulse by hand: a wake request of a person, which passes the guardrails like others. The operator only."""
    require_operator(who)
    asked = body or StartBody.model_validate({})
    async with parts.store.begin_write() as tx:
        target = await named_agent(tx, who, a)
        require_enabled(target)
        ask = NewWake(
            target=target,
            source=WakeSource.PERSON,
            by=who.name,
            reason=asked.reason,
            timeout_seconds=None if asked.timeout_seconds is None else float(asked.timeout_seconds),
            overridden_by=None if asked.override is None else f"{who.name}: {asked.override}",
        )
        wake = await parts.wake.requests.ask(tx, ask)
        budgets = await fetch_budgets(tx, target, parts.clock.now(), sender=None, place=NOWHERE)
    return wake_outcome(target, None, wake, budgets)


@router.get("/pulses/{p}")
async def show_pulse(p: str, who: Who, parts: Parts) -> PulseView:
    """Show a pulse. The operator, and its agent."""
    async with parts.store.begin_read() as tx:
        return pulse_view(await _pulse(tx, who, p), parts.clock.now())


@router.post("/pulses/{p}/cancel")
async def cancel_pulse(p: str, who: Who, parts: Parts) -> PulseView:
    """Stop a pulse; what was in its prompt is unread again. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        pulse = await parts.wake.pulses.cancel(tx, await _pulse(tx, who, p), by=who.name)
    return pulse_view(pulse, parts.clock.now())


@router.post("/pulses/{p}/end", status_code=202)
async def end_pulse(p: str, body: EndBody, who: Who, parts: Parts) -> PulseView:
    """Report the end of a run that a webhook started and that was answered with 202; it is durable once that is told.

    The operator, and whoever has the token that the run was started with.
    """
    ended = LaunchResult(succeeded=body.status == "succeeded", detail=redact_tokens(body.detail))
    async with parts.store.begin_write() as tx:
        pulse = await _pulse(tx, who, p)
        _require_reportable(parts, who, pulse, body.epoch)
        told = await parts.wake.pulses.report(tx, pulse, ended)
        tx.after_commit(lambda: parts.wake.reports.deliver_report(pulse.id, pulse.epoch, ended))
    return pulse_view(told, parts.clock.now())


def _require_reportable(parts: ApiParts, who: Principal, pulse: Pulse, epoch: int | None) -> None:
    """Refuse a report that is not of the pulse's present run, or not by who was started for it."""
    if not who.is_operator and who.pulse_id != pulse.id:
        raise Forbidden(f"the end of pulse {pulse.id!r} is reported with the token that it was started with")
    if not PULSE_MOVES[pulse.status]:
        raise Conflict(f"pulse {pulse.id!r} is {pulse.status.value} already")
    if not isinstance(parts.settings.launchers.get(pulse.launcher), WebhookLauncherSettings):
        raise Conflict(f"pulse {pulse.id!r} ends with its program; only runs that a webhook started are reported")
    if pulse.owner is None or epoch not in (None, pulse.epoch):
        raise Conflict(f"this run of pulse {pulse.id!r} is not the present one, which has epoch {pulse.epoch}")


def pulse_view(pulse: Pulse, now: datetime) -> PulseView:
    """Return the pulse as it is shown."""
    return PulseView(
        id=pulse.id,
        agent=pulse.agent,
        kind=pulse.kind,
        status=pulse.status,
        launcher=pulse.launcher,
        wake=pulse.wake_id,
        by=pulse.by,
        reason=pulse.reason,
        routine=pulse.routine,
        attempt=pulse.attempt,
        epoch=pulse.epoch,
        created_at=pulse.created_at,
        not_before=pulse.not_before,
        started_at=pulse.started_at,
        ended_at=pulse.ended_at,
        run_seconds=round(total_run_seconds(pulse, now), 3),
        timeout_seconds=pulse.timeout_seconds,
        detail=pulse.detail,
        root=pulse.root_id,
        depth=pulse.depth,
    )


async def _pulse(tx: Tx, who: Principal, pulse_id: str) -> Pulse:
    """Return the pulse, if the principal may know of it.

    Raises:
        NotFound: there is none. Forbidden: it is another agent's.
    """
    pulse = await tx.pulses.get(PulseId(pulse_id))
    if pulse is None:
        raise NotFound(f"no pulse {pulse_id!r}")
    if not who.is_operator and (who.agent is None or who.agent.id != pulse.agent_id):
        raise Forbidden(f"pulse {pulse_id!r} is that of {pulse.agent!r}; use its token, or the operator's")
    return pulse
