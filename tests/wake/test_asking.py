"""How many wakes one agent may ask for: in a pulse, in a time awake, and in a day of one that never sleeps."""

from datetime import timedelta
from typing import Any

import pytest

from circadia.agents.chains import fetch_agent_place
from circadia.records.agent import Agent
from circadia.records.pulse import PulseStatus
from circadia.records.wake import Decision, GuardrailCounts, Wake
from circadia.stores.sql.wakes import Wakes
from circadia.testing.clock import START
from circadia.wake.admission.budgets import fetch_budgets
from tests.wake.asks import rails
from tests.wake.fleet import FREE, LAUNCHED, Fleet

pytestmark = pytest.mark.spec("WAKE-10")


async def asked(team: Fleet, ann: Agent, number: int) -> list[Wake]:
    """Ask for wakes of so many others, a minute apart."""
    made: list[Wake] = []
    for _ in range(number):
        other = await team.agent(f"b{len(await team.wakes())}", LAUNCHED, FREE)
        made.append(await team.ask(ann, other))
        team.clock.advance(60)
    return made


def admitted(wakes: list[Wake]) -> list[bool]:
    return [each.decision is Decision.ADMITTED for each in wakes]


async def left(team: Fleet, ann: Agent) -> float | None:
    """Return how many wakes the agent may still ask for."""
    row = await team.row(ann)
    async with team.store.begin_read() as tx:
        place = await fetch_agent_place(tx, row)
        budget = (await fetch_budgets(tx, row, team.clock.now(), sender=row, place=place)).session
    assert budget is not None
    return budget.remaining


@pytest.mark.spec("WAKE-05")
@pytest.mark.parametrize("way", ["never slept", "was woken by a person", "was woken without a time limit"])
async def test_an_agent_that_never_sleeps_may_ask_anew_each_day_of_its_zone(team: Fleet, way: str) -> None:
    ann = await team.agent("ann", rails(max_wakes_per_session=2), {"zone": "America/New_York"}, asleep=False)
    if way == "was woken by a person":
        await team.sleep(ann)
        await team.sleep(ann, False)
    elif way == "was woken without a time limit":
        await team.sleep(ann)
        await team.patch(ann, pulse_timeout_seconds=None, **rails(max_daily_session_minutes=None))
        assert (await team.ask(None, ann)).decision is Decision.ADMITTED
    first = await asked(team, ann, 3)
    assert admitted(first) == [True, True, False]
    midnight = START + timedelta(hours=5)
    assert (first[2].rule, first[2].not_before) == ("max_wakes_per_session", midnight)
    assert "when it has slept, or from 2026-01-01T05:00:00+00:00 on" in first[2].detail
    team.at(4, 58)
    assert admitted(await asked(team, ann, 1)) == [False]
    assert await left(team, ann) == 0
    team.at(5)
    assert await left(team, ann) == 2
    assert admitted(await asked(team, ann, 3)) == [True, True, False]
    await team.sleep(ann)
    await team.sleep(ann, False)
    assert admitted(await asked(team, ann, 3)) == [True, True, False]


async def test_a_pulse_with_a_time_limit_may_not_ask_anew_at_midnight(team: Fleet) -> None:
    ann = await team.agent("ann", LAUNCHED, FREE, rails(max_wakes_per_session=2), {"zone": "Asia/Tokyo"})
    team.at(14, 50)
    wake = await team.ask(None, ann)
    await team.worker.step()
    await team.until(wake.pulse_id, PulseStatus.RUNNING)
    assert admitted(await asked(team, ann, 2)) == [True, True]
    team.at(15, 10)
    (late,) = await asked(team, ann, 1)
    assert (late.rule, late.not_before) == ("max_wakes_per_session", None)
    assert "in its next pulse" in late.detail


@pytest.mark.spec("WAKE-10")
async def test_what_a_sender_without_a_limit_asks_for_costs_no_more_with_each(
    team: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    tally = Wakes.tally

    async def count(self: Wakes, *of: Any, **more: Any) -> GuardrailCounts:
        counts = await tally(self, *of, **more)
        counted.append(counts.asked_in_session)
        return counts

    monkeypatch.setattr(Wakes, "tally", count)
    ann = await team.agent("ann", FREE, rails(max_wakes_per_session=None), asleep=False)
    assert all(admitted(await asked(team, ann, 105)))
    assert (len(counted), max(counted)) == (105, 100)
    assert await left(team, ann) is None
    assert counted[-1] == 100
