"""Says why an agent sleeps or is awake, why a message woke it or did not, and which agents wake each other (UI-18)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from circadia.ids import MessageId, WakeId
from circadia.records.agent import Agent, Cause, WakeEvent
from circadia.records.coordination import PairMode
from circadia.records.event import Event, EventType
from circadia.records.message import Delivery, Message
from circadia.records.wake import Decision, Wake, WakeCount
from circadia.stores.base import Tx

GRANTED: Final = (Decision.ADMITTED, Decision.COALESCED)
_SLEEP_CHANGES: Final = (EventType.SLEEP_START, EventType.SLEEP_STOP)
_MAX_CHANGES: Final = 200
"""Newest changes of the sleep state among which the one before a message is looked for."""

Pairs = Mapping[tuple[str, str], int]
"""Granted wakes by sender and target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeCircle:
    """Agents that wake each other, directly or over others."""

    agents: Sequence[str]
    wakes: int
    """Granted wakes among them."""
    sender: str
    target: str
    """The pair that is nearest to its limit."""
    used: int
    limit: int | None
    """`max_wakes_per_pair_per_day` of the target."""


async def find_circles(tx: Tx, since: datetime) -> list[WakeCircle]:
    """Return the circles of wakes since then, those with the most wakes first."""
    pairs = count_granted(await tx.wakes.count_by_pair(since=since))
    circles = [await _build_circle(tx, group, pairs) for group in find_groups(pairs)]
    return sorted(circles, key=lambda circle: (-circle.wakes, circle.agents))


def count_granted(counts: Iterable[WakeCount]) -> Pairs:
    pairs: dict[tuple[str, str], int] = {}
    for count in counts:
        if count.decision in GRANTED and count.sender != count.agent:
            pairs[count.sender, count.agent] = pairs.get((count.sender, count.agent), 0) + count.count
    return pairs


def find_groups(pairs: Collection[tuple[str, str]]) -> list[list[str]]:
    """Return the groups in which each name leads to each other one (Kosaraju's algorithm)."""
    onward: dict[str, list[str]] = {}
    back: dict[str, list[str]] = {}
    for sender, target in pairs:
        onward.setdefault(sender, []).append(target)
        back.setdefault(target, []).append(sender)
    order: list[str] = []
    known: set[str] = set()
    for name in onward:
        order += _walk(name, onward, known)
    known.clear()
    groups = [sorted(_walk(name, back, known)) for name in reversed(order)]
    return [group for group in groups if len(group) > 1]


def _walk(start: str, links: Mapping[str, Sequence[str]], known: set[str]) -> Iterator[str]:
    """Yield each unknown name that the start leads to, after those to which it leads itself."""
    if start in known:
        return
    known.add(start)
    path = [(start, iter(links.get(start, ())))]
    while path:
        name, rest = path[-1]
        step = next((each for each in rest if each not in known), None)
        if step is None:
            path.pop()
            yield name
        else:
            known.add(step)
            path.append((step, iter(links.get(step, ()))))


async def _build_circle(tx: Tx, group: Sequence[str], pairs: Pairs) -> WakeCircle:
    inside = [pair for pair in pairs if pair[0] in group and pair[1] in group]
    nearest, share, used, limit = inside[0], -1.0, 0, None
    for sender, target in inside:
        agent = await _find_agent(tx, target)
        limits = None if agent is None else agent.coordination.wake_guardrails
        most = None if limits is None else limits.max_wakes_per_pair_per_day
        both = limits is not None and limits.pair_mode is PairMode.UNDIRECTED
        count = pairs[sender, target] + (pairs.get((target, sender), 0) if both else 0)
        if (count / most if most else 0.0) > share:
            nearest, share, used, limit = (sender, target), count / most if most else 0.0, count, most
    wakes = sum(pairs[pair] for pair in inside)
    return WakeCircle(agents=group, wakes=wakes, sender=nearest[0], target=nearest[1], used=used, limit=limit)


async def _find_agent(tx: Tx, reference: str) -> Agent | None:
    session_name, colon, name = reference.rpartition(":")
    session = await tx.sessions.get_by_name(session_name if colon else "default")
    return None if session is None else await tx.agents.get_by_name(session.id, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class StateReason:
    """Why an agent sleeps or is awake."""

    because: str
    wake: WakeId | None = None
    """The request that woke it."""
    message: MessageId | None = None


async def fetch_state_reason(tx: Tx, agent: Agent) -> StateReason:
    """Return why the agent is in its state; a wake's reason is added where the event of the change still exists."""
    by = agent.actor.replace("_", " ") if agent.cause is Cause.EVENT else f"by {agent.actor}"
    changes = await tx.events.find_newest(limit=1, session=agent.session, agent=agent.name, types=_SLEEP_CHANGES)
    key = None if agent.asleep else next((_read_text(event, "wake") for event in changes), None)
    wake = None if key is None else await tx.wakes.get(WakeId(key))
    if wake is None:
        return StateReason(because=by)
    reason = wake.reason.replace("_", " ")
    return StateReason(because=by if reason in by else f"{by}: {reason}", wake=wake.id, message=wake.message_id)


def _read_text(event: Event, key: str) -> str | None:
    value = event.data.get(key)
    return value if isinstance(value, str) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageWake:
    """Why a message woke one of its recipients, or did not."""

    agent: str
    mentioned: bool
    wake: Wake | None
    why: str


async def explain_message(tx: Tx, message: Message) -> list[MessageWake]:
    """Return for each recipient why the message woke it, or did not."""
    requests = {wake.agent_id: wake for wake in await tx.wakes.find_by_message(message.id)}
    explained: list[MessageWake] = []
    for delivery in await tx.deliveries.find_by_message(message.id):
        agent = await tx.agents.get(delivery.agent_id)
        if agent is None:
            continue
        wake = requests.get(agent.id)
        why = _describe_wake(wake) if wake is not None else await _say_why_not(tx, agent, message, delivery)
        explained.append(MessageWake(agent=agent.reference, mentioned=delivery.mentioned, wake=wake, why=why))
    return sorted(explained, key=lambda each: (not each.mentioned, each.agent))


def _describe_wake(wake: Wake) -> str:
    return f"{wake.decision.value}: {wake.detail}" if wake.detail else wake.decision.value


async def _say_why_not(tx: Tx, agent: Agent, message: Message, delivery: Delivery) -> str:
    if not delivery.mentioned:
        return f"not mentioned, and priority {message.priority.value} asked for no wake: the message waits in the inbox"
    if WakeEvent.MENTIONED not in agent.wake_events:
        return "its wake events lack `mentioned`"
    changes = await tx.events.find_newest(
        limit=_MAX_CHANGES, session=agent.session, agent=agent.name, types=_SLEEP_CHANGES
    )
    before = next((event for event in changes if event.at <= message.at), None)
    if before is None and len(changes) == _MAX_CHANGES:
        return "it is not known whether it slept then: the events are gone, or too many came since"
    if before is None or before.type is EventType.SLEEP_STOP:
        return "it was awake then, and reads the message by itself"
    return "it has read the message before a wake was asked for"
