"""When passes begin: each trigger of the sleep tier in a bank of its own, beside others that have none."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from tests.fixtures.leap_clock import START, LeapClock
from tests.gateway.bound_agent import chat, token_of
from tests.interaction.live import Live

MINUTE, HOUR = 60, 3600
BERLIN = [{"cron": "0 5 * * *", "zone": "Europe/Berlin"}]
OFF = {
    "asleep": False, "at_end": False, "documents": False, "idle_seconds": None, "frequency_turns": 0, "importance": 0,
    "overflow_share": 0, "stale_share": 0, "max_lag_minutes": None,
}  # fmt: skip
TRIGGERS: dict[str, tuple[dict[str, Any], str | None, float]] = {
    "quiet": ({}, None, 0),
    "off": ({"when": "idle", **OFF}, None, 0),
    "asleep": ({"asleep": True}, "asleep", 0),
    "cadence": ({"frequency_turns": 1}, "cadence", 0),
    "importance": ({"importance": 0.1}, "importance", 0),
    "ended": ({"at_end": True}, "ended", 0),
    "overflow": ({"overflow_share": 0.01}, "overflow", 0),
    "stale": ({"stale_share": 0.1}, "stale", 0),
    "document": ({"documents": True}, "document", 0),
    "conversations": ({"conversations": 1}, "every", 0),
    "lag": ({"max_lag_minutes": 30}, "lag", 30 * MINUTE),
    "every": ({"every_hours": 2}, "every", 2 * HOUR),
    "schedule": ({"schedules": BERLIN}, "schedule", 4 * HOUR),
    "zone": ({"zone": "Asia/Kolkata", "schedules": [{"cron": "30 8 * * *"}]}, "schedule", 3 * HOUR),
}
"""By bank: its triggers, what begins its first pass, and after how long at the earliest."""
LONG = "What is the plan? " * 400
"""Some 1,600 tokens, of the 128,000 of the model's context."""


@pytest.mark.setting(
    "sleeptime.asleep", "sleeptime.frequency_turns", "sleeptime.importance", "sleeptime.at_end",
    "sleeptime.overflow_share", "sleeptime.stale_share", "sleeptime.documents", "sleeptime.conversations",
    "sleeptime.max_lag_minutes", "sleeptime.every_hours", "sleeptime.schedules", "sleeptime.schedules.cron",
    "sleeptime.schedules.zone", "sleeptime.zone",
    banks={name: {"sleeptime": stated} for name, (stated, _, _) in TRIGGERS.items()},
    agents={name: {"token_env": name.upper(), "bank": name} for name in TRIGGERS},
    environment={name.upper(): token_of(name) for name in TRIGGERS},
    sleeptime={"when": "manual", "model": "none"},
)  # fmt: skip
async def test_each_trigger_begins_a_pass_where_it_is_switched_on_and_nowhere_else(at: Live, clock: LeapClock) -> None:
    for name in TRIGGERS:
        await at.called(token_of(name), chat(f"My sister {name} moved to Porto in May. {LONG}"))
        await at.server.exchanges.flush()
        (first, *_) = (await at.rest("GET", f"/banks/{name}/episodes"))[1]["episodes"]
        stale = {"evidence": "a letter", "reason": "she moved on"}
        assert (await at.rest("POST", f"/banks/{name}/episodes/{first['id']}/stale", stale))[0] == 200
        assert (await at.rest("PUT", f"/banks/{name}/blocks/human", {"value": "Ann."}))[0] == 200
        for asleep in (True, False, True):  # a time awake begins, and ends
            await at.sleeping(asleep, name)

    async def begun() -> dict[str, Any]:
        """Return the first pass of each bank that has one."""
        found: dict[str, Any] = {}
        for name in TRIGGERS:
            passes = (await at.rest("GET", f"/banks/{name}/passes"))[1]["passes"]
            found |= {name: passes[-1]} if passes else {}
        return found

    wanted = {name for name, (_, trigger, _) in TRIGGERS.items() if trigger is not None}
    async with asyncio.timeout(60):
        while set(passes := await begun()) != wanted:
            clock.leap(5 * MINUTE)
            await asyncio.sleep(0.05)
            assert (clock.now() - START).total_seconds() < 12 * HOUR, wanted - set(passes)
    assert {name: run["trigger"] for name, run in passes.items()} == {
        name: trigger for name, (_, trigger, _) in TRIGGERS.items() if trigger is not None
    }
    for name, run in passes.items():
        seconds = (datetime.fromisoformat(run["created_at"]) - START).total_seconds()
        earliest = TRIGGERS[name][2]
        assert earliest <= seconds < earliest + 30 * MINUTE, name
