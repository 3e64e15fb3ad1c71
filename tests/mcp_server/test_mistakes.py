"""A client's mistake is a tool error with a remedy; nothing of it crashes, and nothing of a crash shows."""

import logging
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from circadia.errors import InvalidRequest
from circadia.mcp_server.tool import read_arguments
from circadia.mcp_server.tools import RETHINK_TOOLS, TOOLS, Tool
from tests.mcp_server.stand import ERAS, Stand, refused, stand, structured

MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("create_thread", {}, "argument 'name' is missing"),
    ("create_thread", {"name": ""}, "needs a name"),
    ("create_thread", {"name": "x" * 201}, "1 to 200 characters"),
    ("create_thread", {"name": "x\0"}, "NUL character"),
    ("create_thread", {"name": "x", "participants": ["bob", "\0"]}, "NUL character"),
    ("wake_agent", {"to": "bob", "message": "x", "reason": "bored"}, "'reason': it is one of 'blocker', "),
    ("message_agent", {"to": "bob", "message": "x", "key": {"a": [[["\0"]]]}}, "should be a valid string"),
    ("create_thread", {"name": "x", "participants": "bob"}, "'participants': Input should be a valid list"),
    ("create_thread", {"name": "x", "participants": ["bob", 3]}, "'participants.1'"),
    ("create_thread", {"name": "x", "participants": ["nobody"]}, "no agent 'nobody'"),
    ("create_thread", {"name": "x", "participants": ["elsewhere:far"]}, "may not reach session 'elsewhere'"),
    ("create_thread", {"name": "x", "participant": []}, "did you mean 'participants'?"),
    ("add_participant", {"thread": "t", "agent": "bob"}, "takes part in thread 't' already"),
    ("add_participant", {"thread": "nowhere", "agent": "bob"}, "no thread 'nowhere'"),
    ("add_participant", {"thread": "hers", "agent": "bob"}, "takes no part in thread 'hers'"),
    ("add_participant", {"thread": "twice", "agent": "bob"}, "several open threads are named 'twice'; use the id"),
    ("remove_participant", {"thread": "t", "agent": "cid"}, "takes no part"),
    ("close_thread", {"thread": "hers"}, "takes no part"),
    ("close_thread", {"thread": "done"}, "closed already"),
    ("close_thread", {"thread": "t", "summary": "x" * 4001}, "'summary'"),
    ("send_message", {"thread": "t"}, "argument 'content' is missing"),
    ("send_message", {"thread": "t", "content": " "}, "needs content"),
    ("send_message", {"thread": "t", "content": "one\0two"}, "NUL character"),
    ("send_message", {"thread": "t", "content": "x" * 64_001}, "64000 characters"),
    ("send_message", {"thread": "t", "content": 7}, "'content': Input should be a valid string (got 7)"),
    ("send_message", {"thread": "t", "content": "x", "mentions": ["ann"]}, "may not mention itself"),
    ("send_message", {"thread": "t", "content": "x", "mentions": ["cid"]}, "add it first"),
    ("send_message", {"thread": "t", "content": "x", "mentions": [None]}, "'mentions.0'"),
    ("send_message", {"thread": "done", "content": "x"}, "is closed; open another"),
    ("send_message", {"thread": "hers", "content": "x"}, "ask to be added"),
    ("wait_for_message", {"timeout_seconds": "5"}, "'timeout_seconds': Input should be a valid number (got '5')"),
    ("wait_for_message", {"timeout_seconds": True}, "'timeout_seconds'"),
    ("wait_for_message", {"timeout_seconds": -1}, "greater than or equal to 0"),
    ("wait_for_mention", {"timeout_seconds": 3601}, "less than or equal to 3600"),
    ("wait_for_mention", {"timeout": 3}, "did you mean 'timeout_seconds'?"),
    ("wait_for_agent", {"timeout_seconds": 3}, "argument 'agent' is missing"),
    ("list_agents", {"session": "x"}, "there is no argument 'session'; it takes none"),
    ("set_sleeping", {"agent": "bob", "sleeping": "true"}, "'sleeping': Input should be a valid boolean (got 'true')"),
    ("set_sleeping", {"agent": "bob", "sleeping": 1}, "'sleeping'"),
]


async def peopled(at: Stand) -> None:
    """Make the agents and threads that the mistakes are about."""
    for name in ("ann", "bob", "cid"):
        await at.agent(name)
    await at.agent("far", session="elsewhere")
    async with at.client("ann") as ann, at.client("cid") as cid:
        structured(await cid.call_tool("create_thread", {"name": "hers"}))
        for name in ("t", "done", "twice", "twice"):
            structured(await ann.call_tool("create_thread", {"name": name, "participants": ["bob"]}))
        structured(await ann.call_tool("close_thread", {"thread": "done"}))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("GATE-72")
async def test_each_mistake_is_a_tool_error_that_says_what_to_do(
    tmp_path: Path, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with stand(tmp_path) as at:
        await peopled(at)
        async with at.client("ann", era) as ann:
            for tool, given, remedy in MISTAKES:
                result = await ann.call_tool(tool, given)
                assert remedy in refused(result), (tool, given)
                assert result.structured_content is None
                code = refused(result).partition(":")[0]
                assert (result.meta or {})["circadia/error"]["code"] == code
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("GATE-72")
async def test_an_unknown_tool_or_resource_is_a_protocol_error_with_the_nearest_name(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann")
        async with at.client("ann", era) as ann:
            with pytest.raises(MCPError) as tool:
                await ann.call_tool("send_mesage", {})
            assert tool.value.code == -32602
            assert "did you mean 'send_message'" in str(tool.value)
            with pytest.raises(MCPError) as resource:
                await ann.read_resource("circadia://nothing")
            assert resource.value.code == -32004
            assert "circadia://state" in str(resource.value)


@pytest.mark.spec("GATE-72")
async def test_an_unforeseen_failure_is_logged_whole_and_told_blandly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann")
        async with at.client("ann") as ann:
            at.break_reading("the secret in the traceback")
            told = refused(await ann.call_tool("list_agents"))
            assert told.startswith("internal_error: ")
            assert "secret" not in told
            with pytest.raises(MCPError) as read:
                await ann.read_resource("circadia://state")
            assert "secret" not in str(read.value)
    assert caplog.text.count("the secret in the traceback") >= 2


async def test_a_full_disk_is_a_tool_error_that_may_pass_later(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann")
        async with at.client("ann") as ann:
            structured(await ann.call_tool("list_agents"))
            await at.store.close()
            result = await ann.call_tool("sleep_self")
            assert refused(result).startswith("storage_unavailable: ")
            assert (result.meta or {})["circadia/error"]["retryable"] is True


def test_each_tool_tells_a_model_what_it_does_and_what_each_argument_means() -> None:
    for tool in TOOLS:
        listed = tool.as_listed_tool()
        assert len(tool.description) > 60, tool.name
        assert "additionalProperties" not in listed.input_schema  # a refusal names what there is not
        for name, part in listed.input_schema["properties"].items():
            assert part.get("description"), f"{tool.name}.{name}"
        assert "title" not in str(listed.input_schema)


@pytest.mark.parametrize("tool", [*TOOLS, *RETHINK_TOOLS], ids=lambda tool: tool.name)
def test_null_for_what_may_be_left_out_is_as_if_it_were(tool: Tool) -> None:
    def told(given: dict[str, object]) -> object:
        try:
            return read_arguments(tool.name, tool.arguments, given)
        except InvalidRequest as error:  # what must be there lacks in both
            return error.message

    fields = tool.arguments.model_fields
    assert told({name: None for name, field in fields.items() if not field.is_required()}) == told({})
    for name in (name for name, field in fields.items() if field.is_required()):
        with pytest.raises(InvalidRequest, match=rf"argument '{name}': .*got None"):
            read_arguments(tool.name, tool.arguments, {name: None})
