"""The mock MCP server is a real one, in both eras, over HTTP and over stdio."""

import asyncio
import sys

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import TextContent, TextResourceContents

from circadia.testing.mcp_upstream import MockMcpServer

ERAS = ["legacy", "2026-07-28"]
STDIO = StdioServerParameters(command=sys.executable, args=["-m", "circadia.testing.mcp_upstream", "--stdio"])


async def said(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, dict(arguments))
    assert not result.is_error, result
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


@pytest.mark.parametrize("era", ERAS)
async def test_tools_a_resource_and_a_prompt_are_served_over_http(era: str) -> None:
    async with MockMcpServer() as server, Client(server.url, mode=era) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"echo", "add", "slow", "whoami_env"}
        assert await said(client, "echo", text="hello") == "hello"
        assert await said(client, "add", a=2, b=3) == "5.0"
        content = (await client.read_resource("mock://greeting")).contents[0]
        assert isinstance(content, TextResourceContents)
        assert content.text == "hello from the mock"
        prompt = await client.get_prompt("greet", {"name": "Ada"})
        assert isinstance(prompt.messages[0].content, TextContent)
        assert prompt.messages[0].content.text == "Say hello to Ada."
        assert [call.name for call in server.calls] == ["echo", "add", "resource greeting", "prompt greet"]
        assert server.calls[1].arguments == {"a": 2, "b": 3}


@pytest.mark.parametrize("era", ERAS)
async def test_a_slow_tool_reports_progress(era: str) -> None:
    steps: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with MockMcpServer() as server, Client(server.url, mode=era) as client:
        await client.call_tool("slow", {"seconds": 0.05}, progress_callback=note)
        assert steps == [0, 1, 2, 3, 4, 5]


async def test_calls_wait_while_the_gate_is_closed() -> None:
    async with MockMcpServer() as server, Client(server.url) as client:
        server.gate.clear()
        asked = asyncio.create_task(said(client, "echo", text="later"))
        await server.wait_for_calls(1)
        assert not asked.done()
        server.gate.set()
        assert await asked == "later"


@pytest.mark.parametrize("era", ERAS)
async def test_it_serves_over_stdio(era: str) -> None:
    async with Client(STDIO, mode=era) as client:
        assert await said(client, "echo", text="hello") == "hello"
        assert "crash" in {tool.name for tool in (await client.list_tools()).tools}


async def test_the_process_tells_its_id_and_only_the_variables_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOCK_SEEN", "yes")
    monkeypatch.setenv("MOCK_UNSEEN", "no")
    async with MockMcpServer() as server, Client(server.url) as client:
        told = await said(client, "whoami_env", names=["MOCK_SEEN", "MOCK_MISSING"])
        assert '"MOCK_SEEN": "yes"' in told
        assert '"pid"' in told
        assert "MOCK_UNSEEN" not in told


async def test_the_process_can_crash_on_demand() -> None:
    async with Client(STDIO) as client:
        with pytest.raises(MCPError):
            await client.call_tool("crash", {})


async def test_it_runs_as_a_process_over_http_and_prints_its_url() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "circadia.testing.mcp_upstream", "--port", "0"), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        async with Client(url) as client:
            assert await said(client, "echo", text="hello") == "hello"
    finally:
        process.terminate()
        await process.communicate()
