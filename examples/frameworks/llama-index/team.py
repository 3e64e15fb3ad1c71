"""A team of three agents in LlamaIndex. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/llama-index/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


async def work(name: str, token: str, description: str) -> None:
    model = OpenAI("gpt-5-mini", api_base=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    circadia = BasicMCPClient(f"{CIRCADIA}/mcp", timeout=3600, headers={"Authorization": f"Bearer {token}"})
    tools = await McpToolSpec(circadia).to_tool_list_async()
    agent = FunctionAgent(tools=tools, llm=model, system_prompt=description, timeout=None)
    print(f"{name}: {await agent.run('Begin.')}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
