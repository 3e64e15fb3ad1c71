"""Keys of `agents` that say when and how an agent is woken."""

import asyncio
from typing import Any

import pytest

from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, Live

NO_LIMIT: Any = {"cooldown_seconds": 0}
GUARDED: Any = {
    name: {"sleep_events": ["agent_started"], "coordination": {"wake_guardrails": {**NO_LIMIT, **stated}}}
    for name, stated in {
        "minutes": {"max_daily_session_minutes": 0}, "day": {"max_wakes_per_day": 0},
        "pair": {"max_wakes_per_pair_per_day": 0}, "asker": {"max_wakes_per_session": 0},
        "depth": {"max_chain_depth": 0}, "visits": {"max_chain_visits": 0}, "free": {},
    }.items()
}  # fmt: skip


async def wake(at: Live, to: str, token: str, **more: object) -> dict[str, Any]:
    body = {"to": to, "message": "red", "reason": "blocker", **more}
    status, told = await at.rest("POST", "/wakes", body, token=token)
    assert status in (200, 201), told
    return told


async def against(at: Live, to: str, token: str) -> list[str]:
    """Return the rules that speak against a wake."""
    told = await wake(at, to, token, dry_run=True)
    return [each["rule"] for each in told["trace"] if not each["passed"]]


@pytest.mark.setting(
    "agents.coordination", "agents.coordination.wake_guardrails",
    "agents.coordination.wake_guardrails.max_daily_session_minutes",
    "agents.coordination.wake_guardrails.max_wakes_per_day",
    "agents.coordination.wake_guardrails.max_wakes_per_pair_per_day",
    "agents.coordination.wake_guardrails.max_wakes_per_session",
    "agents.coordination.wake_guardrails.max_chain_depth", "agents.coordination.wake_guardrails.max_chain_visits",
    agents=GUARDED,
)  # fmt: skip
async def test_each_limit_of_wakes_alone_holds_a_wake_back(at: Live) -> None:
    ann = await at.agent("ann")
    assert await against(at, "free", ann) == []
    assert await against(at, "minutes", ann) == ["max_daily_session_minutes"]
    assert await against(at, "day", ann) == ["max_wakes_per_day"]
    assert await against(at, "pair", ann) == ["max_wakes_per_pair_per_day"]
    told = await wake(at, "free", ADMIN, dry_run=True, **{"from": "asker"})
    assert [each["rule"] for each in told["trace"] if not each["passed"]] == ["max_wakes_per_session"]
    assert await against(at, "depth", ann) == ["max_chain_depth"]
    assert await against(at, "visits", ann) == ["max_chain_visits"]


@pytest.mark.setting("fleet.max_wakes_per_day", fleet={"max_wakes_per_day": 0})
async def test_a_fleet_without_wakes_wakes_nobody(at: Live) -> None:
    ann = await at.agent("ann")
    await at.agent("bob")
    await at.sleeping(True, "bob")
    assert (await wake(at, "bob", ann))["decision"] != "admitted"


@pytest.mark.setting(
    "agents.coordination.wake_guardrails.cooldown_seconds", "agents.coordination.on_cooldown",
    agents={"bob": {"coordination": {"wake_guardrails": {"cooldown_seconds": 50}, "on_cooldown": "refuse"}}},
)  # fmt: skip
async def test_a_second_wake_within_the_cooldown_is_refused_and_admitted_after_it(at: Live, clock: LeapClock) -> None:
    ann = await at.agent("ann")
    told: list[str] = []
    for seconds in (0, 45, 10):
        clock.leap(seconds)
        await at.sleeping(True, "bob")
        told.append((await wake(at, "bob", ann))["decision"])
    assert told == ["admitted", "refused", "admitted"]


@pytest.mark.setting(
    "agents.coordination.on_busy", agents={"bob": {"coordination": {"on_busy": "refuse", "wakes_enabled": True}}}
)
async def test_a_wake_of_one_who_is_at_work_is_refused_where_the_file_says_so(at: Live) -> None:
    ann = await at.agent("ann")
    await at.sleeping(True, "bob")
    assert (await wake(at, "bob", ann))["decision"] == "admitted"
    assert (await wake(at, "bob", ann))["decision"] == "refused"


@pytest.mark.setting(
    "agents.coordination.wakes_enabled", "agents.coordination.wake_on_high_priority",
    agents={
        "bob": {"sleep_events": ["agent_started"], "coordination": {"wakes_enabled": False}},
        "carl": {"sleep_events": ["agent_started"], "coordination": {"wake_on_high_priority": False}},
        "dora": {"sleep_events": ["agent_started"]},
    },
)  # fmt: skip
async def test_who_may_not_be_woken_sleeps_on_and_so_does_who_is_not_woken_by_urgent_messages(at: Live) -> None:
    ann = await at.agent("ann")
    assert (await wake(at, "bob", ann))["decision"] == "refused"
    for name in ("carl", "dora"):
        body = {"to": name, "content": "now", "priority": "urgent"}
        assert (await at.rest("POST", "/messages", body, token=ann))[0] == 201
    asleep: dict[str, bool] = {}
    async with asyncio.timeout(20):
        while asleep.get("dora", True):
            for name in ("carl", "dora"):
                asleep[name] = (await at.rest("GET", f"/sessions/default/agents/{name}/sleeping"))[1]["sleeping"]
    assert asleep["carl"]


@pytest.mark.setting(
    "agents.coordination.defer_max_seconds", agents={"bob": {"coordination": {"defer_max_seconds": 100}}}
)
async def test_a_wake_that_waits_expires_after_its_seconds(at: Live, clock: LeapClock) -> None:
    ann = await at.agent("ann")
    waits = await wake(at, "bob", ann)
    assert waits["decision"] == "deferred"

    async def decision() -> str:
        return (await at.rest("GET", f"/wakes/{waits['wake']}"))[1]["decision"]

    clock.leap(90)
    assert await decision() == "deferred"
    clock.leap(20)
    async with asyncio.timeout(20):
        while await decision() == "deferred":
            clock.leap(1)
            await asyncio.sleep(0.02)
    assert await decision() == "expired"


MONDAY = "?since=2026-01-05T00:00:00Z&until=2026-01-06T00:00:00Z"
ROUTINES: Any = [
    {"name": "step", "every_seconds": 21_600, "anchor": "2026-01-01T01:00:00Z", "offset_seconds": 1_800},
    {"name": "morning", "cron": "30 7 * * mon"},
    {"name": "once", "at": ["2026-01-05T14:00:00Z"], "instructions": "Count."},
    {"name": "off", "cron": "0 * * * *", "enabled": False},
]


@pytest.mark.setting(
    "agents.timezone", "agents.routines", "agents.routines.name", "agents.routines.every_seconds",
    "agents.routines.anchor", "agents.routines.offset_seconds", "agents.routines.cron", "agents.routines.at",
    "agents.routines.enabled",
    agents={"bob": {"timezone": "Europe/Berlin", "routines": ROUTINES}},
)  # fmt: skip
async def test_the_schedule_has_the_instants_of_the_files_routines(at: Live) -> None:
    status, schedule = await at.rest("GET", f"/agents/bob/schedule{MONDAY}")
    assert status == 200, schedule
    due = [(each["routine"], each["at"][11:16]) for each in schedule["occurrences"]]
    assert due == [
        ("step", "01:30"), ("morning", "06:30"), ("step", "07:30"), ("step", "13:30"), ("once", "14:00"),
        ("step", "19:30"),
    ]  # fmt: skip


PULSES: Any = {
    "pulse_enabled": True, "pulse_interval_minutes": 360, "pulse_offset_minutes": 20,
    "pulse_one_offs": ["2026-01-05T10:00:00Z"], "pulse_container_timeout_ms": 90_000,
    "pulse_blackouts": [{"start_time": "12:00", "end_time": "13:00", "label": "noon"}],
    "blackouts": [{"start_time": "18:00", "end_time": "19:00", "weekdays": ["mon"]}],
}  # fmt: skip


@pytest.mark.setting(
    "agents.pulse_enabled", "agents.pulse_interval_minutes", "agents.pulse_offset_minutes", "agents.pulse_one_offs",
    "agents.pulse_blackouts", "agents.blackouts", "agents.blackouts.start_time", "agents.blackouts.end_time",
    "agents.blackouts.weekdays", "agents.blackouts.label", "agents.pulse_container_timeout_ms",
    agents={"bob": PULSES},
)  # fmt: skip
async def test_the_schedule_has_the_pulses_and_blackouts_as_djinnbot_names_them(at: Live) -> None:
    status, schedule = await at.rest("GET", f"/agents/bob/schedule{MONDAY}")
    assert status == 200, schedule
    due = [each["at"][11:16] for each in schedule["occurrences"]]
    assert due == ["00:20", "06:20", "10:00", "12:20", "18:20"]
    assert {each["timeout_seconds"] for each in schedule["routines"]} == {90}
    spans = [(each["start"][11:16], each["end"][11:16], each["labels"]) for each in schedule["spans"]]
    assert spans == [("12:00", "13:00", ["noon"]), ("18:00", "19:00", [])]


NIGHT: Any = {
    "blackouts": [
        {"type": "one_off", "start": "2026-01-05T02:00:00Z", "end": "2026-01-05T05:00:00Z"},
        {"start_time": "20:00", "end_time": "21:00", "days_of_week": [1]},
    ],
    "blackout_policies": {"schedule": "defer", "one_off": "skip"},
    "routines": [
        {"name": "late", "cron": "0 3 * * *"}, {"name": "once", "at": ["2026-01-05T03:10:00Z"]},
        {"name": "always", "cron": "20 3 * * *", "blackout_policy": "run"}, {"name": "evening", "cron": "30 20 * * *"},
        {"name": "drawn", "every_seconds": 3_600, "jitter_seconds": 3_000, "blackout_policy": "run"},
        {"name": "moved", "every_seconds": 7_200, "stagger_seconds": 3_000, "blackout_policy": "run"},
        {"name": "moved too", "every_seconds": 7_200, "stagger_seconds": 3_000, "blackout_policy": "run"},
        {"name": "moved as well", "every_seconds": 7_200, "stagger_seconds": 3_000, "blackout_policy": "run"},
    ],
}  # fmt: skip


@pytest.mark.setting(
    "agents.blackouts.type", "agents.blackouts.start", "agents.blackouts.end", "agents.blackouts.days_of_week",
    "agents.blackout_policies", "agents.blackout_policies.schedule", "agents.blackout_policies.one_off",
    "agents.routines.blackout_policy", "agents.routines.jitter_seconds", "agents.routines.stagger_seconds",
    agents={"bob": NIGHT},
)  # fmt: skip
async def test_what_falls_into_a_blackout_waits_does_not_take_place_or_runs_as_the_file_says(at: Live) -> None:
    status, schedule = await at.rest("GET", f"/agents/bob/schedule{MONDAY}")
    assert status == 200, schedule
    due: dict[str, list[Any]] = {}
    for each in schedule["occurrences"]:
        due.setdefault(each["routine"], []).append((each["at"][11:16], each["runs_at"] and each["runs_at"][11:16]))
    assert due["late"] == [("03:00", "05:00")]
    assert due["once"] == [("03:10", None)]
    assert due["always"] == [("03:20", "03:20")]
    assert due["evening"] == [("20:30", "21:00")]
    assert len({minute for minute, _ in due["drawn"]} & {f"{hour:02}:00" for hour in range(24)}) < 24
    assert len({time[3:] for time, _ in due["drawn"]}) > 1
    minutes = [{time[3:] for time, _ in due[name]} for name in ("moved", "moved too", "moved as well")]
    assert [len(of_one) for of_one in minutes] == [1, 1, 1]
    assert minutes != [{"00"}] * 3


@pytest.mark.setting(
    "agents.description", "agents.wake_events",
    agents={
        "bob": {"description": "writes", "sleep_events": ["agent_started"], "wake_events": ["added_to_any_thread"]},
    },
)  # fmt: skip
async def test_an_agent_of_the_file_is_described_and_woken_as_it_says(at: Live) -> None:
    assert (await at.rest("GET", "/sessions/default/agents/bob"))[1]["description"] == "writes"
    assert (await at.rest("POST", "/sessions/default/threads", {"name": "t", "participants": []}))[0] == 201

    async def asleep() -> bool:
        return (await at.rest("GET", "/sessions/default/agents/bob/sleeping"))[1]["sleeping"]

    assert await asleep()
    status, answer = await at.rest("POST", "/sessions/default/threads/t/participants", {"agent": "bob"})
    assert status < 300, answer
    async with asyncio.timeout(20):
        while await asleep():
            await asyncio.sleep(0.02)


MORNING: Any = [{"start_time": "00:00", "end_time": "12:00"}]


@pytest.mark.setting(
    "agents.blackout_policies.wake",
    agents={
        "bob": {"sleep_events": ["agent_started"], "blackouts": MORNING},
        "carl": {"sleep_events": ["agent_started"], "blackouts": MORNING, "blackout_policies": {"wake": "run"}},
    },
)  # fmt: skip
async def test_a_wake_in_a_blackout_waits_unless_the_file_lets_it_run(at: Live) -> None:
    ann = await at.agent("ann")
    assert [(await wake(at, name, ann))["decision"] for name in ("bob", "carl")] == ["deferred", "admitted"]


ONCE: Any = {**NO_LIMIT, "max_wakes_per_pair_per_day": 1}


@pytest.mark.setting(
    "agents.coordination.wake_guardrails.pair_mode",
    agents={
        "bob": {"token_env": "BOB", "coordination": {"wake_guardrails": ONCE}},
        "carl": {"coordination": {"wake_guardrails": {**ONCE, "pair_mode": "undirected"}}},
        "dora": {"coordination": {"wake_guardrails": ONCE}},
    },
    environment={"BOB": "token-of-agent-bob-in-the-tests-0123456789"},
)  # fmt: skip
async def test_a_pair_s_wakes_are_counted_both_ways_where_the_file_says_so(at: Live) -> None:
    bob = "token-of-agent-bob-in-the-tests-0123456789"
    tokens = {
        name: (await at.rest("POST", f"/sessions/default/agents/{name}/token"))[1]["token"] for name in ("carl", "dora")
    }
    told: list[list[str]] = []
    for name in ("carl", "dora"):
        await at.sleeping(True, "bob")
        await at.sleeping(True, name)
        assert (await wake(at, "bob", tokens[name]))["decision"] == "admitted"
        told.append(await against(at, name, bob))
    assert told == [["max_wakes_per_pair_per_day"], []]


NONE_A_DAY: Any = {"wake_guardrails": {**NO_LIMIT, "max_wakes_per_day": 0}}


@pytest.mark.setting(
    "agents.coordination.guard_thread_events",
    agents={
        "bob": {"sleep_events": ["agent_started"], "wake_events": ["mentioned"],
                "coordination": {**NONE_A_DAY, "guard_thread_events": True}},
        "carl": {"sleep_events": ["agent_started"], "wake_events": ["mentioned"],
                "coordination": NONE_A_DAY},
    },
)  # fmt: skip
async def test_events_of_threads_pass_the_guardrails_where_the_file_says_so(at: Live) -> None:
    assert (await at.rest("POST", "/sessions/default/threads", {"name": "t", "participants": ["bob", "carl"]}))[
        0
    ] == 201
    await at.agent("ann")
    await at.rest("POST", "/sessions/default/threads/t/participants", {"agent": "ann"})
    said = {"from": "ann", "content": "hello", "mentions": ["bob", "carl"]}
    assert (await at.rest("POST", "/sessions/default/threads/t/messages", said))[0] == 201
    asleep: dict[str, bool] = {}
    async with asyncio.timeout(20):
        while asleep.get("carl", True):
            for name in ("carl", "bob"):
                asleep[name] = (await at.rest("GET", f"/sessions/default/agents/{name}/sleeping"))[1]["sleeping"]
    assert asleep["bob"]
