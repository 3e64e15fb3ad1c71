"""Wake requests from the REST API as records, for a replay."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.cli.remote.paging import gather_pages
from circadia.client import Client
from circadia.errors import NotFound
from circadia.ids import AgentId, MessageId, PulseId, WakeId
from circadia.records.coordination import DEFAULT, Coordination, build_coordination
from circadia.records.principal import OPERATOR
from circadia.records.wake import GuardrailCheck, Wake, WakeSource
from circadia.schemas.wakes import WakeDetail

EARLIER: Final = timedelta(days=2)
"""Time before the first replayed request whose requests complete its counts."""
AT_ONCE: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayData:
    """The requests with their traces, their targets' current settings, and whether the period is `complete`."""

    wakes: Sequence[Wake]
    coordinations: Mapping[AgentId, Coordination]
    complete: bool


async def fetch_replay_data(client: Client, since: datetime, *, limit: int) -> ReplayData:
    """Return the requests since `since` and those shortly before, with the settings of their targets."""
    start = (since - EARLIER).isoformat()
    page = await gather_pages(
        lambda place, count: client.list_wakes(since=start, before=place, limit=count, trace=True),
        key="wakes",
        limit=limit,
    )
    places = asyncio.Semaphore(AT_ONCE)

    async def fetch_coordination(reference: str) -> Coordination:
        async with places:
            try:
                answer = await client.show_coordination(reference)
            except NotFound:
                return DEFAULT  # it was deleted
            return build_coordination({key: setting.value for key, setting in answer.settings.items()})

    targets = sorted({view.agent for view in page.wakes})
    own = await asyncio.gather(*(fetch_coordination(target) for target in targets))
    return ReplayData(
        wakes=[wake_of(wake) for wake in page.wakes if isinstance(wake, WakeDetail)],
        coordinations={AgentId(name): coordination for name, coordination in zip(targets, own, strict=True)},
        complete=page.before is None,
    )


def wake_of(view: WakeDetail) -> Wake:
    """Return a REST answer as a wake record; references serve as agent ids, which is enough for counting."""
    source = view.source
    by_agent = source in (WakeSource.AGENT, WakeSource.THREAD) and view.sender.partition("/")[0] != OPERATOR
    pulse = view.sender_pulse
    return Wake(
        id=WakeId(view.id),
        at=view.at,
        agent_id=AgentId(view.agent),
        agent=view.agent,
        source=source,
        sender_id=AgentId(view.sender) if by_agent else None,
        sender=view.sender,
        sender_pulse=None if pulse is None else PulseId(pulse),
        reason=view.reason,
        priority=view.priority,
        message_id=None if view.message is None else MessageId(view.message),
        routine=view.routine,
        decision=view.decision,
        rule=view.rule,
        detail=view.detail,
        decided_at=view.decided_at,
        charge=view.charge,
        pulse_id=None if view.pulse is None else PulseId(view.pulse),
        root_id=view.root,
        parent_id=view.parent,
        depth=view.depth,
        overridden_by=view.overridden_by,
        trace=tuple(GuardrailCheck(**dict(check)) for check in view.trace),
    )
