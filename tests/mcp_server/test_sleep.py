"""Sleep through tools: an agent's own, and others' where the operator allows it."""

from pathlib import Path

import pytest

from circadia.records.agent import Cause
from tests.mcp_server.stand import ERAS, refused, stand, structured


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("GATE-22", "GATE-33")
async def test_the_call_that_puts_its_agent_to_sleep_is_still_answered(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        ann = await at.agent("ann")
        async with at.client("ann", era) as client:
            for _ in range(2):  # the second time it changes nothing
                assert structured(await client.call_tool("sleep_self")) == {
                    "sleeping": True, "actor": "",
                    "wakes_on": ["mentioned", "wake_agent", "message_agent with priority high or urgent"],
                }  # fmt: skip
        row = await at.row(ann)
        assert (row.asleep, row.generation, row.cause, row.actor) == (True, 1, Cause.TOOL, "ann")


@pytest.mark.spec("GATE-22")
async def test_closing_ones_last_thread_is_answered_though_it_puts_the_closer_to_sleep(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        ann = await at.agent("ann")
        async with at.client("ann") as client:
            structured(await client.call_tool("create_thread", {"name": "t"}))
            closed = structured(await client.call_tool("close_thread", {"thread": "t"}))
        assert closed["thread"]["status"] == "closed"
        assert (await at.row(ann)).asleep is True


@pytest.mark.spec("GATE-33", "GATE-32")
async def test_others_are_put_to_sleep_and_woken_only_where_the_policy_names_them(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann", policy={"may_sleep": ("bob",), "may_wake": ("cid",)})
        bob, cid = await at.agent("bob"), await at.agent("cid")
        await at.set_asleep(cid, True)
        async with at.client("ann") as ann, at.client("bob") as other:
            slept = structured(await ann.call_tool("set_sleeping", {"agent": "bob", "sleeping": True}))
            assert slept == {"agent": "bob", "sleeping": True, "unread": []}
            woken = structured(await ann.call_tool("set_sleeping", {"agent": "cid", "sleeping": False}))
            assert woken == {"agent": "cid", "sleeping": False, "unread": []}
            for client, name, sleeping in ((ann, "bob", False), (ann, "cid", True), (other, "ann", True)):
                told = refused(await client.call_tool("set_sleeping", {"agent": name, "sleeping": sleeping}))
                assert told.startswith("forbidden: ")
                assert f"[{name}]" in told, "it says which grant the operator could give"
        assert (await at.row(bob)).asleep is True
        assert (await at.row(cid)).asleep is False
        assert (await at.row(cid)).actor == "ann"


@pytest.mark.spec("GATE-33")
async def test_the_list_of_agents_says_who_is_asleep_and_since_when(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        await at.agent("far", session="elsewhere")
        await at.set_asleep(bob, True)
        async with at.client("ann") as client:
            agents = structured(await client.call_tool("list_agents"))["agents"]
        assert [(each["name"], each["description"], each["asleep"], each["you"]) for each in agents] == [
            ("ann", "does ann", False, True),
            ("bob", "does bob", True, False),
        ]
        since = [(await at.row(agent)).since.isoformat().replace("+00:00", "Z") for agent in (ann, bob)]
        assert [each["since"] for each in agents] == since


@pytest.mark.spec("GATE-33")
async def test_the_operator_sets_any_agents_sleep_and_is_told_to_use_a_token_for_its_own(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        far = await at.agent("far", session="elsewhere")
        async with at.client("operator") as operator:
            answer = structured(await operator.call_tool("set_sleeping", {"agent": "elsewhere:far", "sleeping": True}))
            assert answer == {"agent": "elsewhere:far", "sleeping": True, "unread": []}
            for tool in ("sleep_self", "wait_for_message", "wait_for_mention"):
                assert "an agent's token" in refused(await operator.call_tool(tool))
            assert structured(await operator.call_tool("list_agents")) == {"agents": []}
        assert (await at.row(far)).asleep is True


@pytest.mark.spec("GATE-33", "GATE-13")
async def test_a_mention_that_found_its_agent_awake_wakes_it_from_the_sleep_that_it_begins_unread(
    tmp_path: Path,
) -> None:
    """It wakes it once: who never reads mentions falls asleep at the next try."""
    async with stand(tmp_path) as at:
        ann = await at.agent("ann")
        await at.agent("bob")
        async with at.client("ann") as client, at.client("bob") as other:
            made = structured(await other.call_tool("create_thread", {"name": "t", "participants": ["ann"]}))
            said = {"thread": made["thread"]["id"], "content": "now", "mentions": ["ann"]}
            structured(await other.call_tool("send_message", said))
            assert structured(await client.call_tool("sleep_self"))["actor"] == "mentioned by bob"
            row = await at.row(ann)
            assert (row.asleep, row.generation, row.cause) == (False, 2, Cause.EVENT)
            assert structured(await client.call_tool("sleep_self"))["sleeping"] is True
            await at.set_asleep(ann, False)
            structured(await other.call_tool("send_message", said))
            assert len(structured(await client.call_tool("wait_for_mention", {"timeout_seconds": 5}))["messages"]) == 2
            assert structured(await client.call_tool("sleep_self"))["sleeping"] is True


@pytest.mark.spec("GATE-33", "GATE-13")
async def test_a_mention_that_its_agent_has_seen_and_left_unread_does_not_wake_it_from_its_next_sleep(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann")
        await at.agent("bob")
        async with at.client("ann") as client, at.client("bob") as other:
            made = structured(await other.call_tool("create_thread", {"name": "t", "participants": ["ann"]}))
            said = {"thread": made["thread"]["id"], "content": "when you have time", "mentions": ["ann"]}
            structured(await other.call_tool("send_message", said))
            seen = structured(await client.call_tool("read_inbox"))
            assert (len(seen["messages"]), seen["unread"]) == (1, 1)
            asleep = structured(await client.call_tool("sleep_self"))
            assert (asleep["sleeping"], asleep["actor"]) == (True, "")
