"""A server is killed while webhooks arrive: what got its 202 is a message and a wake, and nothing is there twice."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests.fixtures.server_process import CircadiaProcess
from tests.wake.hook_senders import SECRETS, sign

KILLS: Final = 5
HOOKS: Final[dict[str, Any]] = {
    "github": {"agent": "ann", "signature": "github", "secret_env": "HOOK_SECRET", "wake": "blocker"}
}
FREE: Final[dict[str, Any]] = {"wake_guardrails": {"cooldown_seconds": 0, "max_wakes_per_day": None}}


async def send_all(http: aiohttp.ClientSession, url: str, numbers: set[int], accepted: set[int]) -> None:
    """Deliver each of the numbers, eight at once; keep in `accepted` those that got 202, until nobody answers."""
    waiting = sorted(numbers)

    async def send() -> None:
        while waiting:
            number = waiting.pop()
            body = json.dumps({"n": number}).encode()
            headers = sign("github", body, at=time.time(), delivery=f"d{number}")
            try:
                async with http.post(f"{url}/hooks/github", data=body, headers=headers) as answer:
                    assert answer.status in (200, 202), await answer.text()
                    accepted.add(number)
            except (aiohttp.ClientError, ConnectionError):
                return

    await asyncio.gather(*(send() for _ in range(8)))


@pytest.mark.spec("WAKE-82")
async def test_a_kill_loses_no_accepted_delivery_and_a_repeat_after_it_is_no_second_message(tmp_path: Path) -> None:
    source = random.Random(4114)
    config = {"hooks": HOOKS, "limits": {"max_failed_tokens_per_minute": None}}
    async with (
        CircadiaProcess(tmp_path, config, env={"HOOK_SECRET": SECRETS["github"]}) as server,
        aiohttp.ClientSession() as http,
    ):
        await server.create_session("team", [{"name": "other"}])
        await server.call("POST", "/sessions/default/agents", {"name": "ann", "sleep_events": ["agent_started"]})
        await server.call("PATCH", "/agents/ann/coordination", FREE)
        sent, accepted, seen = set[int](), set[int](), 0
        for round_number in range(KILLS):
            sent |= set(range(round_number * 1_000, round_number * 1_000 + 1_000))
            sending = asyncio.create_task(send_all(http, server.url, sent - accepted, accepted))
            wanted = len(accepted) + source.randrange(5, 40)
            async with asyncio.timeout(60):
                while len(accepted) < wanted:
                    await asyncio.sleep(0.001)
            await server.kill9()
            await sending
            await server.start()
            stored = await read_numbers(server)
            assert accepted <= set(stored)
            assert len(stored) == len(set(stored)) > seen
            seen = len(stored)
        left = set(list(sent - accepted)[:200])
        await send_all(http, server.url, left, accepted)
        stored = await read_numbers(server)
        assert len(stored) == len(set(stored))
        assert accepted <= set(stored)
        rows = (await server.call("GET", "/hooks/github/deliveries?limit=1000"))["deliveries"]
        messages = {row["message"] for row in rows}
        assert len(messages) == len(rows) == len(stored)
        assert all(row["wake"] is not None for row in rows)


async def read_numbers(server: CircadiaProcess) -> list[int]:
    """Return the number in each message of ann's inbox."""
    numbers: list[int] = []
    after = ""
    while True:
        page = await server.call("GET", f"/agents/ann/inbox?limit=200&state=unread&state=leased{after}")
        numbers += [json.loads(message["content"].partition("\n\n")[2])["n"] for message in page["messages"]]
        if page["after"] is None:
            return numbers
        after = f"&after={page['after']}"
