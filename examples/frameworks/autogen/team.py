"""A team of three agents in AutoGen. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/autogen/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StreamableHttpServerParams

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


async def work(name: str, token: str, description: str) -> None:
    model = OpenAIChatCompletionClient(model="gpt-5-mini", base_url=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    headers = {"Authorization": f"Bearer {token}"}
    address = StreamableHttpServerParams(url=f"{CIRCADIA}/mcp", headers=headers, sse_read_timeout=3600)
    async with McpWorkbench(address) as circadia:
        agent = AssistantAgent(name, model, workbench=circadia, system_message=description, max_tool_iterations=20)
        result = await agent.run(task="Begin.")
    print(f"{name}: {result.messages[-1].to_text()}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
