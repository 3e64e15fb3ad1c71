"""Writers that send messages without a pause, and what of it was acknowledged."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.fixtures.server_process import CircadiaProcess

WRITERS = 4
PATIENCE_SECONDS = 60.0


class MessageLoad:
    """Four writers who each wait for the answer before they send the next message."""

    def __init__(self, server: CircadiaProcess, thread: str) -> None:
        self._server = server
        self._thread = thread
        self.acknowledged: list[str] = []

    @classmethod
    @asynccontextmanager
    async def start(cls, server: CircadiaProcess) -> AsyncGenerator["MessageLoad"]:
        """Create the session `team` with its thread, and send to it for as long as the block lasts."""
        await server.create_session("team", [{"name": "ann"}, {"name": "bob"}])
        body = {"name": "t", "participants": ["ann", "bob"]}
        thread = await server.call("POST", "/sessions/team/threads", body)
        load = cls(server, thread["id"])
        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(load._write(name)) for name in range(WRITERS)]
            yield load
            for writer in writers:
                writer.cancel()

    async def _write(self, name: int) -> None:
        for number in itertools.count():
            content = f"writer {name} message {number}"
            body: dict[str, Any] = {"from": "bob", "content": content, "mentions": []}
            await self._server.call("POST", f"/sessions/team/threads/{self._thread}/messages", body)
            self.acknowledged.append(content)

    async def wait_for_more(self, count: int) -> list[str]:
        """Return what is acknowledged, once it is so much more than now."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.acknowledged) < wanted:
                await asyncio.sleep(0.01)
        return list(self.acknowledged)

    async def fetch_stored(self, server: CircadiaProcess) -> list[str]:
        """Return the contents of all messages that a server has in the thread."""
        contents: list[str] = []
        after = 0
        while True:
            path = f"/sessions/team/threads/{self._thread}/messages?limit=1000&after={after}"
            page = (await server.call("GET", path))["messages"]
            if not page:
                return contents
            contents += [message["content"] for message in page]
            after = page[-1]["number"]
