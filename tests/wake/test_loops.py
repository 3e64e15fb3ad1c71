"""Agents that wake each other: chains, rings and the stories of the source design stop by rule."""

import pytest

from circadia.records.message import DeliveryState
from circadia.records.pulse import PulseStatus
from circadia.records.wake import Decision
from tests.wake.asks import rails, woken_once
from tests.wake.fleet import FREE, LAUNCHED, NO_LIMITS, Fleet


@pytest.mark.spec("WAKE-61", "WAKE-60")
@pytest.mark.parametrize("mode", ["directed", "undirected"])
async def test_a_ping_pong_stops_at_the_limit_of_the_pair(team: Fleet, mode: str) -> None:
    limits = {**NO_LIMITS, "max_wakes_per_pair_per_day": 5, "pair_mode": mode}
    ann, bob = await team.agent("ann", LAUNCHED, rails(**limits)), await team.agent("bob", LAUNCHED, rails(**limits))
    kick = await team.ask(None, ann, "begin")
    admitted, pulse = 0, kick.pulse_id
    sender, other = ann, bob
    while True:
        await team.worker.step()
        await team.until(pulse, PulseStatus.RUNNING)
        wake = await team.ask(sender, other, f"your turn {admitted}", pulse=pulse)
        assert wake.root_id == kick.root_id
        assert wake.depth == admitted + 2
        assert pulse is not None
        team.launcher.end(pulse)
        await team.until(pulse)
        if wake.decision is not Decision.ADMITTED:
            break
        admitted, pulse, sender, other = admitted + 1, wake.pulse_id, other, sender
    assert (wake.decision, wake.rule) == (Decision.REFUSED, "max_wakes_per_pair_per_day")
    assert admitted == (10 if mode == "directed" else 5)
    assert await team.inbox(other) == [f"your turn {admitted}"]


@pytest.mark.spec("WAKE-61")
async def test_the_thirteenth_wake_in_an_incident_is_refused_and_its_message_is_there(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, rails(cooldown_seconds=0))
    senders = [await team.agent(f"s{number}", asleep=False) for number in range(13)]
    decided = [await woken_once(team, sender, bob, content=sender.name) for sender in senders]
    assert decided == [Decision.ADMITTED] * 12 + [Decision.REFUSED]
    assert (await team.wakes())[-1].rule == "max_wakes_per_day"
    assert await team.inbox(bob) == ["s12"]
    assert len(await team.inbox(bob, DeliveryState.HANDLED)) == 12


@pytest.mark.spec("WAKE-60")
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(
    ("limits", "rule", "per_agent"),
    [
        ({"max_wakes_per_pair_per_day": 5}, "max_wakes_per_pair_per_day", 5),
        ({"max_chain_visits": 3}, "max_chain_visits", 3),
    ],
)
async def test_a_ring_stops_at_exactly_the_count_that_the_settings_give(
    team: Fleet, size: int, limits: dict[str, object], rule: str, per_agent: int
) -> None:
    ring = [await team.agent(f"r{number}", LAUNCHED, FREE, rails(**limits)) for number in range(size)]
    wake = await team.ask(None, ring[0])
    count = 0
    while wake.decision is Decision.ADMITTED:
        count += 1
        await team.worker.step()
        await team.until(wake.pulse_id, PulseStatus.RUNNING)
        following = await team.ask(ring[(count - 1) % size], ring[count % size], pulse=wake.pulse_id)
        assert wake.pulse_id is not None
        team.launcher.end(wake.pulse_id)
        await team.until(wake.pulse_id)
        wake = following
    assert (wake.decision, wake.rule) == (Decision.REFUSED, rule)
    # A person's first wake is a visit of the chain, but of no pair.
    assert count == size * per_agent + (1 if "pair" in rule else 0)


@pytest.mark.spec("WAKE-60", "WAKE-10")
async def test_a_chain_ends_at_its_depth(team: Fleet) -> None:
    ring = [await team.agent(f"r{number}", LAUNCHED, FREE, rails(max_chain_depth=7)) for number in range(2)]
    wake = await team.ask(None, ring[0])
    count = 0
    while wake.decision is Decision.ADMITTED:
        count += 1
        await team.worker.step()
        await team.until(wake.pulse_id, PulseStatus.RUNNING)
        following = await team.ask(ring[(count - 1) % 2], ring[count % 2], pulse=wake.pulse_id)
        assert wake.pulse_id is not None
        team.launcher.end(wake.pulse_id)
        await team.until(wake.pulse_id)
        wake = following
    assert (count, wake.rule, wake.depth) == (7, "max_chain_depth", 8)
