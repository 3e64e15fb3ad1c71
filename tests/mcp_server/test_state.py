"""The resources: how to work here, and how things stand."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from circadia.agents.registry import NewAgent
from circadia.records.principal import Principal
from tests.mcp_server.stand import ERAS, stand, structured


async def state(client: Client) -> dict[str, Any]:
    """Read the state, and check its bound."""
    text = getattr((await client.read_resource("circadia://state")).contents[0], "text", "")
    assert len(text.encode()) <= 32 * 1024
    return json.loads(text)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("GATE-70")
async def test_the_state_shows_oneself_the_agents_and_ones_open_threads_with_their_last_messages(
    tmp_path: Path, era: str
) -> None:
    async with stand(tmp_path) as at:
        for name in ("ann", "cid"):
            await at.agent(name)
        bob = await at.agent("bob")
        await at.set_asleep(bob, True)
        async with at.client("cid") as cid:
            structured(await cid.call_tool("create_thread", {"name": "not ann's"}))
        async with at.client("ann", era) as ann:
            assert [each.uri for each in (await ann.list_resources()).resources] == [
                "circadia://instruction",
                "circadia://state",
                "circadia://context",
            ]
            made = structured(await ann.call_tool("create_thread", {"name": "t", "participants": ["bob"]}))["thread"]
            structured(await ann.call_tool("create_thread", {"name": "over"}))
            structured(await ann.call_tool("close_thread", {"thread": "over"}))
            for number in range(5):
                structured(await ann.call_tool("send_message", {"thread": "t", "content": f"message {number}"}))
            seen = await state(ann)
        assert seen["session"] == "default"
        assert (seen["you"]["name"], seen["you"]["wakes_on"], seen["you"]["unread"]) == ("ann", ["mentioned"], 0)
        assert [(each["name"], each["asleep"]) for each in seen["agents"]] == [
            ("ann", False),
            ("bob", True),
            ("cid", False),
        ]
        thread = seen["threads"][0]
        assert len(seen["threads"]) == 1
        assert (thread["id"], thread["name"], thread["participants"]) == (made["id"], "t", ["ann", "bob"])
        assert [each["content"] for each in thread["last_messages"]] == ["message 2", "message 3", "message 4"]
        assert {each["from"] for each in thread["last_messages"]} == {"ann"}


@pytest.mark.spec("GATE-70")
async def test_the_state_stays_bounded_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        ann = Principal(agent=await at.agent("ann"))
        async with at.store.begin_write() as tx:
            home = await tx.sessions.get_by_name("default")
            assert home is not None
            for number in range(300):
                await at.registry.add(tx, home, NewAgent(name=f"agent-{number:03}-with-a-long-name"), by="operator")
            for number in range(30):
                thread = await at.threads.create(tx, ann, home, f"thread {number}", [])
                for _ in range(3):
                    await at.threads.send(tx, ann, home, thread, "ä" * 5000)
        async with at.client("ann") as client:
            seen = await state(client)
        assert len(seen["agents"]) + seen["agents_left_out"] == 301
        assert len(seen["threads"]) + seen["threads_left_out"] == 30
        assert seen["agents_left_out"] > 0
        assert seen["threads_left_out"] > 0
        assert seen["threads"][0]["name"] == "thread 29", "the newest come first"


async def test_in_another_session_a_bare_name_is_one_of_that_session(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann", session="team", policy={"sessions": ("default",)})
        await at.agent("bob", session="team")
        await at.agent("guest")
        async with at.client("ann") as ann, at.client("bob") as bob:
            given = {"name": "t", "participants": ["bob", "default:guest"]}
            made = structured(await ann.call_tool("create_thread", given))["thread"]
            assert sorted(made["participants"]) == ["ann", "bob", "default:guest"]
            sent = {"thread": "t", "content": "hi", "mentions": ["bob", "default:guest"]}
            structured(await ann.call_tool("send_message", sent))
            got = structured(await bob.call_tool("wait_for_agent", {"agent": "ann", "timeout_seconds": 20}))
            message = got["messages"][0]
            assert (message["from"], message["mentions"]) == ("ann", ["bob", "default:guest"])
            assert (await state(bob))["threads"][0]["last_messages"][0]["from"] == "ann"


@pytest.mark.spec("GATE-70")
async def test_the_operator_sees_all_threads_of_the_session_default(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann")
        async with at.client("ann") as ann, at.client("operator") as operator:
            structured(await ann.call_tool("create_thread", {"name": "t"}))
            seen = await state(operator)
            assert seen["you"] is None
            assert [each["name"] for each in seen["threads"]] == ["t"]
            instruction = (await operator.read_resource("circadia://instruction")).contents[0]
            assert "You are the operator" in getattr(instruction, "text", "")
