"""A team of three agents in CrewAI. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/crewai/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from crewai import LLM, Agent
from crewai_tools import MCPServerAdapter

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


def work(name: str, token: str, description: str) -> None:
    model = LLM(model="openai/gpt-5-mini", base_url=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    headers = {"Authorization": f"Bearer {token}"}
    with MCPServerAdapter({"url": f"{CIRCADIA}/mcp", "transport": "streamable-http", "headers": headers}) as tools:
        agent = Agent(role=name, goal="Do your part.", backstory=description, llm=model, tools=list(tools))
        result = agent.kickoff("Begin.")
    print(f"{name}: {result.raw}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    threads = (asyncio.to_thread(work, agent["name"], agent["token"], agent["description"]) for agent in team)
    await asyncio.gather(*threads)


asyncio.run(main())
