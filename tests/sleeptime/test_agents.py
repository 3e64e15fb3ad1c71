"""A bank's sleep-time agent is woken when a pass over the bank has ended."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from circadia.agents.registry import NewAgent
from circadia.records.agent import Agent, SleepEvent
from circadia.records.sleep_pass import PassStatus
from circadia.records.wake import Wake, WakeSource
from circadia.server.wake_wiring import build_agent_services, build_wake_services
from circadia.settings import Settings
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.engine.pass_tasks import wake_sleeptime_agent
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from tests.sleeptime.stand import Stand


class Team:
    """A stand with the agent `dreamer`, who is asleep."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        settings, events = Settings.model_validate({}), EventLog(stand.clock, LocalSignals())
        tier = build_wake_services(settings, stand.clock, stand.ids, events)
        self.requests = tier.requests
        self.registry, _, self.sessions = build_agent_services(settings, stand.clock, stand.ids, events, tier)

    async def made(self) -> Agent:
        new = NewAgent(
            name="dreamer", description="", sleep_events=frozenset({SleepEvent.AGENT_STARTED}),
            wake_events=frozenset(), policy={"sleeptime_agent": True, "bank": "ann"},
        )  # fmt: skip
        async with self.stand.store.begin_write() as tx:
            await self.sessions.ensure_default(tx)
            session = await tx.sessions.get_by_name("default")
            assert session is not None
            return (await self.registry.add(tx, session, new, by="operator"))[0]

    async def ended(self, status: PassStatus, key: str, agent: str = "dreamer", **more: Any) -> None:
        run = replace(await self.stand.begun(key, **more), status=status)
        await self.stand.ended(run)
        policy = SleepPolicySettings.model_validate({"agent": agent})
        async with self.stand.store.begin_write() as tx:
            await wake_sleeptime_agent(self.requests, tx, self.stand.bank, policy, run)

    async def wakes(self) -> Sequence[Wake]:
        async with self.stand.store.begin_read() as tx:
            return await tx.wakes.find_all()


@pytest.mark.spec("SLEEP-27")
async def test_the_end_of_a_pass_wakes_the_agent_that_its_bank_names(stand: Stand) -> None:
    team = Team(stand)
    agent = await team.made()
    assert agent.asleep
    await team.ended(PassStatus.SUCCEEDED, "p1")
    (wake,) = await team.wakes()
    assert (wake.agent_id, wake.source, wake.reason) == (agent.id, WakeSource.SCHEDULE, "new in bank ann")
    async with team.stand.store.begin_read() as tx:
        present = await tx.agents.get(agent.id)
        assert present is not None
        assert not present.asleep
    await team.ended(PassStatus.NO_CHANGE, "p2")  # it is awake, and sees what is new by itself
    assert len(await team.wakes()) == 1


@pytest.mark.spec("SLEEP-27")
async def test_a_dry_run_a_pass_that_failed_and_an_agent_that_is_not_there_wake_nobody(stand: Stand) -> None:
    team = Team(stand)
    await team.made()
    await team.ended(PassStatus.SUCCEEDED, "p1", dry_run=True)
    await team.ended(PassStatus.FAILED, "p2")
    await team.ended(PassStatus.CANCELLED, "p3")
    await team.ended(PassStatus.SUCCEEDED, "p4", agent="nobody")
    await team.ended(PassStatus.SUCCEEDED, "p5", agent="away:nobody")
    assert not await team.wakes()
