"""What needs a person, each with its figure, its limit, since when, and the one act that helps (UI-16)."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Final
from urllib.parse import quote

from circadia.agents.access import is_allowed
from circadia.api.services import ApiContext
from circadia.gateway.model_call.hold import HoldView
from circadia.memory.embedding.background import EMBEDDER_DOWN
from circadia.records.agent import Agent
from circadia.records.call import AgentSpend, UsageGroup
from circadia.records.member import Member, Role
from circadia.records.overview import KnownProblem, Overview, ProblemKind
from circadia.records.pulse import Pulse
from circadia.records.wake import FLEET
from circadia.sleeptime.engine.health import RED_BANK
from circadia.stores.base import Tx
from circadia.wake.admission.guardrails import CIRCUIT_FAILURES, CIRCUIT_SECONDS
from circadia.wake.sleep_control import list_wakers

_CLAIMED_WITHIN: Final = timedelta(minutes=1)
"""A pulse that nobody has claimed by then waits for a worker that has its launcher."""
_MAX_UNCLAIMED: Final = 1_000
_MAX_NAMED: Final = 3
_MAX_OF_KIND: Final = 20
"""Most problems of a kind."""
_MAX_HOLDS: Final = 1_000
_MAX_COUNTED: Final = 1_000
"""Larger counts are not told apart."""
FAILING_WINDOW: Final = timedelta(minutes=5)
FAILING_SHARE: Final = 0.5
"""An upstream of which so many of the last calls failed is called a problem."""
_NANO: Final = 10**9


async def find_problems(
    tx: Tx, context: ApiContext, counts: Overview, members: Sequence[Member]
) -> Sequence[KnownProblem]:
    """Return what needs a person: of the servers, then of agents, then what waits."""
    problems = [*await _find_server_problems(tx, context, members)]
    problems += [problem async for problem in _find_spent_budgets(tx, context)]
    problems += [problem async for problem in _find_open_circuits(tx, context)]
    waiting, since = await tx.approvals.count_pending(limit=_MAX_COUNTED)
    if waiting:
        text = f"Calls that wait for your approval: {waiting}. Approve or refuse them: circadia approvals"
        problems.append(
            KnownProblem(
                kind=ProblemKind.APPROVALS, text=text, figure=waiting, unit="calls", since=since, act="Decide",
                page="/for-you?tab=approvals",
            )
        )  # fmt: skip
    if counts.dead_letters:
        since = await tx.needs.find_oldest_dead_letter()
        text = f"Messages that could not be delivered: {counts.dead_letters}. Requeue or handle them: circadia messages"
        problems.append(
            KnownProblem(
                kind=ProblemKind.DEAD_LETTERS, text=text, figure=counts.dead_letters, unit="dead letters", since=since,
                act="Read and requeue", page="/messages?state=dead",
            )
        )  # fmt: skip
    problems += [
        KnownProblem(
            kind=ProblemKind.PROPOSALS, subject=staged.bank, figure=staged.changes, unit="proposals",
            since=staged.since, act="Review", page=f"/passes/{staged.pass_id}",
            text=f"Proposals of a pass over bank {staged.bank!r} wait for you: {staged.changes}. Accept or refuse them",
        )
        for staged in await tx.needs.find_staged_passes(limit=_MAX_OF_KIND)
    ]  # fmt: skip
    holds, _ = context.holds.list_holds(limit=_MAX_HOLDS)
    problems += [problem async for problem in _find_stuck_holds(tx, holds)]
    return problems


async def _find_server_problems(tx: Tx, context: ApiContext, members: Sequence[Member]) -> Sequence[KnownProblem]:
    now = context.clock.now()
    recent = await tx.calls.sum_by_group("upstream", since=now - FAILING_WINDOW)
    red_banks = await tx.alerts.find_alert_times(RED_BANK)
    down = None if context.memory.embedding is None else await tx.alerts.find_alert_times(EMBEDDER_DOWN)
    unclaimed = await tx.pulses.find_unclaimed(now, before=now - _CLAIMED_WITHIN, limit=_MAX_UNCLAIMED)
    problems: list[KnownProblem] = []
    if members and all(member.role is Role.GATEWAY for member in members):
        text = "No worker runs, so pulses, passes and schedules wait. Start one: circadia serve --role worker"
        problems.append(KnownProblem(kind=ProblemKind.SERVER, text=text, act="Servers", page="/cluster"))
    else:
        problems += _find_missing_launchers(unclaimed)
    if (await tx.due_work.find(now, fleet_rule=FLEET)).overdue_pulses:
        text = "A pulse runs longer than it may. Look at the pulses and at the launcher's program"
        problems.append(
            KnownProblem(kind=ProblemKind.PULSE, text=text, act="Agents in a pulse", page="/agents?state=pulsing")
        )
    problems += _find_failing_upstreams(recent)
    if red_banks:
        problems.append(
            KnownProblem(
                kind=ProblemKind.BANKS, figure=len(red_banks), unit="banks", since=min(red_banks.values()),
                text=f"Banks whose passes fall behind: {len(red_banks)}. See why: circadia passes status",
                act="Passes", page="/passes",
            )
        )  # fmt: skip
    if down:
        text = "The embedder fails, so new texts are found by words alone. See why: circadia events --type alert"
        problems.append(
            KnownProblem(
                kind=ProblemKind.EMBEDDER, text=text, since=min(down.values()), act="Alerts", page="/events?type=alert"
            )
        )
    return problems


def _find_failing_upstreams(recent: Sequence[UsageGroup]) -> Iterator[KnownProblem]:
    for upstream in recent:
        if upstream.failed >= FAILING_SHARE * upstream.calls:
            yield KnownProblem(
                kind=ProblemKind.UPSTREAM, subject=upstream.key, figure=upstream.failed, limit=upstream.calls,
                unit="failed calls in 5 minutes", act="Errors", page="/events?type=upstream_error",
                text=f"Upstream {upstream.key!r} fails: {upstream.failed} of {upstream.calls} calls in 5 minutes. "
                "Look at the events of type upstream_error",
            )  # fmt: skip


def _find_missing_launchers(unclaimed: Sequence[Pulse]) -> Iterator[KnownProblem]:
    waiting: dict[str, list[Pulse]] = {}
    for pulse in unclaimed:
        waiting.setdefault(pulse.launcher, []).append(pulse)
    for launcher, pulses in waiting.items():
        agents = list(dict.fromkeys(pulse.agent for pulse in pulses))
        more = f" and {len(agents) - _MAX_NAMED} more" if len(agents) > _MAX_NAMED else ""
        yield KnownProblem(
            kind=ProblemKind.LAUNCHER, subject=launcher, figure=len(pulses), unit="waiting pulses",
            since=min(pulse.created_at for pulse in pulses), act="Servers", page="/cluster",
            text=f"No worker has launcher {launcher!r}, so pulses wait: {', '.join(agents[:_MAX_NAMED])}{more}. Start "
            "one whose configuration has it, or change the agent's launcher",
        )  # fmt: skip


async def _find_spent_budgets(tx: Tx, context: ApiContext) -> AsyncIterator[KnownProblem]:
    spent = await tx.needs.find_spent_budgets(context.clock.now(), limit=_MAX_OF_KIND)
    for agent_id, spend in spent.items():
        agent = await tx.agents.get(agent_id)
        if agent is None:
            continue
        last = await tx.calls.find_latest(agent_id, 1)
        for setting, used, limit, unit in _list_spent(agent, spend):
            yield KnownProblem(
                kind=ProblemKind.BUDGET, subject=agent.reference, figure=used, limit=limit, unit=unit,
                since=last[0].at if last else None, act="Raise it", page=f"{_page(agent)}?tab=settings",
                text=f"Agent {agent.reference!r} is refused calls: {setting} is used up, {used:g} of {limit:g} {unit}, "
                "until 00:00 UTC. Raise it in the agent's policy",
            )  # fmt: skip


def _list_spent(agent: Agent, spend: AgentSpend) -> Iterator[tuple[str, float, float, str]]:
    policy, calls = agent.policy, spend.calls
    budgets = (
        ("max_calls_per_day", calls, policy.max_calls_per_day, "calls", 1),
        ("max_tokens_per_day", spend.tokens, policy.max_tokens_per_day, "tokens", 1),
        ("max_usd_per_day", spend.nanousd, policy.max_usd_per_day, "US dollars", _NANO),
    )
    for setting, used, limit, unit, scale in budgets:
        if limit is not None and used * (calls + 1) > limit * scale * calls:  # as `Needs.find_spent_budgets` counts
            yield setting, used / scale, limit, unit


async def _find_open_circuits(tx: Tx, context: ApiContext) -> AsyncIterator[KnownProblem]:
    pause = timedelta(seconds=CIRCUIT_SECONDS)
    for agent_id in await tx.needs.find_failing_agents(context.clock.now() - pause, limit=_MAX_HOLDS):
        failures, last = await tx.pulses.count_failures(agent_id, limit=2 * CIRCUIT_FAILURES)
        agent = await tx.agents.get(agent_id) if failures >= CIRCUIT_FAILURES and last is not None else None
        if agent is None or agent.deleted_at is not None or last is None:
            continue
        yield KnownProblem(
            kind=ProblemKind.CIRCUIT, subject=agent.reference, figure=failures, limit=CIRCUIT_FAILURES,
            unit="failed pulses in a row", since=last, act="See why", page=_page(agent),
            text=f"The circuit of agent {agent.reference!r} is open: its last {failures} pulses failed. It is tried "
            f"again at {(last + pause).isoformat(timespec='minutes')}; look at its pulses",
        )  # fmt: skip


async def _find_stuck_holds(tx: Tx, holds: Sequence[HoldView]) -> AsyncIterator[KnownProblem]:
    """Find held calls of agents that no event, message, routine or agent may wake."""
    counts = Counter(hold.agent_id for hold in holds)
    oldest = {hold.agent_id: hold for hold in reversed(holds)}
    found = 0
    for agent_id, count in counts.items():
        agent = await tx.agents.get(agent_id)
        if agent is None or not agent.asleep or agent.next is not None or await list_wakers(tx, agent):
            continue
        if found < _MAX_OF_KIND and not await _may_be_woken_by_agents(tx, agent):
            found += 1
            yield KnownProblem(
                kind=ProblemKind.HOLDS, subject=agent.reference, figure=count, unit="held calls",
                since=oldest[agent_id].since, act="Wake it", page=_page(agent),
                text=f"Nobody may wake agent {agent.reference!r}, whose held calls wait: {count}. Wake it, or allow "
                "wakes",
            )  # fmt: skip


async def _may_be_woken_by_agents(tx: Tx, agent: Agent) -> bool:
    others = await tx.agents.find_by_session(agent.session_id)
    names = (agent.name, agent.reference, f"{agent.session}:{agent.name}")
    return any(is_allowed(other.policy.may_wake, *names) for other in others if other.id != agent.id)


def _page(agent: Agent) -> str:
    return "/agents/" + quote(agent.reference, safe="")
