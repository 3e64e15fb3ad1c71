"""Alarms that agents set for themselves: set with a sleep, durable, listed, limited, and rung once (WAKE-80)."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.ahead import OffsetClock
from tests.interaction.live import CHAT, Live, live
from tests.interaction.test_launched_agents import BOB, end, hooked, started, state
from tests.interaction.test_missed_mentions import room, tool, until_awake
from tests.interaction.test_named_events import emit
from tests.interaction.test_wakes import PulseReceiver

HOUR = timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return {} if url is None else {"server": {"database_url": url}}


async def alarms(server: Live, agent: str = "ann") -> list[dict[str, Any]]:
    status, answer = await server.rest("GET", f"/agents/{agent}/alarms")
    assert status == 200, answer
    return answer["alarms"]


async def wakes(server: Live) -> list[dict[str, Any]]:
    return (await server.rest("GET", "/wakes"))[1]["wakes"]


async def sleep(server: Live, token: str, name: str = "ann", **wish: Any) -> tuple[int, dict[str, Any]]:
    path = f"/sessions/default/agents/{name}/sleeping"
    return await server.rest("PUT", path, {"sleeping": True, **wish}, token=token)


async def next_wake(server: Live, name: str = "ann") -> dict[str, Any] | None:
    return (await server.rest("GET", f"/agents?agent={name}"))[1]["agents"][0]["next"]


@pytest.mark.spec("WAKE-80")
async def test_an_agent_sleeps_until_its_alarm_which_rings_once_and_tells_it_why(
    tmp_path: Path, database: dict[str, Any], ahead: type[OffsetClock]
) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        slept = await tool(server, ann, "sleep_self", for_seconds=3600, reason="look at the batch")
        assert (slept["sleeping"], slept["wakes_on"][-1][:9]) == (True, "alarm at ")
        (alarm,) = await alarms(server)
        assert (alarm["name"], alarm["kind"], alarm["reason"]) == (slept["alarm"], "alarm", "look at the batch")
        assert "." not in alarm["next_at"], "at a whole second, not before the hour is over"
        assert datetime.fromisoformat(alarm["next_at"]) - datetime.fromisoformat(alarm["created_at"]) >= HOUR
        assert (await server.rest("GET", "/alarms"))[1]["alarms"] == [alarm]
        assert (await next_wake(server) or {})["at"] == alarm["next_at"]
        call = asyncio.create_task(server.called(ann, CHAT))
        await server.held(1)
        ahead.by = HOUR + timedelta(minutes=1)
        await until_awake(server, "ann")
        async with asyncio.timeout(60):
            await call
        assert "woken by alarm (look at the batch)" in server.upstream.requests[-1].json()["messages"][-1]["content"]
        (wake,) = await wakes(server)
        assert (wake["source"], wake["from"], wake["charge"]) == ("schedule", "alarm", "none")
        (rung,) = await alarms(server)
        assert (rung["next_at"], rung["last_at"]) == (None, alarm["next_at"])
        assert await next_wake(server) is None
        assert [event["data"]["state"] for event in await server.events("alarm")] == ["set"]
        assert [event["data"]["verdict"] for event in await server.events("routine")] == ["run"]


@pytest.mark.spec("WAKE-80")
async def test_a_time_without_an_offset_is_in_the_agents_zone_and_a_change_of_zone_moves_no_alarm(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        await server.rest("PATCH", "/agents/ann/coordination", {"zone": "Europe/Berlin"})
        now = datetime.now(UTC)
        springs = [
            max(at for d in range(25, 32) if (at := datetime(year, 3, d, tzinfo=UTC)).weekday() == 6)
            for year in (now.year, now.year + 1)
        ]
        change = next(at for at in springs if at > now + timedelta(days=1))
        spring, day = change.year, change.day
        for clock, instant in (("02:30", "01:00"), ("03:30", "01:30"), ("01:30", "00:30")):  # 02:30 is skipped that day
            status, answer = await sleep(server, ann, until=f"{spring}-03-{day}T{clock}")
            assert (status, answer["alarm"]) == (200, f"alarm {spring}-03-{day}T{instant}:00Z")
            await server.sleeping(False)
        times = [alarm["next_at"] for alarm in await alarms(server)]
        await server.rest("PATCH", "/agents/ann/coordination", {"zone": "America/New_York"})
        moved = await alarms(server)
        assert [alarm["next_at"] for alarm in moved] == times
        assert moved[0]["local"].endswith("-04:00")


@pytest.mark.spec("WAKE-80")
async def test_an_earlier_wake_deletes_an_alarm_if_the_agent_asked_so_and_leaves_others(
    tmp_path: Path, database: dict[str, Any], ahead: type[OffsetClock]
) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        first = (await sleep(server, ann, for_seconds=7200))[1]["alarm"]
        await server.sleeping(False)
        second = (await sleep(server, ann, for_seconds=3600, cancel_if_woken=True))[1]["alarm"]
        assert {alarm["name"] for alarm in await alarms(server)} == {first, second}
        await (await room(server, "ann")).mention()
        assert not (await state(server, "ann"))["sleeping"]
        assert [alarm["name"] for alarm in await alarms(server)] == [first]
        assert (await next_wake(server) or {})["by"] == f"routine {first}"
        assert [event["data"]["state"] for event in await server.events("alarm")] == ["set", "set", "ended"]
        assert (await server.rest("DELETE", f"/agents/ann/alarms/{second}"))[0] == 404
        assert (await sleep(server, ann, for_seconds=3600, cancel_if_woken=True))[0] == 200
        ahead.by = HOUR + timedelta(minutes=1)
        await until_awake(server, "ann")  # by the alarm itself, which has rung
        assert len(await alarms(server)) == 2
        assert (await sleep(server, ann))[1]["sleeping"]
        ahead.by = 2 * HOUR + timedelta(minutes=1)
        await until_awake(server, "ann")
        assert [wake["from"] for wake in await wakes(server) if wake["source"] == "schedule"] == ["alarm", "alarm"]


@pytest.mark.spec("WAKE-80")
@pytest.mark.setting("agents.coordination.wake_guardrails.max_alarms_per_day")
async def test_alarms_have_a_budget_of_their_own_and_who_exceeds_it_stays_awake(tmp_path: Path) -> None:
    guardrails = {"max_alarms_per_day": 1, "max_wakes_per_day": 0}
    file: dict[str, Any] = {"agents": {"ann": {"token_env": "ANN", "coordination": {"wake_guardrails": guardrails}}}}
    async with live(tmp_path, environment={"ANN": "cdt_ann_of_the_tests"}, **file) as server:
        ann = "cdt_ann_of_the_tests"
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(hour=9, minute=0, second=0, microsecond=0)
        for until, status in ((tomorrow, 200), (tomorrow, 200), (tomorrow + HOUR, 409), (tomorrow + 24 * HOUR, 200)):
            assert (await sleep(server, ann, until=until.isoformat()))[0] == status
            assert (await state(server, "ann"))["sleeping"] is (status == 200)
            await server.sleeping(False)
        assert len(await alarms(server)) == 2
        assert (await server.rest("DELETE", f"/agents/ann/alarms/{(await alarms(server))[0]['name']}", token=ann))[
            0
        ] == 200
        assert (await sleep(server, ann, until=(tomorrow + HOUR).isoformat()))[0] == 200


@pytest.mark.spec("WAKE-80")
@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"until": "2020-01-01T00:00:00Z"}, 422),
        ({"for_seconds": 367 * 86_400}, 422),
        ({"for_seconds": 1e300}, 422),
        ({"for_seconds": 60, "until": "2999-01-01T00:00:00Z"}, 422),
        ({"reason": "no time"}, 422),
        ({"wake_on": ["bell"]}, 422),
        ({"wake_on": ["event:"]}, 422),
        ({"filter": {"id": 1}}, 422),
        ({"sleeping": False, "for_seconds": 60}, 422),
    ],
)
async def test_a_wish_that_cannot_be_met_is_refused_and_its_agent_stays_awake(
    tmp_path: Path, wish: dict[str, Any], status: int
) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        assert (await sleep(server, ann, **wish))[0] == status
        assert not (await state(server, "ann"))["sleeping"]
        assert await alarms(server) == []
        body = {"sleeping": True, "for_seconds": 60}
        assert (await server.rest("PUT", "/sessions/default/agents/ann/sleeping", body))[0] == 403
        await server.rest("PATCH", "/agents/ann/coordination", {"wakes_enabled": False})
        assert (await sleep(server, ann, for_seconds=60))[0] == 403
        assert not (await state(server, "ann"))["sleeping"]


@pytest.mark.spec("WAKE-80")
@pytest.mark.parametrize("where", ["thread", "inbox"])
async def test_a_message_without_a_mention_wakes_the_agent_from_the_sleep_for_which_it_asked_so_and_no_other(
    tmp_path: Path, database: dict[str, Any], where: str
) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        talk = await room(server, "ann")
        await server.rest("PATCH", "/agents/ann/coordination", {"wake_guardrails": {"cooldown_seconds": 0}})

        async def write() -> None:
            path = f"/sessions/default/threads/{talk.thread}/messages" if where == "thread" else "/messages"
            body: dict[str, Any] = {"content": "hello", **({} if where == "thread" else {"to": "ann"})}
            assert (await server.rest("POST", path, body))[0] == 201

        assert "any message" in (await tool(server, ann, "sleep_self", wake_on=["message"]))["wakes_on"]
        await write()
        await until_awake(server, "ann")
        await write()  # it finds the agent awake, and unread it ends the next sleep that asks for it
        assert (await tool(server, ann, "sleep_self"))["sleeping"]
        await write()
        assert (await state(server, "ann"))["sleeping"]
        await server.sleeping(False)
        await write()
        assert not (await tool(server, ann, "sleep_self", wake_on=["message"]))["sleeping"]
        assert (await tool(server, ann, "sleep_self", wake_on=["message"]))["sleeping"]  # once
        await server.sleeping(False)
        await write()
        assert len((await tool(server, ann, "read_inbox"))["messages"]) > 0
        assert (await tool(server, ann, "sleep_self", wake_on=["message"]))["sleeping"]  # what it has seen does not


@pytest.mark.spec("WAKE-80")
async def test_an_agent_that_no_mention_wakes_can_ask_for_it(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        await server.rest("PATCH", "/sessions/default/agents/ann", {"wake_events": []})
        talk = await room(server, "ann")
        assert (await sleep(server, ann))[1]["sleeping"]
        await talk.mention()
        assert (await state(server, "ann"))["sleeping"]
        await server.sleeping(False)
        await tool(server, ann, "wait_for_mention", timeout_seconds=0)
        assert (await sleep(server, ann, wake_on=["mention"]))[1]["sleeping"]
        await talk.mention()
        assert not (await state(server, "ann"))["sleeping"]


@pytest.mark.spec("WAKE-80")
async def test_a_launched_agent_starts_at_its_alarm_with_the_reason_in_its_prompt(
    tmp_path: Path, ahead: type[OffsetClock]
) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, agents=BOB, **hooked(program)) as server:
        await mention_and_end(server, program)
        ahead.by = HOUR + timedelta(minutes=1)
        run = await started(program)
        assert "Your alarm is due." in run["prompt"]
        assert "look at the batch" in run["prompt"]
        await end(server, run)
        assert program.started.empty()


async def mention_and_end(server: Live, program: PulseReceiver) -> None:
    """Run bob once; he sets an alarm, and ends."""
    await server.rest("PUT", "/sessions/default/agents/bob/sleeping", {"sleeping": False})
    run = await started(program)
    status, _ = await sleep(server, run["token"], "bob", for_seconds=3600, reason="look at the batch")
    assert status == 200
    body = {"status": "succeeded", "epoch": run["epoch"]}
    assert (await server.rest("POST", f"/pulses/{run['pulse']}/end", body, token=run["token"]))[0] == 202


@pytest.mark.spec("WAKE-80")
async def test_an_alarm_for_which_no_minutes_are_left_rings_on_the_next_day(
    tmp_path: Path, ahead: type[OffsetClock]
) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        assert (await sleep(server, ann, for_seconds=60))[0] == 200
        await server.rest("PATCH", "/agents/ann/coordination", {"wake_guardrails": {"max_daily_session_minutes": 0}})
        ahead.by = timedelta(minutes=2)
        async with asyncio.timeout(60):
            while not [event for event in await server.events("routine") if event["data"].get("rule")]:
                await asyncio.sleep(0.02)
        (alarm,) = await alarms(server)
        due = datetime.fromisoformat(alarm["next_at"])
        assert (due.hour, due.minute) == (0, 0)
        await server.rest("PATCH", "/agents/ann/coordination", {"wake_guardrails": {"max_daily_session_minutes": None}})
        ahead.by = timedelta(days=1, minutes=3)
        await until_awake(server, "ann")


@pytest.mark.spec("WAKE-80")
async def test_an_alarm_that_finds_its_agent_awake_is_in_its_inbox(tmp_path: Path, ahead: type[OffsetClock]) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        assert (await sleep(server, ann, for_seconds=60, reason="look at the batch"))[0] == 200
        await server.sleeping(False)
        ahead.by = timedelta(minutes=2)
        async with asyncio.timeout(60):
            while not (inbox := (await server.rest("GET", "/agents/ann/inbox"))[1]["messages"]):
                await asyncio.sleep(0.02)
        assert inbox[0]["content"] == "Your alarm is due. look at the batch"


@pytest.mark.spec("WAKE-80")
async def test_an_alarm_that_rang_days_ago_is_deleted_when_the_next_one_is_set(
    tmp_path: Path, ahead: type[OffsetClock]
) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        free = {"wake_guardrails": {"max_daily_session_minutes": None}}
        assert (await server.rest("PATCH", "/agents/ann/coordination", free))[0] == 200
        for days, names in ((1, 2), (3, 1)):
            first = (await sleep(server, ann, for_seconds=3600))[1]["alarm"]
            ahead.by += HOUR + timedelta(minutes=1)
            await until_awake(server, "ann")
            ahead.by += timedelta(days=days)
            second = (await sleep(server, ann, for_seconds=7200, cancel_if_woken=True))[1]["alarm"]
            listed = {alarm["name"] for alarm in await alarms(server)}
            assert (len(listed), first in listed, second in listed) == (names, days == 1, True)
            await server.sleeping(False)


@pytest.mark.spec("WAKE-80")
async def test_an_alarm_rings_once_although_the_clock_is_set_back_before_and_after_it(
    tmp_path: Path, database: dict[str, Any], ahead: type[OffsetClock]
) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        bob = await server.agent("bob")

        async def look_at_schedules() -> None:
            """Let another agent's alarm ring, so that all that is due has been looked at."""
            assert (await sleep(server, bob, "bob", for_seconds=1))[0] == 200
            await until_awake(server, "bob")

        assert (await sleep(server, ann, for_seconds=3600))[0] == 200
        ahead.by = -HOUR
        await look_at_schedules()
        assert (await state(server, "ann"))["sleeping"]
        assert len(await alarms(server)) == 1
        ahead.by = HOUR + timedelta(minutes=1)
        await until_awake(server, "ann")
        ahead.by = timedelta(0)
        await server.sleeping(True)
        ahead.by = HOUR + timedelta(minutes=2)
        await look_at_schedules()
        assert (await state(server, "ann"))["sleeping"]
        assert [wake["agent"] for wake in await wakes(server)].count("ann") == 1
        (rung,) = await alarms(server)
        assert rung["next_at"] is None


@pytest.mark.spec("WAKE-80")
async def test_an_alarm_that_was_due_while_no_server_ran_rings_at_the_start(
    tmp_path: Path, database: dict[str, Any], ahead: type[OffsetClock]
) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        assert (await sleep(server, ann, for_seconds=1, wake_on=["message"]))[0] == 200
        due = datetime.fromisoformat((await alarms(server))[0]["next_at"])
    while datetime.now(UTC) <= due:
        await asyncio.sleep(0.05)
    ahead.by = 100 * HOUR  # on PostgreSQL, the database's clock counts
    async with live(tmp_path, **database) as server:
        await until_awake(server, "ann")
        assert [wake["from"] for wake in await wakes(server)] == ["alarm"]


@pytest.mark.spec("WAKE-80")
@pytest.mark.setting("defaults.own_routines")
@pytest.mark.setting("defaults.own_routine_min_seconds")
async def test_an_agent_keeps_routines_of_its_own_within_its_policy_and_people_leave_them(
    tmp_path: Path, ahead: type[OffsetClock]
) -> None:
    policy = {"own_routines": 1, "own_routine_min_seconds": 600}
    file: dict[str, Any] = {"agents": {"ann": {"token_env": "ANN", **policy}, "bob": {"token_env": "BOB"}}}
    tokens = {"ANN": "cdt_ann_of_the_tests", "BOB": "cdt_bob_of_the_tests"}
    async with live(tmp_path, environment=tokens, **file) as server:
        ann, bob = tokens.values()

        async def keep(name: str, token: str = ann, agent: str = "ann", **rule: Any) -> int:
            return (await server.rest("PUT", f"/agents/{agent}/alarms/{name}", rule, token=token))[0]

        assert await keep("look", bob, "bob", every_seconds=3600) == 403
        assert await keep("look", every_seconds=599) == 403
        assert await keep("look", cron="*/5 * * * *") == 403
        assert await keep("look") == 422
        assert await keep("look", every_seconds=600, instructions="read the log") == 200
        assert await keep("other", cron="0 * * * *") == 403
        assert await keep("look", every_seconds=1200, instructions="read the log") == 200
        people = {"routines": [{"name": "daily", "instructions": "look", "cron": "0 6 * * *"}]}
        assert (await server.rest("PUT", "/agents/ann/schedule", people))[0] == 200
        assert [each["name"] for each in await alarms(server)] == ["look"]
        assert await keep("daily", cron="0 * * * *") in (403, 409)
        (kept,) = (await tool(server, ann, "alarms"))["alarms"]
        assert kept["reason"] == "read the log"
        assert (await sleep(server, ann))[1]["sleeping"]
        due = datetime.fromisoformat((await alarms(server))[0]["next_at"])
        ahead.by = due - datetime.now(UTC) + timedelta(seconds=1)
        await until_awake(server, "ann")
        assert (await tool(server, ann, "alarms", cancel="look"))["alarms"] == []
        routine = {"name": "hourly", "cron": "0 * * * *", "instructions": "look"}
        assert [each["name"] for each in (await tool(server, ann, "keep_routine", **routine))["alarms"]] == ["hourly"]


@pytest.mark.spec("WAKE-80", "WAKE-83")
async def test_an_agent_sleeps_over_a_batch_until_its_event_under_its_guardrails(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        wish = {"wake_on": ["event:batch.completed"], "filter": {"data": {"id": "batch_7"}}, "for_seconds": 86_400}
        slept = await tool(server, ann, "sleep_self", **wish, cancel_if_woken=True)
        assert "event batch.completed" in slept["wakes_on"]
        assert await emit(server, "batch.completed", data={"data": {"id": "batch_8"}}) == []
        body = {"type": "batch.completed", "data": {"id": "batch_7"}}
        (reached,) = await emit(server, "batch.completed", data=body, key="evt_1")
        assert reached["decision"] == "admitted"
        await until_awake(server, "ann")
        assert await alarms(server) == []
        (wake,) = await wakes(server)
        assert (wake["from"], wake["reason"], wake["message"]) == (
            "event:batch.completed", "event batch.completed", reached["message"]
        )  # fmt: skip
        assert wake["charge"] == "charged"
        seen = await tool(server, ann, "wait_for_event", name="batch.completed", timeout_seconds=0)
        assert seen["event"]["data"] == body
        assert await emit(server, "batch.completed", data=body, key="evt_1") == []


@pytest.mark.spec("WAKE-81", "WAKE-83")
async def test_an_event_that_came_before_the_sleep_ends_it(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        await tool(server, ann, "wait_for_event", name="batch.completed", filter={"id": "b7"}, timeout_seconds=0)
        assert len(await emit(server, "batch.completed", data={"id": "b7"})) == 1
        assert (await tool(server, ann, "sleep_self", wake_on=["event:batch.completed"], filter={"id": "b7"}))[
            "sleeping"
        ]
        await until_awake(server, "ann")
        (wake,) = await wakes(server)
        assert (wake["decision"], wake["from"]) == ("admitted", "event:batch.completed")
