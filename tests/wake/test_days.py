"""Days of 23, 24 and 25 hours, and clocks that are set."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from circadia.records.pulse import PulseStatus
from circadia.records.wake import Decision
from circadia.wake.scheduling.wall_clock import day_bounds
from tests.wake.asks import rails, woken_once
from tests.wake.fleet import FREE, LAUNCHED, Fleet, fleet


@pytest.mark.spec("WAKE-15")
@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", (2026, 3, 29), 23),
        ("Europe/Berlin", (2026, 10, 25), 25),
        ("America/Sao_Paulo", (2018, 11, 4), 23),  # midnight does not exist
        ("America/Sao_Paulo", (2018, 2, 17), 25),  # 23:00 to 24:00 comes twice
        ("Australia/Lord_Howe", (2026, 4, 5), 24.5),
        ("Pacific/Apia", (2011, 12, 29), 24),  # the day after was left out
        ("UTC", (2026, 3, 29), 24),
    ],
)
def test_a_day_is_as_long_as_it_is_where_the_agent_lives(zone: str, day: tuple[int, int, int], hours: float) -> None:
    noon = datetime(*day, 12, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    start, end = day_bounds(zone, noon)
    assert (end - start) == timedelta(hours=hours)
    assert day_bounds(zone, start) == (start, end)
    assert day_bounds(zone, end - timedelta(microseconds=1)) == (start, end)
    assert day_bounds(zone, end)[0] == end


@pytest.mark.spec("WAKE-15", "WAKE-13")
@pytest.mark.parametrize("midnight", [datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 10, 25, 23, tzinfo=UTC)])
async def test_the_budget_of_the_day_is_fresh_at_midnight_where_the_agent_lives(
    folder: Path, midnight: datetime
) -> None:
    async with fleet(folder, start=midnight - timedelta(seconds=2)) as team:
        ann = await team.agent("ann", asleep=False)
        bob = await team.agent("bob", LAUNCHED, FREE, {"zone": "Europe/Berlin"}, rails(max_wakes_per_day=1))
        assert await woken_once(team, ann, bob) is Decision.ADMITTED
        team.clock.advance(1.999)
        assert await woken_once(team, ann, bob) is Decision.REFUSED
        team.clock.advance(0.001)
        assert await woken_once(team, ann, bob) is Decision.ADMITTED
        assert await woken_once(team, ann, bob) is Decision.REFUSED


@pytest.mark.spec("WAKE-13", "WAKE-20")
async def test_a_clock_that_is_set_back_makes_no_cooldown_longer_and_gives_no_minutes(team: Fleet) -> None:
    ann = await team.agent("ann", asleep=False)
    bob = await team.agent("bob", LAUNCHED, rails(max_daily_session_minutes=10))
    team.at(12)
    wake = await team.ask(ann, bob)
    await team.run(wake.pulse_id, seconds=300)
    waiting = await team.ask(ann, bob)
    assert waiting.decision is Decision.ADMITTED
    await team.run(waiting.pulse_id, seconds=60)
    waiting = await team.ask(ann, bob)
    assert waiting.rule == "cooldown_seconds"
    team.clock.set(-3600)
    await team.worker.step()
    again = await team.wake(waiting)
    assert again.not_before is not None
    assert again.not_before <= team.clock.now() + timedelta(seconds=300)
    team.clock.advance(300)
    await team.worker.step()
    again = await team.wake(waiting)
    assert again.decision is Decision.ADMITTED
    await team.worker.step()
    await team.until(again.pulse_id, PulseStatus.RUNNING)
    team.clock.set(-3600)
    assert again.pulse_id is not None
    team.launcher.end(again.pulse_id)
    await team.until(again.pulse_id)
    team.clock.set(7200)
    async with team.store.begin_read() as tx:
        tally = await tx.wakes.tally(
            bob.id, wake_id=wake.id, sender_id=None, sender_pulse=None, asked_since=team.clock.now(), root_id="x",
            day=day_bounds("UTC", team.clock.now())[0], utc_day=team.clock.now(), now=team.clock.now(),
        )  # fmt: skip
    assert tally.run_seconds_today == 360


@pytest.mark.spec("WAKE-13")
async def test_a_clock_that_is_set_forward_ends_what_waits_and_loses_nothing(team: Fleet) -> None:
    ann, bob = await team.agent("ann", asleep=False), await team.agent("bob", LAUNCHED)
    await woken_once(team, ann, bob)
    waiting = await team.ask(ann, bob)
    team.clock.set(3600)
    await team.worker.step()
    assert (await team.wake(waiting)).decision is Decision.ADMITTED
