"""Pulses, from their admission to their end, with the worker and a launcher that a test ends."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from circadia.agents.identity import Identity
from circadia.errors import Unauthenticated
from circadia.ids import PulseId, hash_token
from circadia.records.event import EventType
from circadia.records.message import DeliveryState
from circadia.records.pulse import PulseKind, PulseStatus
from circadia.records.wake import Charge, Decision
from circadia.wake.launchers.base import Launch, LaunchFailed, LaunchResult
from tests.wake.asks import FAILED, running
from tests.wake.fleet import FREE, LAUNCHED, Fleet, fleet

EVERY_SECONDS = 1.0
AT_ONCE = 100


@pytest.mark.spec("WAKE-50", "WAKE-14", "WAKE-30", "WAKE-52", "WAKE-56")
async def test_a_pulse_is_taken_started_and_ended_and_its_messages_are_handled(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)
    wake = await team.ask(ann, bob, "the build is red")
    pending = await team.pulse(wake.pulse_id)
    assert (pending.status, pending.kind, wake.charge) == (PulseStatus.PENDING, PulseKind.WAKE, Charge.RESERVED)
    assert (await team.row(bob)).asleep
    await team.worker.step()
    pulse = await team.until(wake.pulse_id, PulseStatus.RUNNING)
    assert (pulse.attempt, pulse.owner, (await team.wake(wake)).charge) == (1, "exe_1", Charge.CHARGED)
    assert not (await team.row(bob)).asleep
    assert await team.inbox(bob, DeliveryState.LEASED) == ["the build is red"]
    launch = team.launcher.launches[0]
    assert "You were woken by ann (blocker)" in launch.prompt
    assert "the build is red" in launch.prompt
    team.clock.advance(30)
    team.launcher.end(pulse.id)
    ended = await team.until(pulse.id)
    assert (ended.status, ended.ended_at, ended.token_hash) == (PulseStatus.SUCCEEDED, team.clock.now(), None)
    assert await team.inbox(bob, DeliveryState.HANDLED) == ["the build is red"]
    assert (await team.row(bob)).asleep
    assert (await team.wake(wake)).charge is Charge.CHARGED
    assert [each.data["status"] for each in await team.events(EventType.PULSE)] == [
        "pending", "starting", "running", "succeeded",
    ]  # fmt: skip


@pytest.mark.spec("WAKE-52")
async def test_the_token_of_a_pulse_opens_doors_from_its_start_to_its_end_and_no_longer(team: Fleet) -> None:
    identity = Identity(team.store, team.signals, admin_token_hashes=[hash_token("operator")])
    bob = await team.agent("bob", LAUNCHED)
    _, pulse = await running(team, bob)
    launch = team.launcher.launches[0]
    assert launch.environment["CIRCADIA_TOKEN"] == launch.token
    principal = await identity.authenticate(launch.token)
    assert principal.agent is not None
    assert (principal.agent.id, principal.pulse_id) == (bob.id, pulse.id)
    team.launcher.end(pulse.id)
    await team.until(pulse.id)
    with pytest.raises(Unauthenticated):
        await identity.authenticate(launch.token)


@pytest.mark.spec("WAKE-54", "WAKE-30")
async def test_a_pulse_that_fails_leaves_its_messages_unread_and_tells_who_woke_it(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)
    wake, pulse = await running(team, bob, ann)
    team.launcher.end(pulse.id, FAILED)
    assert (await team.until(pulse.id)).status is PulseStatus.FAILED
    assert await team.inbox(bob) == ["help"]
    told = (await team.inbox(ann))[0]
    assert "bob" in told
    assert "exit status 1" in told
    assert (await team.wake(wake)).charge is Charge.CHARGED


@pytest.mark.spec("WAKE-14", "WAKE-54")
async def test_a_pulse_that_cannot_be_started_is_not_charged(team: Fleet) -> None:
    ann = await team.agent("ann")
    bob = await team.agent("bob", LAUNCHED, {"wake_guardrails": {"max_wakes_per_day": 1}})
    team.launcher.script.append(LaunchFailed("no such program"))
    wake = await team.ask(ann, bob)
    await team.worker.step()
    ended = await team.until(wake.pulse_id)
    assert (ended.status, ended.started_at) == (PulseStatus.FAILED, None)
    assert "no such program" in ended.detail
    assert (await team.wake(wake)).charge is Charge.RELEASED
    assert await team.inbox(bob) == ["help"]
    assert (await team.ask(ann, bob)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-50", "WAKE-52")
@pytest.mark.parametrize("said", ["a\0b", "half \ud800", "the end\udfff\0"])
async def test_a_pulse_ends_whatever_its_launcher_says_and_no_record_holds_its_token(team: Fleet, said: str) -> None:
    bob, cid = await team.agent("bob", LAUNCHED), await team.agent("cid", LAUNCHED)
    team.launcher.script.append(LaunchFailed(f"it answered {said}"))
    refused = await team.ask(await team.agent("ann"), bob)
    await team.worker.step()
    ended = await team.until(refused.pulse_id)
    assert (ended.status, "it answered" in ended.detail) == (PulseStatus.FAILED, True)
    _, pulse = await running(team, cid)
    token = team.launcher.launches[-1].token
    team.launcher.end(pulse.id, LaunchResult(succeeded=False, detail=f"{said} with {token}"))
    assert (await team.until(pulse.id)).detail.endswith("with [redacted]")
    assert token not in str(await team.events(EventType.PULSE))


@pytest.mark.spec("WAKE-74", "WAKE-14")
async def test_the_event_of_a_pulse_that_never_ran_tells_how_many_wakes_it_gives_back(team: Fleet) -> None:
    ann, bob, cid = await team.agent("ann"), await team.agent("bob", LAUNCHED), await team.agent("cid", LAUNCHED)
    first = await team.ask(ann, bob)
    await team.ask(ann, bob, "joined, and was never charged")
    async with team.store.begin_write() as tx:
        await team.tier.pulses.cancel(tx, await team.pulse(first.pulse_id), by="operator")
    _, pulse = await running(team, cid, ann)
    team.launcher.end(pulse.id, FAILED)
    await team.until(pulse.id)
    told = [each.data for each in await team.events(EventType.PULSE) if each.data["released"]]
    assert [(each["pulse"], each["status"], each["released"]) for each in told] == [(first.pulse_id, "cancelled", 1)]


@pytest.mark.spec("WAKE-54", "WAKE-14", "WAKE-02")
@pytest.mark.parametrize("asked", [1, 2])
async def test_a_wake_whose_agent_is_disabled_before_the_start_is_told_and_keeps_its_message(
    team: Fleet, asked: int
) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)
    wake, *_ = [await team.ask(ann, bob, f"help {number}") for number in range(asked)]
    async with team.store.begin_write() as tx:
        await team.registry.change(tx, await team.row(bob), enabled=False, by="operator")
    await team.worker.step()
    ended = await team.until(wake.pulse_id)
    assert (ended.status, (await team.wake(wake)).charge) == (PulseStatus.CANCELLED, Charge.RELEASED)
    (told,) = await team.inbox(ann)
    assert "bob was woken for you" in told
    assert "disabled" in told
    assert await team.inbox(bob) == [f"help {number}" for number in range(asked)]
    assert team.launcher.launches == []


@pytest.mark.spec("WAKE-51", "WAKE-54")
async def test_a_pulse_waits_for_a_worker_that_has_its_launcher_while_others_run(team: Fleet) -> None:
    bob, cid = await team.agent("bob", {"launcher": "missing"}), await team.agent("cid", LAUNCHED)
    wake, other = await team.ask(None, bob), await team.ask(None, cid)
    for _ in range(3):
        await team.worker.step()
        team.clock.advance(60)
    await team.until(other.pulse_id, PulseStatus.RUNNING)
    waiting = await team.pulse(wake.pulse_id)
    assert (waiting.status, waiting.owner, waiting.epoch) == (PulseStatus.PENDING, None, 0)
    team.launchers["missing"] = team.launcher
    assert (await team.run(wake.pulse_id)).status is PulseStatus.SUCCEEDED


@pytest.mark.spec("WAKE-51", "WAKE-50")
@pytest.mark.parametrize("error", [TimeoutError("its own"), ZeroDivisionError(), RuntimeError("x")])
@pytest.mark.parametrize("limit", [None, 3600])
async def test_a_launcher_that_breaks_ends_its_pulse_and_no_other(
    team: Fleet, error: Exception, limit: float | None
) -> None:
    bob = await team.agent("bob", {"launcher": "missing", "pulse_timeout_seconds": limit}, FREE)
    cid = await team.agent("cid", LAUNCHED)
    team.launchers["missing"] = _Broken(error)
    wake = await team.ask(None, bob)
    await team.worker.step()
    ended = await team.until(wake.pulse_id)
    assert ended.status is PulseStatus.FAILED
    assert type(error).__name__ in ended.detail
    await running(team, cid)


class _Broken:
    """A launcher that raises what it never should."""

    kind = "broken"

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        """Raise it."""
        raise self._error

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Raise it too."""
        raise self._error


@pytest.mark.spec("WAKE-54", "WAKE-20")
async def test_five_failures_in_a_row_open_the_circuit_and_a_person_still_gets_through(team: Fleet) -> None:
    ann, bob = await team.agent("ann", FREE), await team.agent("bob", LAUNCHED, FREE)
    for _ in range(5):
        _, pulse = await running(team, bob, ann)
        team.launcher.end(pulse.id, FAILED)
        await team.until(pulse.id)
        team.clock.advance(1)
    wake = await team.ask(ann, bob)
    assert (wake.decision, wake.rule) == (Decision.DEFERRED, "circuit")
    team.clock.advance(899)
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.ADMITTED
    pulse = await team.until(wake.pulse_id or (await team.wake(wake)).pulse_id, PulseStatus.RUNNING)
    team.launcher.end(pulse.id)
    await team.until(pulse.id)
    assert (await team.ask(ann, bob)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-50", "WAKE-14")
@pytest.mark.parametrize("when", ["pending", "running"])
async def test_a_cancelled_pulse_is_stopped_and_its_messages_are_unread(team: Fleet, when: str) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED)
    wake = await team.ask(ann, bob)
    if when == "running":
        await team.worker.step()
        await team.until(wake.pulse_id, PulseStatus.RUNNING)
    async with team.store.begin_write() as tx:
        await team.tier.pulses.cancel(tx, await team.pulse(wake.pulse_id), by="operator")
    assert (await team.pulse(wake.pulse_id)).status is PulseStatus.CANCELLED
    await team.launcher.wait_for_running(0)
    await team.worker.step()
    assert len(team.launcher.launches) == len(team.launcher.cancelled) == (1 if when == "running" else 0)
    assert await team.inbox(bob) == ["help"]
    assert await team.inbox(ann) == []
    assert (await team.wake(wake)).charge is (Charge.CHARGED if when == "running" else Charge.RELEASED)


@pytest.mark.spec("WAKE-50", "WAKE-56", "WAKE-10")
@pytest.mark.parametrize("how", ["resident", "pending", "running"])
async def test_an_agent_that_is_deleted_leaves_no_pulse_and_its_place_in_the_fleet(folder: Path, how: str) -> None:
    async with fleet(folder, settings={"fleet": {"max_concurrent_pulses": 1}}) as team:
        ann, cid = await team.agent("ann"), await team.agent("cid", LAUNCHED)
        bob = await team.agent("bob", FREE, *([] if how == "resident" else [LAUNCHED]))
        wake = await team.ask(ann, bob)
        if how == "running":
            await team.worker.step()
            await team.until(wake.pulse_id, PulseStatus.RUNNING)
        waiting = await team.ask(ann, cid)
        assert waiting.rule == "fleet"
        async with team.store.begin_write() as tx:
            await team.registry.delete(tx, await team.row(bob), by="operator")
        pulse = await team.pulse(wake.pulse_id)
        assert (pulse.status, pulse.detail) == (PulseStatus.CANCELLED, "its agent was deleted")
        assert (await team.wake(wake)).charge is (Charge.RELEASED if how == "pending" else Charge.CHARGED)
        await team.launcher.wait_for_running(0)
        await team.worker.step()
        assert (await team.wake(waiting)).decision is Decision.ADMITTED
        assert len(team.launcher.cancelled) == (1 if how == "running" else 0)


@pytest.mark.spec("WAKE-21")
async def test_the_worker_hears_of_an_end_without_waiting_for_its_next_look(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, FREE)
    working = asyncio.create_task(team.worker.run())
    try:
        first = await team.ask(ann, bob)
        await team.until(first.pulse_id, PulseStatus.RUNNING)
        second = await team.ask(ann, bob)
        assert first.pulse_id is not None
        team.launcher.end(first.pulse_id)
        await team.launcher.wait_for_launches(2)  # the clock stands still: no timer has helped
        assert (await team.wake(second)).decision is Decision.ADMITTED
        assert EVERY_SECONDS <= 1.0
    finally:
        working.cancel()


@pytest.mark.spec("WAKE-50", "WAKE-23")
async def test_more_pulses_than_one_claim_takes_all_start_at_the_same_look(team: Fleet) -> None:
    for number in range(101):
        await team.ask(None, await team.agent(f"a{number}", LAUNCHED, FREE))
    team.crash()  # the new process has heard of none of them
    working = asyncio.create_task(team.worker.run())
    try:
        async with asyncio.timeout(60):  # the clock stands still: no timer helps
            await team.launcher.wait_for_launches(101)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
