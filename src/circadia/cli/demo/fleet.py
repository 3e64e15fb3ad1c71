"""The agents of `circadia demo wakes`, which are asleep and started by a launcher."""

from collections.abc import Mapping
from types import ModuleType

from circadia.agents.registry import NewAgent
from circadia.clock import system_milliseconds
from circadia.ids import RandomIds
from circadia.records.agent import Agent, SleepEvent
from circadia.settings import settings_from
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.testing.clock import ManualClock
from circadia.wake.services import WakeServices

_LAUNCHER = {"kind": "callable", "function": "circadia.cli.demo.wakes:wakes"}


async def fleet(
    store: Store, clock: ManualClock, events: EventLog, waking: ModuleType, stated: Mapping[str, Mapping[str, object]]
) -> tuple[WakeServices, dict[str, Agent]]:
    """Build the wake services on the store and create the agents; return both, the agents by name."""
    settings, ids = settings_from({"launchers": {"demo": _LAUNCHER}}), RandomIds(system_milliseconds)
    tier: WakeServices = waking.build_wake_services(settings, clock, ids, events)
    registry, _, sessions = waking.build_agent_services(settings, clock, ids, events, tier)
    agents: dict[str, Agent] = {}
    async with store.begin_write() as tx:
        session = await sessions.ensure_default(tx)
        for name, coordination in stated.items():
            new = NewAgent(name=name, sleep_events=frozenset({SleepEvent.AGENT_STARTED}))
            agent, _ = await registry.add(tx, session, new, by="demo")
            agents[name] = await tier.coordinations.patch(tx, agent, {**coordination, "launcher": "demo"}, by="demo")
    return tier, agents
