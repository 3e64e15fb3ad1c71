"""The agent `deploy`, which a worker starts for each pulse: it does the work of its prompt, replies and ends.

It has the parts of the programs of `circadia demo`; the only argument is the file with its part of the story.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from circadia.cli.demo.worker import DemoAgent, Specialist, open_clients
from circadia.client.calls import Client


async def main(part: dict[str, Any]) -> None:
    token, name = os.environ["CIRCADIA_TOKEN"], os.environ["CIRCADIA_AGENT"]
    os.environ.update(MCP_URL=os.environ["CIRCADIA_MCP_URL"], MCP_TOKEN=token)
    async with Client(os.environ["CIRCADIA_URL"], token) as circadia, open_clients() as (model, tools):
        agent = DemoAgent(part, model, tools, asyncio.Event())
        for message in (await circadia.show_inbox(name, states=["leased"])).messages:  # those of its prompt
            await Specialist(agent).handle(message.model_dump(by_alias=True))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
