"""`when`: a bank's passes begin when its preset says, and at no other time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from circadia.ids import BankId
from circadia.memory.blocks import BlockAuthor
from circadia.records.pulse import PulseStatus
from circadia.records.sleep_pass import Backlog, PassBlocker, PassStatus, SleepState, Trigger
from circadia.settings.sleeptime import SleeptimeSettings
from circadia.sleeptime.triggers.due import ActivityEnd, BankSleepStatus, decide_pass
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Slow, Tier, reading

pytestmark = pytest.mark.spec("SLEEP-05")
BERLIN = ZoneInfo("Europe/Berlin")


async def lived(stand: Stand, tier: Tier, hours: int) -> None:
    """Let so many hours pass in which agents talk, fill contexts, end, fall asleep and wake, and people edit."""
    worker = tier.worker()
    await tier.agent(asleep=False)
    for hour in range(hours):
        await tier.agent(asleep=False)
        for at in range(6):
            tier.signals.publish("turn", "ann", {"user": None})
            await stand.said(f"turn {at} of hour {hour}", importance=1.0)  # a minute each
            tier.signals.publish("turn", "ann", {"user": None, "ended": True})
            tier.signals.publish("context", "ann", {"user": None, "filled": 1.0})
        await stand.write("human", f"Ann, hour {hour}.", writer=BlockAuthor.PERSON)
        tier.signals.publish("conversation", "agt_1", {})
        tier.signals.publish("pulse", "pls_1", {"agent": "agt_1", "status": PulseStatus.SUCCEEDED})
        await tier.agent(asleep=True)
        for _ in range(54):
            stand.clock.advance(60)
            await worker.step()
            await tier.until(lambda found: all(run.status is not PassStatus.RUNNING for run in found))


async def test_only_at_night_is_only_at_night_whatever_else_happens(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), when="nightly", zone="Europe/Berlin")
    await lived(stand, tier, 48)
    found = [(run.trigger.value, (run.started_at or run.created_at).astimezone(BERLIN)) for run in await tier.passes()]
    assert [(trigger, at.hour) for trigger, at in found] == [("schedule", 3)] * 2
    assert len({at.date() for _, at in found}) == 2


async def test_a_bank_that_is_worked_through_by_hand_has_no_other_pass(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), when="manual")
    await lived(stand, tier, 24)
    assert await tier.passes() == []
    assert await tier.gate() == "not_yet"
    await tier.asked()
    await tier.worker("exe2").step()
    assert [run.status for run in await tier.ended()] == [PassStatus.SUCCEEDED]


async def test_weekly_is_each_sunday_over_the_whole_bank(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), when="weekly")
    worker = tier.worker()
    await tier.agent(asleep=True)
    for day in range(15):
        await stand.said(f"{day} one", f"{day} two")
        stand.clock.advance(86_400 - 120)
        await worker.step()
        await tier.until(lambda found: all(not run.is_open for run in found))
    runs = await tier.passes()
    assert [(run.trigger, run.full) for run in runs] == [(Trigger.SCHEDULE, True)] * 2
    assert {run.created_at.isoweekday() for run in runs} <= {7, 1}, "on Sunday, or as soon as it was looked at"


async def midnight(stand: Stand) -> None:
    """Move to the next midnight in UTC."""
    now = stand.clock.now()
    stand.clock.advance((datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=1) - now).total_seconds())


async def test_a_night_that_was_missed_is_not_made_up_for_by_day(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), when="nightly")
    await stand.said("one", "two")
    await midnight(stand)
    stand.clock.advance(6 * 3600 + 1)
    await tier.worker().step()
    assert await tier.passes() == []
    async with stand.store.begin_read() as tx:
        status = await tier.tier.fetch_status(tx, stand.bank)
    assert "03:00" in status.red
    assert "missed" in status.red
    stand.clock.advance(21 * 3600)
    await tier.worker("exe2").step()
    assert [run.trigger for run in await tier.ended()] == [Trigger.SCHEDULE]


async def test_a_nights_pass_that_yields_goes_on_in_that_night_and_not_after_it(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow), when="nightly")
    await stand.said("one", "two", "three", "four")
    await midnight(stand)
    stand.clock.advance(3 * 3600)
    worker = tier.worker()
    await worker.step()
    await slow.asked.wait()
    for _ in range(2):
        tier.signals.publish("turn", "ann", {"user": None})
        await tier.until(lambda found: found[0].status is PassStatus.PENDING)
        stand.clock.advance(300)
        await worker.step()
        assert (await tier.passes())[0].status is PassStatus.PENDING, "somebody still waits for an answer"
        tier.signals.publish("turn", "ann", {"user": None, "ended": True})
        stand.clock.advance(61)
        await worker.step()
        await tier.until(lambda found: found[0].status is PassStatus.RUNNING)
    stand.clock.advance(3 * 3600)  # it is past six
    await worker.step()
    await tier.until(lambda found: found[0].status is not PassStatus.RUNNING)
    stand.clock.advance(61)
    await worker.step()
    (run,) = await tier.ended()
    assert (run.status, run.detail) == (PassStatus.SKIPPED, "its hours are over; the next ones go on with what is left")
    slow.free.set()
    stand.clock.advance(21 * 3600)
    await worker.step()
    assert [run.status for run in await tier.ended(2)] == [PassStatus.SKIPPED, PassStatus.SUCCEEDED]
    assert sorted(note.text for note in await stand.notes()) == ["one two", "three four"]
    assert slow.count == 2, "what was asked in the first night is not asked again"


async def test_a_pass_that_waits_for_a_trigger_that_was_switched_off_meanwhile_ends(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), when="manual")
    await stand.said("one", "two")
    await tier.asked(trigger=Trigger.IDLE)
    await tier.worker().step()
    (run,) = await tier.ended()
    assert (run.status, run.detail) == (PassStatus.SKIPPED, "passes no longer begin for 'idle'")


T0 = datetime(2026, 3, 1, tzinfo=UTC)
WAITING = BankSleepStatus(
    state=SleepState(bank_id=BankId("b")), asleep=False, busy=False, begun=0, rested_at=T0,
    backlog=Backlog(episodes=4, turns=2, importance=0.5, conversations=2, oldest_at=T0, newest_at=T0, last=4),
)  # fmt: skip
ALL_AT_ONCE = replace(
    WAITING,
    backlog=replace(WAITING.backlog, turns=99, importance=99.0, conversations=99),
    asleep=True,
    ended=ActivityEnd(of="pulse", at=T0),
    filled=1.0,
    stale=1.0,
    edited_at=T0,
    scheduled_at=T0,
)
ONLY: dict[str, dict[str, Any]] = {
    "asleep": {"asleep": True},
    "idle": {"idle_seconds": 60},
    "cadence": {"frequency_turns": 5},
    "lag": {"max_lag_minutes": 60},
    "importance": {"importance": 5},
    "ended": {"at_end": True},
    "overflow": {"overflow_share": 0.8},
    "stale": {"stale_share": 0.2},
    "document": {"documents": True},
    "every": {"every_hours": 24},
}


@pytest.mark.parametrize("trigger", ONLY)
@pytest.mark.parametrize("off", [None, False])
def test_each_trigger_can_be_the_only_one_and_can_be_switched_off(trigger: str, off: object) -> None:
    later = T0 + timedelta(days=2)
    known = replace(ALL_AT_ONCE, scheduled_at=None)
    settings = SleeptimeSettings.model_validate({})
    alone = settings.policy_of({"when": "manual", **ONLY[trigger]})
    assert decide_pass(alone, known, later).trigger == trigger
    none = settings.policy_of({"when": "manual", **ONLY[trigger], **dict.fromkeys(ONLY[trigger], off)})
    assert decide_pass(none, known, later).gate is PassBlocker.NOBODY_DUE
    rest = {name: off for other, stated in ONLY.items() if other != trigger for name in stated}
    others_off = settings.policy_of({**ONLY[trigger], **rest})
    assert decide_pass(others_off, known, later).trigger == trigger


@pytest.mark.parametrize("preset", ["nightly", "weekly", "manual"])
def test_no_other_trigger_begins_a_pass_under_these_presets(preset: str) -> None:
    later = T0 + timedelta(days=30)
    policy = SleeptimeSettings.model_validate({"when": preset}).policy_of({})
    assert decide_pass(policy, replace(ALL_AT_ONCE, scheduled_at=None), later).gate is PassBlocker.NOBODY_DUE
    assert decide_pass(policy, ALL_AT_ONCE, later).trigger is Trigger.SCHEDULE


def test_a_bank_that_names_a_preset_has_its_triggers_and_single_ones_can_be_changed() -> None:
    file = SleeptimeSettings.model_validate({"idle_seconds": 20, "frequency_turns": 2, "max_rethinks": 7})
    plain, nightly, coding = (file.policy_of(each) for each in ({}, {"when": "nightly"}, {"when": "coding"}))
    assert (plain.when, plain.idle_seconds, plain.frequency_turns) == ("idle", 20, 2)
    assert (nightly.idle_seconds, nightly.frequency_turns, nightly.asleep) == (None, None, False)
    assert nightly.max_rethinks == 7
    assert (coding.idle_seconds, coding.frequency_turns) == (600, 5)
    older = file.policy_of({"preset": "coding"})
    assert (older.when, older.idle_seconds) == ("coding", 600)
    assert file.policy_of({"when": "coding", "idle_seconds": 900}).idle_seconds == 900
    fleet = SleeptimeSettings.model_validate({"when": "nightly"})
    assert fleet.policy_of({"idle_seconds": 60}).schedules[0].cron == "0 3 * * *"
    assert fleet.policy_of({"when": "idle"}).schedules == ()


@pytest.mark.parametrize(
    ("hours", "conversations", "fires"), [(23.9, 5, False), (24, 4, False), (24, 5, True), (240, 4, False)]
)
@pytest.mark.spec("SLEEP-02")
def test_a_day_and_five_conversations_are_one_trigger(hours: float, conversations: int, fires: bool) -> None:
    stated = {"when": "manual", "every_hours": 24, "conversations": 5}
    policy = SleeptimeSettings.model_validate({}).policy_of(stated)
    known = replace(WAITING, backlog=replace(WAITING.backlog, conversations=conversations))
    verdict = decide_pass(policy, known, T0 + timedelta(hours=hours))
    assert (verdict.trigger is Trigger.EVERY) is fires
    assert verdict.at == (T0 + timedelta(hours=24) if (hours, conversations) == (23.9, 5) else None)


@pytest.mark.spec("SLEEP-02")
def test_the_interval_begins_with_the_last_pass_or_a_turn_that_waited_before_its_end() -> None:
    policy = SleeptimeSettings.model_validate({}).policy_of({"when": "manual", "every_hours": 24})
    known = replace(WAITING, rested_at=T0 + timedelta(hours=2))
    assert decide_pass(policy, known, T0 + timedelta(hours=23)).at == T0 + timedelta(hours=24)
    known = replace(WAITING, rested_at=T0 - timedelta(hours=20))
    assert decide_pass(policy, known, T0 + timedelta(hours=3)).at == T0 + timedelta(hours=4)


@pytest.mark.spec("SLEEP-02")
async def test_conversations_are_counted_anew_after_each_pass(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), when="manual", every_hours=24, conversations=3)
    worker = tier.worker()
    for day, talks in enumerate((2, 1, 2, 3)):
        for talk in range(talks):
            await stand.said(f"{day} {talk} a", f"{day} {talk} b", conversation=f"talk {day}-{talk}")
        stand.clock.advance(86_400)
        await worker.step()
        await tier.until(lambda found: all(not run.is_open for run in found))
        if talks == 1:
            assert [run.trigger for run in await tier.passes()] == [Trigger.EVERY]
    assert [run.trigger for run in await tier.passes()] == [Trigger.EVERY] * 2
