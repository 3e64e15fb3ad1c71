"""Whatever wakes an agent is a row with a link to its cause, which no limit counts unless a guardrail decided it."""

from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import Live, live
from tests.interaction.test_missed_mentions import room, tool


async def events(server: Live, kind: str) -> list[dict[str, Any]]:
    return (await server.rest("GET", f"/events?type={kind}&limit=100"))[1]["events"]


async def wakes(server: Live) -> list[dict[str, Any]]:
    return (await server.rest("GET", "/wakes"))[1]["wakes"]


async def sleep(server: Live, name: str, asleep: bool = True) -> None:
    path = f"/sessions/default/agents/{name}/sleeping"
    assert (await server.rest("PUT", path, {"sleeping": asleep}))[1]["sleeping"] is asleep


@pytest.mark.spec("WAKE-89")
async def test_a_mention_that_opens_a_gate_is_a_wake_with_its_message_and_no_limit_counts_it(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        await server.agent("ann")
        talk = await room(server, "ann")
        await sleep(server, "ann")
        message = await talk.mention()
        (wake,) = await wakes(server)
        cause = (wake["agent"], wake["source"], wake["from"], wake["reason"], wake["message"], wake["root"])
        assert cause == ("ann", "thread", "operator", "mentioned", message, message)
        assert (wake["decision"], wake["charge"]) == ("admitted", "none")
        (stopped,) = await events(server, "sleep_stop")
        assert (stopped["data"]["wake"], stopped["data"]["message"]) == (wake["id"], message)
        assert [event["data"]["wake"] for event in await events(server, "wake")] == [wake["id"]]
        nodes = (await server.rest("GET", f"/chains/{message}"))[1]["nodes"]
        tree = [(node["kind"], node["id"], node["parent"]) for node in nodes]
        assert tree == [
            ("message", message, None), ("wake", wake["id"], message), ("pulse", wake["pulse"], wake["id"]),
        ]  # fmt: skip
        stats = (await server.rest("GET", "/agents/ann/wake-stats"))[1]
        assert (stats["wakes_today"], stats["last_wake_time"], stats["cooldown_remaining_seconds"]) == (0, None, 0)
        (pair,) = (await server.rest("GET", "/wakes/matrix"))[1]["pairs"]
        assert (pair["from"], pair["to"], pair["total"]) == ("operator", "ann", 1)


@pytest.mark.spec("WAKE-89", "WAKE-60")
async def test_what_agents_say_and_wake_in_a_chain_stays_in_it_through_a_mention(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        await server.agent("bob")
        thread = (await room(server, "ann")).thread
        await server.rest("POST", f"/sessions/default/threads/{thread}/participants", {"agent": "bob"})
        for name in ("ann", "bob"):
            await sleep(server, name)
        said = {"content": "look", "mentions": ["ann"]}
        root = (await server.rest("POST", f"/sessions/default/threads/{thread}/messages", said))[1]["id"]
        passed_on = {"content": "you too", "mentions": ["bob"]}
        path = f"/sessions/default/threads/{thread}/messages"
        assert (await server.rest("POST", path, passed_on, token=ann))[0] == 201
        chain = (await server.rest("GET", f"/chains/{root}"))[1]
        assert [(node["kind"], node["depth"]) for node in chain["nodes"]] == [
            ("message", 0), ("wake", 1), ("pulse", 1), ("message", 1), ("wake", 2), ("pulse", 2),
        ]  # fmt: skip


@pytest.mark.spec("WAKE-89")
async def test_who_opens_a_gate_by_hand_is_named_and_spends_no_budget(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        bob = await server.agent("bob", may_wake=["ann"])
        await server.agent("ann")
        one_wake = {"wake_guardrails": {"max_wakes_per_session": 1, "cooldown_seconds": 0}}
        await server.rest("PATCH", "/agents/bob/coordination", one_wake)
        await sleep(server, "ann")
        await sleep(server, "ann", asleep=False)
        await sleep(server, "ann")
        assert not (await tool(server, bob, "set_sleeping", agent="ann", sleeping=False))["sleeping"]
        await tool(server, bob, "set_sleeping", agent="ann", sleeping=False)  # wakes nobody
        found = [(wake["source"], wake["from"], wake["charge"], bool(wake["pulse"])) for wake in await wakes(server)]
        assert found == [("agent", "bob", "none", True), ("person", "operator", "none", True)]
        await sleep(server, "ann")
        asked = {"to": "ann", "reason": "blocker", "message": "look"}
        outcomes = [(await server.rest("POST", "/wakes", asked, token=bob))[1] for _ in range(2)]
        assert (outcomes[0]["decision"], outcomes[0]["budgets"]["session"]["used"]) == ("admitted", 1)
        assert outcomes[1]["rule"] == "max_wakes_per_session"


@pytest.mark.spec("WAKE-89")
async def test_an_agent_names_what_will_wake_it_next_as_soon_as_that_changes(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        await server.agent("ann")

        async def coming() -> dict[str, Any] | None:
            shown = (await server.rest("GET", "/sessions/default/agents/ann"))[1]["next"]
            (listed,) = (await server.rest("GET", "/agents"))[1]["agents"]
            assert listed["next"] == shown
            return shown

        assert await coming() is None
        rare = {"name": "rare", "instructions": "look", "cron": "30 6 29 2 *"}  # never at the same time as the other
        hourly = {"name": "hourly", "instructions": "look", "cron": "0 * * * *"}
        schedule = (await server.rest("PUT", "/agents/ann/schedule", {"routines": [rare, hourly]}))[1]
        times = {routine["name"]: routine["next_at"] for routine in schedule["routines"]}
        assert await coming() == {"at": min(times.values()), "by": "routine hourly"}
        await server.rest("PUT", "/agents/ann/schedule", {"routines": [rare, {**hourly, "enabled": False}]})
        assert await coming() == {"at": times["rare"], "by": "routine rare"}
        await server.rest("PATCH", "/agents/ann/coordination", {"wake_guardrails": {"cooldown_seconds": 60}})
        await sleep(server, "ann")
        blocker = {"to": "ann", "reason": "blocker"}
        assert (await server.rest("POST", "/wakes", blocker))[1]["decision"] == "admitted"
        await sleep(server, "ann")
        asked = (await server.rest("POST", "/wakes", blocker))[1]
        assert asked["decision"] == "deferred"
        assert await coming() == {"at": asked["retry_at"], "by": "deferred wake by operator"}
        assert (await server.rest("POST", f"/wakes/{asked['wake']}/cancel"))[0] == 200
        await server.rest("PUT", "/agents/ann/schedule", {"routines": []})
        assert await coming() is None
