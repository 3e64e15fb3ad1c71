"""What people are told, and how often."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from circadia.agents.registry import NewAgent
from circadia.clock import system_milliseconds
from circadia.ids import RandomIds
from circadia.records.agent import Agent
from circadia.records.event import Event, EventType
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.server.waking import agent_services, wake_tier
from circadia.settings import settings_from
from circadia.stores.base import Store
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import ManualClock
from circadia.wake.alerts import Alerts
from tests.wake.fleet import LAUNCHED, NO_LIMITS, fleet

HOUR = 3600.0


@dataclass
class Stand:
    clock: ManualClock
    store: Store
    agent: Agent
    alerts: Alerts
    posted: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])

    async def happens(self, cause: str, **data: object) -> None:
        """Write an alert event, and let the alerts look."""
        event = Event(
            type=EventType.ALERT, at=self.clock.now(), session="default", agent="ann", data={"cause": cause, **data}
        )  # fmt: skip
        async with self.store.write() as tx:
            await tx.events.add([event])
        await self.alerts.step()

    @property
    def causes(self) -> list[object]:
        return [alert["cause"] for alert in self.posted]


@pytest.fixture
async def stand(sqlite_store: Store) -> Stand:
    clock, signals, ids, store = ManualClock(), LocalSignals(), RandomIds(system_milliseconds), sqlite_store
    settings = settings_from({})
    tier = wake_tier(settings, clock, ids, signals)
    registry, _, sessions = agent_services(settings, clock, ids, signals, tier)
    async with store.write() as tx:
        session = await sessions.ensure_default(tx)
        agent, _ = await registry.add(tx, session, NewAgent(name="ann"))

    posted: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        posted.append(alert)

    alerts = Alerts(clock, store, post)
    await alerts.step()
    return Stand(clock, store, agent, alerts, posted)


@pytest.mark.spec("WAKE-76")
async def test_the_same_cause_of_the_same_agent_is_told_once_an_hour(stand: Stand) -> None:
    await stand.happens("dead_letter", pulse="pls_1")
    await stand.happens("dead_letter", pulse="pls_2")
    await stand.happens("routine_skipped")
    await stand.alerts.settled()
    assert stand.causes == ["dead_letter", "routine_skipped"]
    stand.clock.advance(HOUR)
    await stand.happens("dead_letter", pulse="pls_3")
    await stand.alerts.settled()
    assert stand.causes == ["dead_letter", "routine_skipped", "dead_letter"]
    assert stand.posted[-1]["detail"] == {"cause": "dead_letter", "pulse": "pls_3"}


@pytest.mark.spec("WAKE-76")
async def test_what_happened_before_the_start_is_not_told_again(stand: Stand) -> None:
    await stand.happens("dead_letter")
    later = Alerts(stand.clock, stand.store, None)
    await later.step()
    await stand.alerts.settled()
    assert stand.causes == ["dead_letter"]


@pytest.mark.spec("WAKE-76")
async def test_of_two_servers_one_tells_and_the_other_goes_on_alone_when_it_has_died(stand: Stand) -> None:
    posted: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        posted.append(alert)

    other = Alerts(stand.clock, stand.store, post)
    await other.step()
    await stand.happens("dead_letter", pulse="pls_1")
    await other.step()
    async with stand.store.write() as tx:
        events = [
            Event(type=EventType.ALERT, at=stand.clock.now(), session="default", agent=name, data={"cause": cause})
            for name, cause in (("bob", "dead_letter"), ("ann", "routine_skipped"))
        ]
        await tx.events.add(events)
    await asyncio.gather(other.step(), stand.alerts.step())
    stand.clock.advance(HOUR - 1)
    async with stand.store.write() as tx:
        await tx.events.add(events)
    await other.step()  # from here on it is alone
    stand.clock.advance(1)
    async with stand.store.write() as tx:
        await tx.events.add(events)
    await other.step()
    await asyncio.gather(other.settled(), stand.alerts.settled())
    told = [(alert["agent"], alert["cause"]) for alert in (*stand.posted, *posted)]
    both = [("bob", "dead_letter"), ("ann", "routine_skipped")]
    assert sorted(map(str, told)) == sorted(map(str, [("ann", "dead_letter"), *both, *both]))
    assert [(alert["agent"], alert["cause"]) for alert in posted[-2:]] == both


@pytest.mark.spec("WAKE-76")
async def test_a_webhook_that_fails_stops_no_alert(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    async def post(_: Mapping[str, object]) -> None:
        raise OSError("refused, with a secret in the URL")

    alerts = Alerts(stand.clock, stand.store, post)
    await alerts.step()
    stand.alerts = alerts
    await stand.happens("dead_letter")
    await alerts.settled()
    assert "alert dead_letter of default:ann" in caplog.text
    assert "an alert could not be posted: OSError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.spec("WAKE-76")
async def test_a_budget_is_nearly_spent_by_wakes_that_count_and_not_by_routines(tmp_path: Path) -> None:
    posted: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        posted.append(alert)

    cap = {"wake_guardrails": {**NO_LIMITS, "max_wakes_per_day": 2}}
    async with fleet(tmp_path) as team:
        ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, cap)
        alerts = Alerts(team.clock, team.store, post)
        await alerts.step()
        await team.routines(bob, RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60)))
        for _ in range(3):
            team.clock.advance(60)
            await team.worker.step()
            await team.run((await team.pulses())[-1].id)
        await alerts.step()
        assert len(await team.pulses()) == 3
        assert not posted
        await team.run((await team.ask(ann, bob)).pulse_id)
        await team.run((await team.ask(ann, bob)).pulse_id)
        await alerts.step()
        await alerts.settled()
    assert [(alert["cause"], alert["detail"]) for alert in posted] == [
        ("budget", {"wakes_today": 2, "max_wakes_per_day": 2})
    ]
