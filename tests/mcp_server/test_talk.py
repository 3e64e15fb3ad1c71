"""Agents talk: threads, messages, and the list of agents, with official clients of both protocol eras."""

from pathlib import Path

import pytest

from circadia.errors import ConfigError
from circadia.mcp_server.tools import CORRECTION_TOOLS, TOOLS
from tests.mcp_server.stand import ERAS, stand, structured


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("GATE-70")
async def test_two_agents_talk_from_the_first_thread_to_its_end(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        for name in ("ann", "bob"):
            await at.agent(name)
        async with at.client("ann", era) as ann, at.client("bob", era) as bob:
            assert [tool.name for tool in (await ann.list_tools()).tools] == [
                tool.name for tool in TOOLS if tool not in CORRECTION_TOOLS
            ]
            made = structured(await ann.call_tool("create_thread", {"name": "plan", "participants": []}))["thread"]
            assert made == {"id": made["id"], "name": "plan", "status": "open", "participants": ["ann"]}
            added = structured(await ann.call_tool("add_participant", {"thread": "plan", "agent": "bob"}))["thread"]
            assert added["participants"] == ["ann", "bob"]
            given = {"thread": made["id"], "content": "hi bob", "mentions": ["bob"]}
            sent = structured(await ann.call_tool("send_message", given))["message"]
            got = await bob.call_tool("wait_for_mention", {"timeout_seconds": 20})
            message = structured(got)["messages"][0]
            assert message == {
                "id": sent["id"], "thread": made["id"], "thread_name": "plan", "from": "ann", "content": "hi bob",
                "mentions": ["bob"], "at": sent["at"],
            }  # fmt: skip
            assert structured(got)["timed_out"] is False
            removed = structured(await bob.call_tool("remove_participant", {"thread": "plan", "agent": "bob"}))
            assert removed["thread"]["participants"] == ["ann"]
            closed = structured(await ann.call_tool("close_thread", {"thread": "plan", "summary": "greeted"}))
            assert closed["thread"]["status"] == "closed"


@pytest.mark.parametrize("era", ERAS)
async def test_each_client_learns_who_serves_and_how_to_work_here(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann")
        async with at.client("ann", era) as ann:
            if era != "2026-07-28":  # which is adopted without asking
                assert "mentions" in (ann.instructions or "")
            told = (await ann.read_resource("circadia://instruction")).contents[0]
            assert "`ann` in the session `default`" in getattr(told, "text", "")


async def test_an_error_of_the_program_around_the_server_comes_out_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mine"):
        async with stand(tmp_path):
            raise ConfigError("mine")
