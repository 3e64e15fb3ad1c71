"""Wake requests through the one function that decides, on a real database."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.records.agent import Agent
from circadia.records.event import EventType
from circadia.records.message import Priority
from circadia.records.pulse import PulseKind, PulseStatus
from circadia.records.wake import Charge, Decision
from tests.wake.asks import rails, woken_once
from tests.wake.fleet import FREE, LAUNCHED, Fleet, fleet


@pytest.mark.spec("WAKE-02", "WAKE-11")
async def test_a_refused_wake_writes_its_row_and_event_and_keeps_its_message(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, rails(max_wakes_per_day=0))
    sent = await team.send(ann, bob, "read this")
    assert sent.wake is not None
    assert (sent.wake.decision, sent.wake.rule, sent.wake.charge) == (
        Decision.REFUSED, "max_wakes_per_day", Charge.NONE,
    )  # fmt: skip
    assert await team.wake(sent.wake) == sent.wake
    assert await team.inbox(bob) == ["read this"]
    assert await team.pulses() == []
    assert [each.data["decision"] for each in await team.events(EventType.WAKE)] == ["refused"]
    async with team.store.begin_read() as tx:
        tally = await tx.wakes.tally(
            bob.id, wake_id=sent.wake.id, sender_id=ann.id, sender_pulse=None, asked_since=team.clock.now(),
            root_id=sent.wake.root_id, day=team.clock.now(), utc_day=team.clock.now(), now=team.clock.now(),
        )  # fmt: skip
    assert (tally.wakes_today, tally.by_sender_today, tally.last_wake_at, tally.open_pulses) == (0, 0, None, 0)


@pytest.mark.spec("WAKE-03")
async def test_a_key_that_is_used_again_gives_the_same_message_and_request(team: Fleet) -> None:
    ann, bob, cid = await team.agent("ann"), await team.agent("bob", LAUNCHED), await team.agent("cid", LAUNCHED)
    first = await team.send(ann, bob, key="k")
    again = await team.send(ann, bob, key="k")
    assert (again.message.id, again.wake) == (first.message.id, first.wake)
    assert len(await team.wakes()) == len(await team.inbox(bob)) == 1
    with pytest.raises(Conflict, match="another message"):
        await team.send(ann, bob, "other words", key="k")
    with pytest.raises(Conflict, match="another message"):
        await team.send(ann, cid, key="k")
    assert await team.inbox(cid) == []
    other = await team.send(cid, bob, key="k")
    assert other.message.id != first.message.id


@pytest.mark.spec("WAKE-04", "WAKE-06")
async def test_what_cannot_be_sent_is_refused_and_writes_nothing(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)
    with pytest.raises(InvalidRequest, match="itself"):
        await team.send(ann, ann)
    with pytest.raises(NotFound, match="bob"):
        await team.send(ann, replace(bob, name="bop"))
    with pytest.raises(InvalidRequest, match="content"):
        await team.send(ann, bob, " \n")
    with pytest.raises(InvalidRequest, match="characters"):
        await team.send(ann, bob, "x" * 1_000_000)
    with pytest.raises(Forbidden, match="operator"):
        await team.send(ann, bob, override="please")
    async with team.store.begin_write() as tx:
        await team.registry.change(tx, bob, enabled=False, by="operator")
    with pytest.raises(Conflict, match="disabled"):
        await team.send(ann, bob)
    assert await team.wakes() == []
    assert await team.inbox(bob) == []


@pytest.mark.spec("WAKE-06")
@pytest.mark.parametrize(("priority", "asks"), [("low", False), ("normal", False), ("high", True), ("urgent", True)])
async def test_high_and_urgent_messages_ask_for_a_wake_unless_that_is_switched_off(
    team: Fleet, priority: str, asks: bool
) -> None:
    ann, bob, cid = (
        await team.agent("ann"),
        await team.agent("bob", LAUNCHED),
        await team.agent("cid", LAUNCHED, {"wake_on_high_priority": False}),
    )
    sent = await team.send(ann, bob, wake=None, priority=Priority(priority))
    assert (sent.wake is not None) is asks
    assert (await team.send(ann, cid, wake=None, priority=Priority(priority))).wake is None


@pytest.mark.spec("WAKE-17")
async def test_requests_join_a_pulse_that_has_not_begun_and_are_not_charged(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, rails(max_wakes_per_day=1))
    first = await team.ask(ann, bob, "one")
    second = await team.ask(None, bob, "two")
    assert (second.decision, second.pulse_id, second.charge) == (Decision.COALESCED, first.pulse_id, Charge.NONE)
    await team.worker.step()
    await team.launcher.wait_for_launches(1)
    prompt = team.launcher.launches[0].prompt
    assert "one" in prompt
    assert "two" in prompt


@pytest.mark.spec("WAKE-10", "WAKE-17")
async def test_who_may_ask_for_no_wake_does_not_join_a_pulse_either(team: Fleet) -> None:
    ann = await team.agent("ann", rails(max_wakes_per_session=0))
    bob = await team.agent("bob", LAUNCHED, {"pulse_timeout_seconds": 60})
    first = await team.ask(None, bob, "one")
    joins = await team.ask(ann, bob, "two")
    assert (joins.decision, joins.rule, joins.pulse_id) == (Decision.REFUSED, "max_wakes_per_session", None)
    assert (await team.ask(None, bob, "three")).pulse_id == first.pulse_id
    assert await team.inbox(bob) == ["one", "two", "three"]


@pytest.mark.spec("WAKE-17", "WAKE-20", "WAKE-21")
async def test_requests_during_a_pulse_become_one_pulse_right_after_its_end(team: Fleet) -> None:
    ann, bob = await team.agent("ann", FREE), await team.agent("bob", LAUNCHED, FREE)
    first = await team.ask(ann, bob, "one")
    await team.worker.step()
    await team.until(first.pulse_id, PulseStatus.RUNNING)
    later = [await team.ask(ann, bob, f"later {number}") for number in range(3)]
    assert [(each.decision, each.rule) for each in later] == [(Decision.DEFERRED, "busy")] * 3
    await team.worker.step()
    assert (await team.wake(later[0])).decision is Decision.DEFERRED
    assert first.pulse_id is not None
    team.launcher.end(first.pulse_id)
    await team.until(first.pulse_id)
    await team.worker.step()
    decided = [await team.wake(each) for each in later]
    assert [each.decision for each in decided] == [Decision.ADMITTED, Decision.COALESCED, Decision.COALESCED]
    assert len({each.pulse_id for each in decided}) == 1
    await team.launcher.wait_for_launches(2)
    assert all(f"later {number}" in team.launcher.launches[1].prompt for number in range(3))


@pytest.mark.spec("WAKE-20", "WAKE-21", "WAKE-13")
async def test_a_wake_in_the_cooldown_waits_for_its_end_to_the_second(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)
    await woken_once(team, ann, bob)
    team.clock.advance(100)
    wake = await team.ask(ann, bob)
    assert (wake.decision, wake.rule) == (Decision.DEFERRED, "cooldown_seconds")
    assert wake.not_before == team.clock.now() + timedelta(seconds=200)
    team.clock.advance(199)
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.DEFERRED
    team.clock.advance(1)
    await team.new_worker("exe_2").step()  # a restart has forgotten nothing
    assert (await team.wake(wake)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-20")
async def test_a_policy_may_refuse_what_would_wait(team: Fleet) -> None:
    ann = await team.agent("ann")
    bob = await team.agent("bob", LAUNCHED, {"on_cooldown": "refuse", "on_busy": "refuse"})
    wake = await team.ask(ann, bob)
    await team.worker.step()
    await team.until(wake.pulse_id, PulseStatus.RUNNING)
    busy = await team.ask(ann, bob)
    assert (busy.decision, busy.rule) == (Decision.REFUSED, "busy")
    assert wake.pulse_id is not None
    team.launcher.end(wake.pulse_id)
    await team.until(wake.pulse_id)
    cool = await team.ask(ann, bob)
    assert (cool.decision, cool.rule) == (Decision.REFUSED, "cooldown_seconds")


@pytest.mark.spec("WAKE-20", "WAKE-21", "WAKE-42")
async def test_a_wake_in_a_blackout_waits_for_its_end_and_a_shorter_blackout_lets_it_go_at_once(team: Fleet) -> None:
    ann = await team.agent("ann")
    night = {"start": "00:00", "end": "06:00", "label": "night"}
    bob = await team.agent("bob", LAUNCHED, {"blackouts": [night]})
    wake = await team.ask(ann, bob)
    assert (wake.decision, wake.rule) == (Decision.DEFERRED, "blackout")
    assert wake.not_before is not None
    assert (wake.not_before.hour, wake.not_before.minute) == (6, 0)
    team.at(5, 59, 59)
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.DEFERRED
    await team.patch(bob, blackouts=[])
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-16", "WAKE-21")
async def test_a_changed_setting_holds_from_the_next_decision_on_and_looks_again_at_what_waits(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)
    await woken_once(team, ann, bob)
    waiting = await team.ask(ann, bob)
    assert waiting.rule == "cooldown_seconds"
    await team.patch(bob, wake_guardrails={"cooldown_seconds": None})
    await team.worker.step()
    assert (await team.wake(waiting)).decision is Decision.ADMITTED
    await team.run((await team.wake(waiting)).pulse_id)
    await team.patch(bob, wake_guardrails={"max_wakes_per_day": 2})
    assert (await team.ask(ann, bob)).rule == "max_wakes_per_day"
    await team.patch(bob, wake_guardrails={"max_wakes_per_day": None})
    assert (await team.ask(ann, bob)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-22")
async def test_a_deferred_request_expires_to_its_message_and_its_sender_is_told(team: Fleet) -> None:
    ann = await team.agent("ann")
    bob = await team.agent("bob", LAUNCHED, rails(cooldown_seconds=200_000))
    await woken_once(team, ann, bob)
    sent = await team.send(ann, bob, "still here")
    wake = sent.wake
    assert wake is not None
    assert wake.expires_at == team.clock.now() + timedelta(days=1)
    team.clock.advance(86_399)
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.DEFERRED
    team.clock.advance(1)
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.EXPIRED
    assert await team.inbox(bob) == ["still here"]
    assert "expired" in (await team.inbox(ann))[0]


@pytest.mark.spec("WAKE-22", "WAKE-21")
async def test_the_sender_is_told_when_a_deferred_request_is_refused_after_all(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, FREE)
    await team.sleep(bob, False)
    wake = await team.ask(ann, bob)
    assert wake.decision is Decision.DEFERRED
    await team.patch(bob, wake_guardrails={"max_wakes_per_day": 0})
    await team.sleep(bob)
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.REFUSED
    assert await team.inbox(bob) == ["help"]
    (told,) = await team.inbox(ann)
    assert told == (
        "Your wake of bob (blocker) was refused: limit reached: 0 wakes a day. Its message is in the inbox there."
    )


@pytest.mark.spec("WAKE-25")
async def test_priority_then_age_decides_among_those_that_wait_and_waiting_adds_to_the_priority(team: Fleet) -> None:
    ann = await team.agent("ann")
    bob = await team.agent("bob", LAUNCHED, FREE, rails(max_wakes_per_day=1))
    await team.sleep(bob, False)  # busy with the operator
    old = await team.ask(ann, bob, wake=None, priority=Priority.HIGH)
    team.clock.advance(60)
    first = await team.ask(ann, bob, wake=None, priority=Priority.URGENT)
    team.clock.advance(60)
    await team.ask(ann, bob, wake=None, priority=Priority.URGENT)
    await team.sleep(bob)
    await team.worker.step()
    assert [each.id for each in await team.wakes(Decision.ADMITTED)] == [first.id]
    assert (await team.wake(old)).decision is Decision.COALESCED

    cid = await team.agent("cid", LAUNCHED, FREE)
    await team.sleep(cid, False)
    old = await team.ask(ann, cid, wake=None, priority=Priority.HIGH)
    team.clock.advance(601)
    await team.ask(ann, cid, wake=None, priority=Priority.URGENT)
    await team.sleep(cid)
    await team.worker.step()
    assert (await team.wake(old)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-18")
async def test_a_person_lets_a_wake_pass_and_that_is_recorded(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, rails(max_wakes_per_day=0))
    assert (await team.ask(None, bob)).decision is Decision.REFUSED
    wake = await team.ask(None, bob, override="the site is down")
    assert (wake.decision, wake.rule) == (Decision.ADMITTED, "max_wakes_per_day")
    assert wake.overridden_by == "operator: the site is down"
    assert (await team.events(EventType.WAKE))[-1].data["overridden_by"] == "operator: the site is down"
    assert [each.rule for each in wake.trace if not each.passed] == ["max_wakes_per_day"]
    assert (await team.pulse(wake.pulse_id)).kind is PulseKind.MANUAL


@pytest.mark.spec("WAKE-10")
async def test_the_limit_of_asks_in_a_pulse_is_the_senders_own_and_a_new_pulse_begins_anew(team: Fleet) -> None:
    ann = await team.agent("ann", LAUNCHED, FREE, rails(max_wakes_per_session=2))
    others = [await team.agent(f"b{number}", LAUNCHED, FREE) for number in range(4)]
    first = await team.ask(None, ann)
    await team.worker.step()
    await team.until(first.pulse_id, PulseStatus.RUNNING)
    asked = [await team.ask(ann, each, pulse=first.pulse_id) for each in others]
    assert [each.decision for each in asked] == [Decision.ADMITTED] * 2 + [Decision.REFUSED] * 2
    assert asked[2].rule == "max_wakes_per_session"
    assert first.pulse_id is not None
    team.launcher.end(first.pulse_id)
    await team.until(first.pulse_id)
    team.clock.advance(1)
    second = await team.ask(None, ann)
    await team.worker.step()
    await team.until(second.pulse_id, PulseStatus.RUNNING)
    assert (await team.ask(ann, others[2], pulse=second.pulse_id)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-10", "WAKE-23")
async def test_a_pulse_that_is_tried_again_may_not_ask_anew(team: Fleet) -> None:
    ann = await team.agent("ann", LAUNCHED, FREE, rails(max_wakes_per_session=1))
    bob, cid = await team.agent("bob", LAUNCHED, FREE), await team.agent("cid", LAUNCHED, FREE)
    first = await team.ask(None, ann)
    await team.worker.step()
    await team.until(first.pulse_id, PulseStatus.RUNNING)
    team.clock.advance(1)
    assert (await team.ask(ann, bob, pulse=first.pulse_id)).decision is Decision.ADMITTED
    team.crash()
    await team.worker.step()
    team.clock.advance(10)
    await team.worker.step()
    await team.until(first.pulse_id, PulseStatus.RUNNING)
    assert (await team.ask(ann, cid, pulse=first.pulse_id)).rule == "max_wakes_per_session"


@pytest.mark.spec("WAKE-20", "WAKE-10")
async def test_a_deferred_wake_does_not_fail_by_what_its_sender_asks_for_later(team: Fleet) -> None:
    ann = await team.agent("ann", FREE, rails(max_wakes_per_session=2), asleep=False)
    bob = await team.agent("bob", LAUNCHED, FREE)
    others = [await team.agent(f"b{number}", LAUNCHED, FREE) for number in range(4)]
    await team.sleep(bob, False)
    waiting = await team.ask(ann, bob)
    for each in others:
        team.clock.advance(1)
        await team.sleep(ann)
        await team.sleep(ann, False)
        assert (await team.ask(ann, each)).decision is Decision.ADMITTED
    await team.sleep(bob)
    await team.worker.step()
    assert (await team.wake(waiting)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-21")
async def test_a_place_in_the_fleet_goes_at_once_to_whoever_waits_for_one(folder: Path) -> None:
    async with fleet(folder, settings={"fleet": {"max_concurrent_pulses": 1}}) as team:
        ann, bob, cid = [await team.agent(name, LAUNCHED, FREE) for name in ("ann", "bob", "cid")]
        first = await team.ask(None, ann)
        low = await team.ask(None, bob, wake=None, priority=Priority.HIGH)
        urgent = await team.ask(None, cid)
        assert (low.decision, low.rule) == (Decision.DEFERRED, "fleet")
        await team.run(first.pulse_id)
        await team.worker.step()
        assert (await team.wake(urgent)).decision is Decision.ADMITTED
        assert (await team.wake(low)).decision is Decision.DEFERRED


@pytest.mark.spec("WAKE-21", "WAKE-56")
async def test_an_agent_that_was_awake_from_the_start_is_woken_as_soon_as_it_sleeps(team: Fleet) -> None:
    ann, bob = await team.agent("ann", asleep=False), await team.agent("bob", asleep=False)
    wake = await team.ask(ann, bob)
    assert wake.rule == "busy"
    await team.worker.step()
    await team.sleep(bob)
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.ADMITTED
    assert not (await team.row(bob)).asleep


@pytest.mark.spec("WAKE-20", "WAKE-22")
async def test_what_waits_for_an_agent_that_is_deleted_or_whose_message_was_read_is_closed(team: Fleet) -> None:
    ann, bob, cid = [await team.agent(each, asleep=False) for each in ("ann", "bob", "cid")]
    read, gone = await team.send(ann, bob), await team.ask(ann, cid)
    assert read.wake is not None
    async with team.store.begin_write() as tx:
        await team.tier.inbox.ack(tx, bob, [read.message.id])
        await team.registry.delete(tx, cid, by="operator")
    await team.worker.step()
    assert (await team.wake(gone)).decision is Decision.CANCELLED
    assert await team.inbox(ann) == ["Your wake of cid (blocker) was cancelled: the agent was deleted."]
    team.clock.advance(61)
    await team.worker.step()
    assert (await team.wake(read.wake)).decision is Decision.COALESCED


@pytest.mark.spec("WAKE-71")
async def test_a_deferred_request_can_be_taken_back_once(team: Fleet) -> None:
    ann, bob = await team.agent("ann", asleep=False), await team.agent("bob", asleep=False)
    wake = await team.ask(ann, bob)
    async with team.store.begin_write() as tx:
        await team.tier.requests.cancel(tx, wake, bob, by="operator")
    assert (await team.wake(wake)).decision is Decision.CANCELLED
    with pytest.raises(Conflict):
        async with team.store.begin_write() as tx:
            await team.tier.requests.cancel(tx, wake, bob, by="operator")
    await team.sleep(bob)
    await team.worker.step()
    assert (await team.row(bob)).asleep


@pytest.mark.spec("WAKE-12")
@pytest.mark.parametrize("cap", [0, 1, 5])
async def test_asks_that_race_against_a_budget_admit_exactly_the_budget(team: Fleet, cap: int) -> None:
    bob = await team.agent("bob", FREE, rails(max_wakes_per_day=cap), {"on_busy": "refuse"})
    senders = [await team.agent(f"s{number}", asleep=False) for number in range(20)]

    async def ask(sender: Agent) -> Decision:
        wake = await team.ask(sender, bob)
        if wake.decision is Decision.ADMITTED:
            await team.sleep(bob)
        return wake.decision

    for _ in range(cap + 1):  # each admits one at least, as long as there is one to admit
        await asyncio.gather(*(ask(sender) for sender in senders))
    assert len(await team.wakes(Decision.ADMITTED)) == cap


@pytest.mark.spec("WAKE-16")
@pytest.mark.parametrize("key", ["cooldown_seconds", "max_wakes_per_day", "max_daily_session_minutes"])
async def test_a_negative_limit_is_refused(team: Fleet, key: str) -> None:
    bob = await team.agent("bob")
    with pytest.raises(InvalidRequest, match=key):
        await team.patch(bob, wake_guardrails={key: -1})
