"""A team of three agents in OpenAI's Agents SDK. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/openai-agents/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")
set_tracing_disabled(True)  # traces would go to OpenAI, with the agent's token as key


async def work(name: str, token: str, description: str) -> None:
    openai = AsyncOpenAI(base_url=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    address = {"url": f"{CIRCADIA}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    async with MCPServerStreamableHttp(address, client_session_timeout_seconds=None) as circadia:
        model = OpenAIResponsesModel("gpt-5-mini", openai)
        agent = Agent(name, instructions=description, model=model, mcp_servers=[circadia])
        result = await Runner.run(agent, "Begin.", max_turns=20)
    print(f"{name}: {result.final_output}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
