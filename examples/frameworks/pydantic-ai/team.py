"""A team of three agents in Pydantic AI. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/pydantic-ai/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


async def work(name: str, token: str, description: str) -> None:
    provider = OpenAIProvider(base_url=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    circadia = MCPToolset(f"{CIRCADIA}/mcp", headers={"Authorization": f"Bearer {token}"}, read_timeout=None)
    agent = Agent(OpenAIChatModel("gpt-5-mini", provider=provider), instructions=description, toolsets=[circadia])
    result = await agent.run("Begin.")
    print(f"{name}: {result.output}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
