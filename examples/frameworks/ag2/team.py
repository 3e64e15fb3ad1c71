"""A team of three agents in AG2. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/ag2/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from ag2 import Agent
from ag2.config import OpenAIConfig
from ag2.tools import MCPServerConfig, MCPToolkit

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


async def work(name: str, token: str, description: str) -> None:
    model = OpenAIConfig("gpt-5-mini", base_url=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    circadia = MCPServerConfig(server_url=f"{CIRCADIA}/mcp", authorization_token=token, connection_timeout=3600)
    agent = Agent(name, description, config=model, tools=[MCPToolkit(circadia)])
    reply = await agent.ask("Begin.")
    print(f"{name}: {await reply.content()}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
