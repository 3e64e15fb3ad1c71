"""What each official SDK makes of a gateway that stops, with another one behind the same balancer."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anthropic
import openai
import pytest
from mcp import MCPError

from circadia.testing.mcp_upstream import MockMcpServer
from tests.clients.mcp_clients import mcp_clients
from tests.clients.model_clients import model_clients
from tests.clients.node_program import NodeFailed
from tests.cluster.gateway_pair import REPLY, Pair, two_gateways

SILENT: Final = {"hold_grace_seconds": 60.0, "hold_silent_seconds": 60.0}
OPENED: Final = {"hold_grace_seconds": 0.1, "hold_silent_seconds": 0.1, "keep_alive_seconds": 0.1}
MODELS: Final = [client for client in model_clients() if "-sync-" not in client.name and "responses" not in client.name]
"""One call of each SDK, buffered and streamed: what it does about errors is the same in all its calls."""
TOOLS: Final = [client for client in mcp_clients() if "auto" not in client.name]
STOPS: Final = "the server is stopping; the call was not executed, send it again"
NOTHING_YET: Final = "Nothing yet. Call this tool again to go on waiting."
BROKEN: Final = "terminated"
"""The words of Node's fetch for a connection that broke off within a body."""


async def describe(call: Coroutine[Any, Any, Any]) -> str:
    """Return the answer of a call, or the kind of its error and whether it says what happened."""
    try:
        answer = await call
    except (NodeFailed, openai.OpenAIError, anthropic.AnthropicError, MCPError) as error:
        kind = error.classes[0] if isinstance(error, NodeFailed) else type(error).__name__
        return f"{kind}: {next((words for words in (STOPS, BROKEN) if words in str(error)), str(error))}"
    return answer if isinstance(answer, str) else answer.text


@dataclass(frozen=True, kw_only=True)
class HeldClients:
    """Clients whose calls the stopping gateway holds."""

    pair: Pair
    answers: Mapping[str, asyncio.Task[str]]

    async def collect(self) -> dict[str, str]:
        await asyncio.wait(self.answers.values())
        return {name: answer.result() for name, answer in self.answers.items()}


@asynccontextmanager
async def held_clients(
    folder: Path, url: str, defaults: Mapping[str, float], **server: Any
) -> AsyncGenerator[HeldClients]:
    """Let one gateway hold a call of each model SDK, and a tool call and a wait of each MCP SDK; then start another."""
    async with MockMcpServer() as tools:
        servers = {"tools": {"url": tools.url}}
        async with two_gateways(folder, url, defaults=defaults, server=server, mcp_servers=servers) as pair:
            token = await pair.add_sleeper()
            await pair.staying.terminate()
            await pair.wait_until_balanced({"0"})
            calls: dict[str, Coroutine[Any, Any, Any]] = {
                client.name: client.say(pair.url, token, "hello") for client in MODELS
            }
            for client in TOOLS:
                tool = client.call(f"{pair.url}/mcp/tools", token, "echo", {"text": REPLY}, False)
                wait = client.call(f"{pair.url}/mcp", token, "wait_for_message", {"timeout_seconds": 300}, False)
                calls |= {f"{client.name} tool": tool, f"{client.name} wait": wait}
            answers = {name: asyncio.create_task(describe(call)) for name, call in calls.items()}
            await pair.stopping.held(len(answers), seconds=1.0)
            await pair.staying.start()
            await pair.wait_until_balanced({"0", "1"})
            yield HeldClients(pair=pair, answers=answers)


@pytest.mark.spec("CLU-31")
async def test_model_sdks_hide_that_the_gateway_of_a_silent_hold_has_stopped_and_mcp_sdks_say_so(
    tmp_path: Path, postgres_url: str
) -> None:
    async with held_clients(tmp_path, postgres_url, SILENT) as clients:
        assert await clients.pair.stopping.terminate() == 0
        await clients.pair.staying.held(len(MODELS))
        await clients.pair.wake()
        assert await clients.collect() == {
            **{client.name: REPLY for client in MODELS},
            "python-handshake tool": f"MCPError: {STOPS}",
            "python-stateless tool": f"MCPError: {STOPS}",
            "typescript-v1 tool": f"StreamableHTTPError: {STOPS}",
            "typescript-v2-handshake tool": f"SdkHttpError: {STOPS}",
            "typescript-v2-stateless tool": f"SdkHttpError: {STOPS}",
            **{f"{client.name} wait": NOTHING_YET for client in TOOLS},
        }
        assert len(clients.pair.provider.requests) == len(MODELS)


@pytest.mark.spec("CLU-31")
async def test_each_sdk_has_its_own_answer_to_the_end_of_an_opened_hold(tmp_path: Path, postgres_url: str) -> None:
    async with held_clients(tmp_path, postgres_url, OPENED, drain_seconds=2) as clients:
        assert await clients.pair.stopping.terminate() == 0
        await clients.pair.staying.held(2)
        await clients.pair.wake()
        assert await clients.collect() == {
            "openai-chat-async-streamed": f"APIError: {STOPS}",
            "openai-chat-node-streamed": f"APIError: {STOPS}",
            "openai-chat-async-buffered": REPLY,
            "openai-chat-node-buffered": f"TypeError: {BROKEN}",
            "anthropic-messages-async-streamed": f"APIStatusError: {STOPS}",
            "anthropic-messages-node-streamed": f"APIError: {STOPS}",
            "anthropic-messages-async-buffered": REPLY,
            "anthropic-messages-node-buffered": f"TypeError: {BROKEN}",
            "python-handshake tool": f"MCPError: {STOPS}",
            "python-stateless tool": f"MCPError: {STOPS}",
            "typescript-v1 tool": f"McpError: {STOPS}",
            "typescript-v2-handshake tool": f"ProtocolError: {STOPS}",
            "typescript-v2-stateless tool": f"ProtocolError: {STOPS}",
            **{f"{client.name} wait": NOTHING_YET for client in TOOLS},
        }
