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
from circadia.records.pulse import PulseStatus
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.wake import Decision
from circadia.server.wake_wiring import build_agent_services, build_wake_services
from circadia.settings import settings_from
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.wake.alerts import AlertNotifier
from circadia.wake.launchers.base import LaunchResult
from tests.wake.fleet import FREE, LAUNCHED, NO_LIMITS, Fleet, SettableClock, fleet

HOUR = 3600.0
IDS = RandomIds(system_milliseconds)


@dataclass
class Stand:
    clock: SettableClock
    store: Store
    agent: Agent
    alerts: AlertNotifier
    posted: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])

    async def happens(self, cause: str, **data: object) -> None:
        """Write an alert event, and let the alerts look."""
        event = Event(
            type=EventType.ALERT, at=self.clock.now(), session="default", agent="ann", data={"cause": cause, **data}
        )  # fmt: skip
        async with self.store.begin_write() as tx:
            await tx.events.add([event])
        await self.alerts.step()

    @property
    def causes(self) -> list[object]:
        return [alert["cause"] for alert in self.posted]


@pytest.fixture
async def stand(sqlite_store: Store) -> Stand:
    clock, signals, ids, store = SettableClock(), LocalSignals(), IDS, sqlite_store
    settings = settings_from({})
    tier = build_wake_services(settings, clock, ids, EventLog(clock, signals))
    registry, _, sessions = build_agent_services(settings, clock, ids, EventLog(clock, signals), tier)
    async with store.begin_write() as tx:
        session = await sessions.ensure_default(tx)
        agent, _ = await registry.add(tx, session, NewAgent(name="ann"), by="operator")

    posted: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        posted.append(alert)

    alerts = AlertNotifier(clock, ids, store, EventLog(clock, signals), post)
    await alerts.step()
    return Stand(clock, store, agent, alerts, posted)


@pytest.mark.spec("WAKE-76")
async def test_the_same_cause_of_the_same_agent_is_told_once_an_hour(stand: Stand) -> None:
    await stand.happens("dead_letter", pulse="pls_1")
    await stand.happens("dead_letter", pulse="pls_2")
    await stand.happens("routine_skipped")
    await stand.alerts.wait_until_posted()
    assert stand.causes == ["dead_letter", "routine_skipped"]
    stand.clock.advance(HOUR)
    await stand.happens("dead_letter", pulse="pls_3")
    await stand.alerts.wait_until_posted()
    assert stand.causes == ["dead_letter", "routine_skipped", "dead_letter"]
    assert stand.posted[-1]["detail"] == {"pulse": "pls_3"}


@pytest.mark.spec("UI-19")
async def test_each_alert_is_in_the_history_once_and_an_event_tells_of_it(stand: Stand) -> None:
    await stand.happens("dead_letter", pulse="pls_1")
    await stand.happens("dead_letter", pulse="pls_2")
    stand.clock.advance(HOUR)
    await stand.happens("dead_letter", pulse="pls_3")
    await stand.alerts.wait_until_posted()
    async with stand.store.begin_read() as tx:
        history = await tx.alert_history.find_all()
        raised = await tx.events.find_after(0, types=[EventType.ALERT_RAISED])
    assert [(each.cause, each.session, each.agent, each.detail) for each in history] == [
        ("dead_letter", "default", "ann", {"pulse": "pls_3"}), ("dead_letter", "default", "ann", {"pulse": "pls_1"}),
    ]  # fmt: skip
    assert [each.id for each in history] == [alert["id"] for alert in reversed(stand.posted)]
    assert [event.data["alert"] for event in raised] == [each.id for each in reversed(history)]


@pytest.mark.spec("WAKE-76")
async def test_what_happened_before_the_start_is_not_told_again(stand: Stand) -> None:
    await stand.happens("dead_letter")
    later = AlertNotifier(stand.clock, IDS, stand.store, EventLog(stand.clock, LocalSignals()), None)
    await later.step()
    await stand.alerts.wait_until_posted()
    assert stand.causes == ["dead_letter"]


@pytest.mark.spec("WAKE-76")
async def test_of_two_servers_one_tells_and_the_other_goes_on_alone_when_it_has_died(stand: Stand) -> None:
    posted: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        posted.append(alert)

    other = AlertNotifier(stand.clock, IDS, stand.store, EventLog(stand.clock, LocalSignals()), post)
    await other.step()
    await stand.happens("dead_letter", pulse="pls_1")
    await other.step()
    async with stand.store.begin_write() as tx:
        events = [
            Event(type=EventType.ALERT, at=stand.clock.now(), session="default", agent=name, data={"cause": cause})
            for name, cause in (("bob", "dead_letter"), ("ann", "routine_skipped"))
        ]
        await tx.events.add(events)
    await asyncio.gather(other.step(), stand.alerts.step())
    stand.clock.advance(HOUR - 1)
    async with stand.store.begin_write() as tx:
        await tx.events.add(events)
    await other.step()  # from here on it is alone
    stand.clock.advance(1)
    async with stand.store.begin_write() as tx:
        await tx.events.add(events)
    await other.step()
    await asyncio.gather(other.wait_until_posted(), stand.alerts.wait_until_posted())
    told = [(alert["agent"], alert["cause"]) for alert in (*stand.posted, *posted)]
    both = [("bob", "dead_letter"), ("ann", "routine_skipped")]
    assert sorted(map(str, told)) == sorted(map(str, [("ann", "dead_letter"), *both, *both]))
    assert [(alert["agent"], alert["cause"]) for alert in posted[-2:]] == both


@pytest.mark.spec("WAKE-76")
async def test_a_webhook_that_fails_stops_no_alert(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    async def post(_: Mapping[str, object]) -> None:
        raise OSError("refused, with a secret in the URL")

    alerts = AlertNotifier(stand.clock, IDS, stand.store, EventLog(stand.clock, LocalSignals()), post)
    await alerts.step()
    stand.alerts = alerts
    await stand.happens("dead_letter")
    await alerts.wait_until_posted()
    assert "alert dead_letter of default:ann" in caplog.text
    assert "an alert could not be posted: OSError" in caplog.text
    assert "secret" not in caplog.text


@dataclass
class Receiver:
    """A webhook that keeps who posts waiting until the test lets go, or the server dies."""

    got: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    came: asyncio.Event = field(default_factory=asyncio.Event)
    free: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, alert: Mapping[str, object]) -> None:
        self.got.append(alert)
        self.came.set()
        await self.free.wait()


async def died(alerts: AlertNotifier, receiver: Receiver) -> None:
    """Let a server tell an alert and stop while it posts it."""
    running = asyncio.create_task(alerts.run())
    await asyncio.wait_for(receiver.came.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asyncio.gather(alerts.wait_until_posted(), return_exceptions=True)


@pytest.mark.spec("WAKE-76")
@pytest.mark.parametrize("clock_set", [5 * HOUR, -HOUR])
async def test_what_a_server_has_not_posted_that_died_is_posted_by_the_next_one_with_the_same_id(
    stand: Stand, clock_set: float
) -> None:
    receiver = Receiver()
    first = AlertNotifier(stand.clock, IDS, stand.store, EventLog(stand.clock, LocalSignals()), receiver)
    await first.step()
    async with stand.store.begin_write() as tx:
        data = {"cause": "dead_letter", "pulse": "pls_1"}
        event = Event(type=EventType.ALERT, at=stand.clock.now(), session="default", agent="ann", data=data)
        await tx.events.add([event])
    await died(first, receiver)
    stand.clock.advance(59)
    await stand.alerts.step()
    await stand.alerts.wait_until_posted()
    assert stand.posted == [], "it may still be under way"
    stand.clock.set(clock_set)
    stand.clock.advance(60)  # it looks once a minute
    receiver.free.set()
    later = AlertNotifier(stand.clock, IDS, stand.store, EventLog(stand.clock, LocalSignals()), receiver)
    for alerts in (later, stand.alerts, later):
        await alerts.step()
        await alerts.wait_until_posted()
        stand.clock.advance(60)
    lost, again = receiver.got
    assert again == lost
    assert str(again["id"]).startswith("alr_")
    assert stand.posted == []


@pytest.mark.spec("WAKE-76")
async def test_an_alert_that_a_webhook_refused_is_not_posted_again_and_each_has_an_id_of_its_own(stand: Stand) -> None:
    refused: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        refused.append(alert)
        raise OSError("refused")

    stand.alerts = AlertNotifier(stand.clock, IDS, stand.store, EventLog(stand.clock, LocalSignals()), post)
    await stand.alerts.step()
    await stand.happens("dead_letter")
    await stand.happens("routine_skipped")
    await stand.alerts.wait_until_posted()
    stand.clock.advance(120)
    await stand.alerts.step()
    await stand.alerts.wait_until_posted()
    assert len({each["id"] for each in refused}) == len(refused) == 2


@pytest.mark.spec("WAKE-76")
async def test_a_budget_is_nearly_spent_by_wakes_that_count_and_not_by_routines(tmp_path: Path) -> None:
    posted: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        posted.append(alert)

    cap = {"wake_guardrails": {**NO_LIMITS, "max_wakes_per_day": 2}}
    async with fleet(tmp_path) as team:
        ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, cap)
        alerts = AlertNotifier(team.clock, IDS, team.store, EventLog(team.clock, LocalSignals()), post)
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
        await alerts.wait_until_posted()
    assert [(alert["cause"], alert["detail"]) for alert in posted] == [
        ("budget", {"wakes_today": 2, "max_wakes_per_day": 2})
    ]


@pytest.mark.spec("WAKE-76")
async def test_four_fifths_of_a_day_s_minutes_and_of_the_fleet_s_wakes_are_told_too(tmp_path: Path) -> None:
    posted: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        posted.append(alert)

    cap = {"wake_guardrails": {**NO_LIMITS, "max_daily_session_minutes": 10}}
    async with fleet(tmp_path) as team:
        ann, bob = await team.agent("ann", FREE), await team.agent("bob", LAUNCHED, cap)
        alerts = AlertNotifier(
            team.clock, IDS, team.store, EventLog(team.clock, LocalSignals()), post, fleet_wakes_per_day=5
        )
        await alerts.step()
        for minutes in (7, 1.5, 0, 0):
            await team.run((await team.ask(ann, bob)).pulse_id, seconds=minutes * 60)
            await alerts.step()
            await alerts.wait_until_posted()
            team.clock.advance(3_600)
    minutes = {"minutes_today": pytest.approx(8.5, abs=0.1), "max_daily_session_minutes": 10}
    wakes = {"fleet_wakes_today": 4, "fleet.max_wakes_per_day": 5}
    assert [(alert["cause"], alert["detail"]) for alert in posted] == [
        ("budget", minutes), ("budget", minutes), ("budget", minutes | wakes),
    ]  # fmt: skip


@dataclass
class AlertRecorder:
    """The alerts of a fleet, as the webhook gets them."""

    team: Fleet
    alerts: AlertNotifier
    posted: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])

    async def told(self) -> list[tuple[object, object, object]]:
        """Let the alerts look, and return agent, cause and detail of what they have posted since the last time."""
        await self.alerts.step()
        await self.alerts.wait_until_posted()
        told = [(each["agent"], each["cause"], each["detail"]) for each in self.posted]
        self.posted.clear()
        return told


@pytest.fixture
async def watched(team: Fleet) -> AlertRecorder:
    posted: list[Mapping[str, object]] = []

    async def post(alert: Mapping[str, object]) -> None:
        posted.append(alert)

    await team.home()
    found = AlertRecorder(
        team, AlertNotifier(team.clock, IDS, team.store, EventLog(team.clock, LocalSignals()), post), posted
    )
    assert await found.told() == []
    return found


@pytest.mark.spec("WAKE-76")
async def test_three_failures_in_a_row_are_told_and_five_open_the_circuit_but_a_success_begins_anew(
    watched: AlertRecorder,
) -> None:
    team = watched.team
    ann, bob = await team.agent("ann", FREE), await team.agent("bob", LAUNCHED, FREE)

    async def pulse_ends(*, succeeded: bool) -> list[tuple[object, object, object]]:
        wake = await team.ask(ann, bob)
        await team.worker.step()
        await team.until(wake.pulse_id, PulseStatus.RUNNING)
        assert wake.pulse_id is not None
        team.launcher.end(wake.pulse_id, LaunchResult(succeeded=succeeded, detail="no disk"))
        await team.until(wake.pulse_id)
        team.clock.advance(1)
        return await watched.told()

    assert [await pulse_ends(succeeded=each) for each in (False, False, True, False, False)] == [[]] * 5
    assert await pulse_ends(succeeded=False) == [("bob", "failure_streak", {"failures": 3, "last": "no disk"})]
    assert await pulse_ends(succeeded=False) == []
    assert await pulse_ends(succeeded=False) == [("bob", "circuit_open", {"failures": 5, "last": "no disk"})]


@pytest.mark.spec("WAKE-76")
async def test_eight_of_ten_wakes_of_a_day_are_told_and_seven_are_not(watched: AlertRecorder) -> None:
    team = watched.team
    cap = {"wake_guardrails": {**NO_LIMITS, "max_wakes_per_day": 10}}
    bob = await team.agent("bob", LAUNCHED, cap)
    told: list[list[tuple[object, object, object]]] = []
    for _ in range(8):
        await team.run((await team.ask(None, bob)).pulse_id)
        told.append(await watched.told())
    assert told[:7] == [[]] * 7
    assert told[7] == [("bob", "budget", {"wakes_today": 8, "max_wakes_per_day": 10})]


@pytest.mark.spec("WAKE-76")
async def test_a_deferred_wake_is_told_once_it_has_waited_an_hour(watched: AlertRecorder) -> None:
    team = watched.team
    cooling = {"wake_guardrails": {**NO_LIMITS, "cooldown_seconds": 7200}, "on_cooldown": "defer"}
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, cooling)
    await team.run((await team.ask(ann, bob)).pulse_id)
    began = team.clock.now()
    waiting = [await team.ask(ann, bob, each) for each in ("one", "two")]
    assert {each.decision for each in waiting} == {Decision.DEFERRED}
    team.clock.advance(HOUR - 1)
    assert await watched.told() == []
    team.clock.advance(60)  # it looks once a minute
    detail = {"waiting": 2, "oldest": waiting[0].id, "since": began.isoformat()}
    assert await watched.told() == [("bob", "backlog", detail)]


@pytest.mark.spec("WAKE-76", "WAKE-23")
async def test_messages_that_a_fourth_interruption_leaves_dead_are_told(watched: AlertRecorder) -> None:
    team = watched.team
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, FREE)
    sent = await team.send(ann, bob)
    assert sent.wake is not None
    told: list[tuple[object, object, object]] = []
    for pause in (5, 10, 20, 0):
        assert told == []
        await team.worker.step()
        await team.until(sent.wake.pulse_id, PulseStatus.RUNNING)
        team.crash()
        await team.worker.step()
        team.clock.advance(pause)
        told = await watched.told()
    ((agent, cause, detail),) = told
    assert (agent, cause) == ("bob", "dead_letter")
    assert isinstance(detail, Mapping)
    assert (detail["pulse"], detail["messages"]) == (sent.wake.pulse_id, [sent.message.id])


@pytest.mark.spec("WAKE-76")
async def test_a_session_whose_agents_all_sleep_is_told_once_nobody_has_acted_for_so_long(
    watched: AlertRecorder,
) -> None:
    team = watched.team
    await team.agent("ann")
    for seconds, stalled in ((299, []), (1, [(None, "stalled_session")])):
        team.clock.advance(seconds)
        async with team.store.begin_write() as tx:
            await team.sessions.report_stalls(tx, 300)
        assert [(agent, cause) for agent, cause, _ in await watched.told()] == stalled


@pytest.mark.spec("WAKE-76")
async def test_a_clock_that_is_set_back_silences_no_alert(stand: Stand) -> None:
    await stand.happens("dead_letter", pulse="pls_1")
    stand.clock.set(-HOUR / 2)
    await stand.happens("dead_letter", pulse="pls_2")
    stand.clock.set(-HOUR / 2)
    await stand.happens("dead_letter", pulse="pls_3")
    await stand.alerts.wait_until_posted()
    assert [alert["detail"] for alert in stand.posted] == [{"pulse": "pls_1"}, {"pulse": "pls_3"}]
