"""A team of three agents in Google's Agent Development Kit. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/google-adk/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


async def work(name: str, token: str, description: str) -> None:
    model = LiteLlm("openai/gpt-5-mini", api_base=f"{CIRCADIA}/llm/openai/v1", api_key=token)
    headers = {"Authorization": f"Bearer {token}"}
    address = StreamableHTTPConnectionParams(
        url=f"{CIRCADIA}/mcp", headers=headers, timeout=3600, sse_read_timeout=3600
    )
    circadia = McpToolset(connection_params=address)
    agent = LlmAgent(name=name, model=model, instruction=description, tools=[circadia])
    async with InMemoryRunner(agent) as runner:
        events = await runner.run_debug("Begin.", quiet=True)
    print(f"{name}: {events[-1].content.parts[-1].text}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
