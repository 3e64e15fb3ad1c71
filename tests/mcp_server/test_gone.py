"""A caller that goes away, at any moment, takes nothing with it."""

import asyncio
from pathlib import Path

import pytest
from starlette.types import Message, Scope

from circadia.agents.waits import MessageFilter
from circadia.records.principal import Principal
from tests.mcp_server.stand import MODERN, Stand, stand, tool_call


async def ask(at: Stand, agent: str, era: str) -> None:
    """Send a wait straight to the door."""
    body, named = tool_call(era, "wait_for_message", {"timeout_seconds": 60})
    headers = {**named, "authorization": f"Bearer {at.tokens[agent]}"}
    bodies = [body]

    async def receive() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        await asyncio.Future[None]()
        raise AssertionError

    async def send(_: Message) -> None:
        await asyncio.Future[None]()  # the caller reads nothing

    scope: Scope = {
        "type": "http", "method": "POST", "path": "/mcp", "query_string": b"",
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
    }  # fmt: skip
    await at.door(scope, receive, send)


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
@pytest.mark.spec("GATE-47")
async def test_a_wait_that_is_cancelled_at_any_moment_leaves_its_messages_unread(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        ann = await at.agent("ann")
        async with at.store.begin_write() as tx:
            home = await tx.sessions.get_by_name("default")
            assert home is not None
            thread = await at.threads.create(tx, Principal(), home, "t", ["ann"])
            await at.threads.send(tx, Principal(), home, thread, "keep me")
        for moment in range(150):
            call = asyncio.create_task(ask(at, "ann", era))
            for _ in range(moment):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            found = await at.waits.take(ann, MessageFilter(), 60.0)
            assert [each.message.content for each in found] == ["keep me"], f"lost at step {moment}"
            await at.waits.release(ann.id, [each.message.id for each in found])
