"""A team of three agents in LangGraph. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/langgraph/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


async def work(name: str, token: str, description: str) -> None:
    model = ChatOpenAI(model="gpt-5-mini", base_url=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    headers = {"Authorization": f"Bearer {token}"}
    circadia = MultiServerMCPClient(
        {"circadia": {"transport": "streamable_http", "url": f"{CIRCADIA}/mcp", "headers": headers}}
    )
    graph = create_agent(model, tools=await circadia.get_tools(), system_prompt=description)
    state = await graph.ainvoke({"messages": [("user", "Begin.")]})
    print(f"{name}: {state['messages'][-1].content}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
