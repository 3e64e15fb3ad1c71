"""What each official SDK makes of a gateway that stops, with another one behind the same balancer."""

import asyncio
from collections.abc import Coroutine, Mapping
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
from tests.cluster.gateway_pair import QUICK, REPLY, Pair, two_gateways

SILENT: Final = {"hold_grace_seconds": 60.0, "hold_silent_seconds": 60.0}
OPENED: Final = {"hold_grace_seconds": 0.1, "hold_silent_seconds": 0.1, "keep_alive_seconds": 0.1}


async def describe(call: Coroutine[Any, Any, Any]) -> str:
    try:
        answer = await call
    except NodeFailed as error:
        return f"{error.classes[0]} {error.status}: {error.message}"
    except (openai.OpenAIError, anthropic.AnthropicError, MCPError) as error:
        return f"{type(error).__name__} {getattr(error, 'status_code', None)}: {error}"
    return answer if isinstance(answer, str) else answer.text


@pytest.mark.parametrize("defaults", [SILENT, OPENED], ids=["silent", "opened"])
async def test_measure(tmp_path: Path, postgres_url: str, defaults: dict[str, float]) -> None:
    models, tools = model_clients(), mcp_clients()
    async with MockMcpServer() as server, two_gateways(
        tmp_path, postgres_url, defaults=defaults, server={"drain_seconds": 2},
        mcp_servers={"tools": {"url": server.url}},
    ) as pair:
        token = await pair.add_sleeper()
        await pair.staying.terminate()
        await pair.wait_until_balanced({"0"})
        calls: dict[str, Coroutine[Any, Any, Any]] = {}
        for client in models:
            calls[client.name] = client.say(pair.url, token, "hello")
        for client in tools:
            for progress in (True, False):
                calls[f"{client.name} tool {progress}"] = client.call(f"{pair.url}/mcp/tools", token, "echo", {"text": "hi"}, progress)
                calls[f"{client.name} wait {progress}"] = client.call(f"{pair.url}/mcp", token, "wait_for_message", {"timeout_seconds": 100}, progress)
        tasks = {name: asyncio.create_task(describe(call)) for name, call in calls.items()}
        await pair.stopping.held(len(tasks), seconds=1.0)
        await pair.staying.start()
        await pair.wait_until_balanced({"0", "1"})
        pair.stopping.begin_to_stop()
        await pair.stopping.gone()
        await asyncio.sleep(8)
        await pair.wake()
        answers = await asyncio.gather(*tasks.values())
        for name, answer in zip(tasks, answers, strict=True):
            print(f"{name:50} {answer[:300]}")
