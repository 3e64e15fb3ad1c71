"""A team of three agents in the Claude Agent SDK. Each one sleeps, at no cost, until a message wakes it.

python examples/frameworks/claude-agent-sdk/team.py tokens.json
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

CIRCADIA = os.environ.get("CIRCADIA_URL", "http://127.0.0.1:4114")


async def work(name: str, token: str, description: str) -> None:
    circadia = {"type": "http", "url": f"{CIRCADIA}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    options = ClaudeAgentOptions(
        model="claude-sonnet-5-5",
        system_prompt=description,
        mcp_servers={"circadia": circadia},
        allowed_tools=["mcp__circadia"],
        tools=[],
        setting_sources=[],
        env={"ANTHROPIC_BASE_URL": f"{CIRCADIA}/llm/anthropic", "ANTHROPIC_AUTH_TOKEN": token},
    )
    async for message in query(prompt="Begin.", options=options):
        if isinstance(message, ResultMessage):
            print(f"{name}: {message.result}", flush=True)


async def main() -> None:
    team = json.loads(Path(sys.argv[1]).read_text("utf-8"))["agents"]
    await asyncio.gather(*(work(agent["name"], agent["token"], agent["description"]) for agent in team))


asyncio.run(main())
