"""What an agent is shown of Circadia's own tools: short, and by groups as its policy says."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import Live, live

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
MEMORY = ["remember", "recall", "memory_insert", "memory_replace"]


async def told(at: Live, token: str, message: object) -> dict[str, Any]:
    """Return the answer to a JSON-RPC message."""
    async with at.tool(token, message) as answer:
        return json.loads((await answer.text()).rpartition("data: ")[2])  # a busy machine may have made a stream of it


async def names(at: Live, token: str) -> list[str]:
    return [each["name"] for each in (await told(at, token, LIST))["result"]["tools"]]


async def test_the_list_of_all_tools_is_at_most_16_000_characters_long_and_has_room_for_more(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        tools = (await told(at, await at.agent(bank="team"), LIST))["result"]["tools"]
        more = (await told(at, await at.agent("bob", bank="team", own_routines=1), LIST))["result"]["tools"]
    assert (len(tools), len(more)) == (24, 25)
    assert len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False)) <= 15_400
    assert len(json.dumps(more, separators=(",", ":"), ensure_ascii=False)) <= 16_000


@pytest.mark.setting("defaults.tools")
@pytest.mark.parametrize(
    ("groups", "shown"),
    [
        (["memory"], MEMORY),
        (["sleep", "memory"], [*MEMORY, "sleep_self", "alarms", "set_sleeping"]),
        (["waits"], ["wait_for_message", "wait_for_mention", "wait_for_agent", "wait_for_event"]),
        ([], []),
    ],
)
async def test_an_agent_is_shown_and_may_call_the_groups_of_its_policy(
    tmp_path: Path, groups: list[str], shown: list[str]
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(bank="team", tools=groups)
        assert await names(at, token) == shown
        for tool, arguments in (("recall", {"query": "x"}), ("list_agents", {})):
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
            answer = await told(at, token, call)
            assert ("result" in answer) is (tool in shown), answer
        await at.rest("PATCH", "/sessions/default/agents/ann", {"policy": {"tools": ["*"]}})
        assert len(await names(at, token)) == 24


async def test_a_group_that_there_is_not_is_refused(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        body = {"name": "ann", "policy": {"tools": ["memories"]}}
        status, answer = await at.rest("POST", "/sessions/default/agents", body)
        assert status == 422
        assert "'threads', 'waits', 'inbox', 'memory' or 'sleep'" in answer["detail"]
