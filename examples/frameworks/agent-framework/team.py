"""A team of three agents in Microsoft's Agent Framework. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/agent-framework/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx2
from agent_framework import Agent, MCPStreamableHTTPTool
from agent_framework.openai import OpenAIChatCompletionClient

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")
# Without this, the framework drops arguments that are named as its own objects are.
OWN_ARGUMENTS = {"additional_tool_argument_names": ["thread"]}


async def work(name: str, token: str, description: str) -> None:
    model = OpenAIChatCompletionClient("gpt-5-mini", base_url=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=None) as http,
        MCPStreamableHTTPTool("circadia", f"{CIRCADIA}/mcp", http_client=http, **OWN_ARGUMENTS) as circadia,
        Agent(model, description, name=name, tools=circadia) as agent,
    ):
        result = await agent.run("Begin.")
    print(f"{name}: {result.text}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
