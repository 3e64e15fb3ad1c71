"""A team of three agents in smolagents. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/smolagents/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


def work(name: str, token: str, description: str) -> None:
    model = OpenAIServerModel("gpt-5-mini", api_base=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    headers = {"Authorization": f"Bearer {token}"}
    address = {"url": f"{CIRCADIA}/mcp", "transport": "streamable-http", "headers": headers}
    with MCPClient(address, structured_output=False) as tools:
        agent = ToolCallingAgent(tools, model, instructions=description, max_steps=20, verbosity_level=0)
        print(f"{name}: {agent.run('Begin.')}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    threads = (asyncio.to_thread(work, agent["name"], agent["token"], agent["description"]) for agent in team)
    await asyncio.gather(*threads)


asyncio.run(main())
