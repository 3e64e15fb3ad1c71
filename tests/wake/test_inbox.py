"""Messages around pulses: each is handled once, still unread, or dead."""

import asyncio
import random
from datetime import timedelta

import pytest

from circadia.ids import MessageId, PulseId
from circadia.records.agent import Agent
from circadia.records.message import DeliveryState
from circadia.records.pulse import PulseStatus
from circadia.records.wake import Charge, WakeReason
from circadia.wake.launchers.base import LaunchResult
from tests.wake.asks import FAILED
from tests.wake.fleet import FREE, LAUNCHED, Fleet


@pytest.mark.spec("WAKE-30")
async def test_a_message_that_was_snoozed_in_a_pulse_comes_back_after_its_time(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)
    sent = await team.send(ann, bob)
    await team.worker.step()
    await team.launcher.wait_for_running(1)
    async with team.store.begin_write() as tx:
        await team.tier.inbox.snooze(tx, bob, [sent.message.id], 3600)
    assert sent.wake is not None
    team.launcher.end(team.launcher.running[0])
    await team.until(sent.wake.pulse_id)
    assert (await team.delivery(bob, sent.message.id)).state is DeliveryState.LEASED
    async with team.store.begin_write() as tx:
        assert await tx.deliveries.release_expired(team.clock.now() + timedelta(hours=1)) == {bob.id}
    assert await team.inbox(bob) == ["help"]


@pytest.mark.spec("WAKE-30")
async def test_a_resident_agent_handles_only_what_it_acknowledges_and_a_look_by_a_person_marks_nothing(
    team: Fleet,
) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob")
    first = await team.send(ann, bob, "one")
    second = await team.send(ann, bob, "two", wake=None)
    assert first.wake is not None
    assert (await team.pulse(first.wake.pulse_id)).status is PulseStatus.RUNNING
    assert first.wake.charge is Charge.CHARGED
    async with team.store.begin_read() as tx:
        await tx.deliveries.fetch_inbox(bob.id)
    assert (await team.delivery(bob, first.message.id)).seen_at is None
    async with team.store.begin_write() as tx:
        await tx.deliveries.mark_seen(bob.id, [first.message.id, second.message.id], team.clock.now())
        await team.tier.inbox.ack(tx, bob, [first.message.id])
    await team.sleep(bob)
    assert (await team.pulse(first.wake.pulse_id)).status is PulseStatus.SUCCEEDED
    assert await team.inbox(bob) == ["two"]
    assert await team.inbox(bob, DeliveryState.HANDLED) == ["one"]


@pytest.mark.spec("WAKE-02")
async def test_a_message_is_stored_after_a_first_one_was_undone(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)

    async def undone() -> None:
        async with team.store.begin_write() as tx:
            await team.tier.inbox.notify(tx, bob, "undone")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await undone()
    for content in ("one", "two"):
        await team.send(ann, bob, content, wake=None)
    assert await team.inbox(bob) == ["one", "two"]


@pytest.mark.spec("WAKE-31")
@pytest.mark.parametrize("seed", range(5))
async def test_a_message_that_comes_at_any_instant_is_in_a_prompt_or_unread(team: Fleet, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    ann, bob = await team.agent("ann", FREE), await team.agent("bob", LAUNCHED, FREE, {"prompt_tokens": 1_000_000})
    sent: list[MessageId] = []

    async def write() -> None:
        for number in range(30):
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            message = await team.send(
                ann, bob, f"m{number:03}", wake=None if chance.random() < 0.7 else WakeReason.BLOCKER
            )
            sent.append(message.message.id)

    async def work() -> None:
        while True:
            await team.worker.step()
            for pulse in team.launcher.running:
                if chance.random() < 0.5:
                    team.launcher.end(pulse)
            await asyncio.sleep(0)

    working = asyncio.create_task(work())
    await write()
    async with asyncio.timeout(60):
        while team.launcher.running or any(not each.ended_at for each in await team.pulses()):
            await asyncio.sleep(0)
    working.cancel()
    prompts = [each.prompt for each in team.launcher.launches]
    unread = set(await team.inbox(bob))
    for number in range(30):
        shown = sum(f"\nm{number:03}\n" in prompt for prompt in prompts)
        assert shown + (f"m{number:03}" in unread) == 1, number


async def operate(team: Fleet, chance: random.Random, ann: Agent, bob: Agent, all_of_it: list[MessageId]) -> None:
    """Do one thing that may happen to bob's messages."""
    what = chance.choice(
        ["send", "wake", "step", "step", "end", "fail", "stop", "crash", "ack", "snooze", "time", "expire"]
    )
    some = [chance.choice(all_of_it)] if all_of_it else []
    if what in ("send", "wake"):
        sent = await team.send(ann, bob, "x", wake=None if what == "send" else WakeReason.BLOCKER)
        all_of_it.append(sent.message.id)
    elif what == "step":
        await team.worker.step()
    elif what in ("end", "fail") and team.launcher.running:
        pulse_id: PulseId = team.launcher.running[0]
        if (await team.pulse(pulse_id)).status is PulseStatus.RUNNING:
            team.launcher.end(pulse_id, FAILED if what == "fail" else LaunchResult(succeeded=True))
            await team.until(pulse_id)
    elif what == "stop":
        await team.stop()
    elif what == "crash":
        team.crash()
    elif what == "ack" and some:
        async with team.store.begin_write() as tx:
            await team.tier.inbox.ack(tx, bob, some)
    elif what == "snooze" and some:
        if (await team.delivery(bob, some[0])).state in (DeliveryState.UNREAD, DeliveryState.LEASED):
            async with team.store.begin_write() as tx:
                await team.tier.inbox.snooze(tx, bob, some, 30)
    elif what == "time":
        team.clock.advance(chance.choice([1, 10, 100]))
    elif what == "expire":
        async with team.store.begin_write() as tx:
            await tx.deliveries.release_expired(team.clock.now())


@pytest.mark.spec("WAKE-30", "WAKE-31")
@pytest.mark.parametrize("seed", range(6))
async def test_after_any_operations_each_message_was_handled_once_is_unread_or_is_dead(team: Fleet, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    ann, bob = await team.agent("ann", FREE), await team.agent("bob", LAUNCHED, FREE)
    all_of_it: list[MessageId] = []
    handled: dict[MessageId, int] = {}

    async def note_handled() -> None:
        async with team.store.begin_read() as tx:
            found = await tx.deliveries.fetch_inbox(bob.id, states=[DeliveryState.HANDLED], limit=1000)
        for each in found:
            handled.setdefault(each.message.id, handled.get(each.message.id, 0) + 1)
        now = {each.message.id for each in found}
        assert set(handled) <= now, "a handled message became something else"

    for _ in range(60):
        await operate(team, chance, ann, bob, all_of_it)
        await note_handled()
    await team.stop()
    await team.worker.step()
    await team.stop()
    team.clock.advance(100)
    async with team.store.begin_write() as tx:
        await tx.deliveries.release_expired(team.clock.now())
    for message in all_of_it:
        delivery = await team.delivery(bob, message)
        assert delivery.state is not DeliveryState.LEASED, delivery
        assert (delivery.ended_at is not None) is (delivery.state in (DeliveryState.HANDLED, DeliveryState.DEAD))
