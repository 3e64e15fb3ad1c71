"""A chain: the tree of wakes, pulses and messages with one root (WAKE-60, WAKE-71)."""

from collections.abc import Mapping, Sequence

from circadia.agents.access import require_operator
from circadia.api.context import Context, Who, noun_router
from circadia.api.observability.usage import usage_line
from circadia.errors import NotFound
from circadia.ids import PulseId
from circadia.records.call import UsageGroup
from circadia.records.message import Message
from circadia.records.pulse import Pulse
from circadia.records.wake import Wake
from circadia.schemas.chains import Chain, ChainNode

router = noun_router("chains")

_TEXT = 500


@router.get("/chains/{root}")
async def show_chain(root: str, who: Who, context: Context) -> Chain:
    """Show a chain as a tree. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        wakes = await tx.wakes.find_by_root(root)
        pulses = await tx.pulses.find_by_root(root)
        messages = await tx.messages.find_by_root(root)
        usage = await tx.calls.sum_by_pulse(root)
    if not wakes and not pulses and not messages:
        raise NotFound(f"no chain {root!r}; take the `root` of a wake, a pulse or a message")
    depths = [link.depth for link in (*wakes, *pulses, *messages)]
    return Chain(
        root=root,
        wakes=len(wakes),
        pulses=len(pulses),
        messages=len(messages),
        depth=max(depths),
        usage=usage_line(list(usage.values())),
        nodes=_nodes(wakes, pulses, messages, usage),
    )


def _nodes(
    wakes: Sequence[Wake], pulses: Sequence[Pulse], messages: Sequence[Message], usage: Mapping[PulseId, UsageGroup]
) -> list[ChainNode]:
    """Return the tree in reading order; without recursion, since a chain may be long."""
    # What an agent did in a pulse refers to its wake; put the pulse in between.
    opened: Mapping[str, str] = {pulse.wake_id: pulse.id for pulse in pulses if pulse.wake_id is not None}
    known = {link.id for link in (*wakes, *pulses, *messages)}

    def cause(*candidates: str | None) -> str | None:
        return next((candidate for candidate in candidates if candidate in known), None)

    nodes = [
        *(_message(message, cause(opened.get(message.parent_id or ""), message.parent_id)) for message in messages),
        *(
            _wake(wake, cause(wake.message_id, wake.sender_pulse, opened.get(wake.parent_id or ""), wake.parent_id))
            for wake in wakes
        ),
        *(_pulse(pulse, cause(pulse.wake_id), usage.get(pulse.id)) for pulse in pulses),
    ]
    below: dict[str | None, list[ChainNode]] = {}
    for node in sorted(nodes, key=lambda node: (node.at, _ORDER[node.kind], node.id), reverse=True):
        below.setdefault(node.parent, []).append(node)
    ordered: list[ChainNode] = []
    waiting = below.pop(None, [])
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        waiting.extend(below.pop(node.id, []))
    return ordered


_ORDER: Mapping[str, int] = {"message": 0, "wake": 1, "pulse": 2}


def _message(message: Message, parent: str | None) -> ChainNode:
    text = message.content if len(message.content) <= _TEXT else f"{message.content[:_TEXT]}…"
    return ChainNode(
        kind="message", id=message.id, at=message.at, agent=message.sender, by=message.sender, state="", detail=text,
        depth=message.depth, parent=parent,
    )  # fmt: skip


def _wake(wake: Wake, parent: str | None) -> ChainNode:
    detail = f"{wake.reason}: {wake.detail}" if wake.detail else wake.reason
    return ChainNode(
        kind="wake", id=wake.id, at=wake.at, agent=wake.agent, by=wake.sender, state=wake.decision.value,
        detail=detail, depth=wake.depth, parent=parent,
    )  # fmt: skip


def _pulse(pulse: Pulse, parent: str | None, usage: UsageGroup | None) -> ChainNode:
    return ChainNode(
        kind="pulse", id=pulse.id, at=pulse.created_at, agent=pulse.agent, by=pulse.by, state=pulse.status.value,
        detail=pulse.detail, depth=pulse.depth, parent=parent, usage=usage and usage_line([usage]),
    )  # fmt: skip
