"""Ledgers of wake requests for tests: a small course of events in which each request is judged by the guardrails."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from circadia.ids import AgentId, PulseId, SessionId, WakeId
from circadia.records.agent import Agent
from circadia.records.coordination import Coordination, build_coordination
from circadia.records.wake import Charge, Decision, GuardrailCounts, Wake, WakeSource
from circadia.wake.admission.guardrails import AdmissionFacts, check_guardrails
from circadia.wake.scheduling.wall_clock import day_bounds

START = datetime(2026, 3, 28, 20, tzinfo=UTC)
"""In Berlin, an evening before a day of 23 hours."""
NAMES = ("ann", "bob", "eve")


@dataclass(frozen=True, kw_only=True)
class WakeStep:
    """One ask: so many minutes after the one before, by an agent, or by nobody of the agents."""

    minutes: int
    target: int
    sender: int | None
    session: int = 0
    depth: int = 1
    root: int = 0
    source: WakeSource = WakeSource.AGENT


def agent(number: int, settings: dict[str, object]) -> Agent:
    """Return a launched agent with these settings, by flat name."""
    name = NAMES[number]
    return Agent(
        id=AgentId(name),
        session_id=SessionId("ses_default"),
        session="default",
        name=name,
        token_hash=name,
        since=START,
        created_at=START,
        coordination=build_coordination({"launcher": "program", **settings}),
    )


def coordinations(settings: dict[str, object]) -> dict[AgentId, Coordination]:
    """Return what each agent has then."""
    return {AgentId(name): agent(number, settings).coordination for number, name in enumerate(NAMES)}


def decided(asks: Sequence[WakeStep], settings: dict[str, object]) -> list[Wake]:
    """Return the requests as the guardrails decide them one after the other; each pulse ends at once."""
    ledger: list[Wake] = []
    now = START
    for number, ask in enumerate(asks):
        now += timedelta(minutes=ask.minutes)
        ledger.append(_decided(number, ask, agent(ask.target, settings), ledger, now))
    return ledger


def _decided(number: int, ask: WakeStep, target: Agent, ledger: Sequence[Wake], now: datetime) -> Wake:
    sends = ask.sender is not None and ask.source is not WakeSource.SCHEDULE
    sender = AgentId(NAMES[ask.sender]) if sends and ask.sender is not None else None
    wake = Wake(
        id=WakeId(f"wak_{number}"),
        at=now,
        agent_id=target.id,
        agent=target.reference,
        source=ask.source if sender or ask.source is not WakeSource.AGENT else WakeSource.PERSON,
        sender_id=sender,
        sender=sender or "operator",
        sender_pulse=PulseId(f"pls_of_{sender}_{ask.session}") if sender else None,
        reason="blocker",
        decision=Decision.DEFERRED,
        decided_at=now,
        root_id=f"root_{ask.root}",
        depth=ask.depth,
    )
    start, _ = day_bounds(target.coordination.zone, now)
    facts = AdmissionFacts(
        target=target,
        source=wake.source,
        now=now,
        tally=_tally(wake, ledger, start),
        depth=ask.depth,
        asker=target.coordination.wake_guardrails if sender else None,
    )
    verdict = check_guardrails(facts)
    wake = replace(wake, decision=verdict.decision, rule=verdict.rule, trace=verdict.trace)
    if verdict.decision is not Decision.ADMITTED:
        return wake
    charge = Charge.NONE if wake.source is WakeSource.SCHEDULE else Charge.CHARGED
    return replace(wake, charge=charge, pulse_id=PulseId(f"pls_{number}"))


def _tally(wake: Wake, ledger: Sequence[Wake], day: datetime) -> GuardrailCounts:
    counted = [each for each in ledger if each.charge is Charge.CHARGED]
    here = [each for each in counted if each.agent_id == wake.agent_id]
    today = [each for each in here if each.decided_at >= day]
    back = [
        each
        for each in counted
        if wake.sender_id is not None and each.agent_id == wake.sender_id and each.decided_at >= day
    ]
    asked = [
        each
        for each in ledger
        if wake.sender_id is not None
        and each.sender_id == wake.sender_id
        and each.sender_pulse == wake.sender_pulse
        and each.decision in (Decision.ADMITTED, Decision.DEFERRED)
    ]
    return GuardrailCounts(
        wakes_today=len(today),
        by_sender_today=len([each for each in today if wake.sender_id and each.sender_id == wake.sender_id]),
        of_sender_today=len([each for each in back if each.sender_id == wake.agent_id]),
        last_wake_at=here[-1].decided_at if here else None,
        asked_in_session=len(asked),
        visits=len([each for each in here if each.root_id == wake.root_id]),
        joinable=None,
        under_way=0,
        open_pulses=0,
        run_seconds_today=0.0,
        fleet_open=0,
        fleet_wakes_today=0,
    )
