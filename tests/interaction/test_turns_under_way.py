"""What holds a pass back: an answer that somebody waits for, and no call that has none."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.interaction.live import Live, live

Call = Callable[[Live, str], Awaitable[int]]
COUNT = {"model": "claude", "messages": [{"role": "user", "content": "hello"}]}


async def counted(at: Live, token: str) -> int:
    async with at.call(token, "/v1/messages/count_tokens", COUNT, upstream="anthropic") as response:
        return response.status


async def refused(at: Live, token: str) -> int:
    """Make several calls at once of which one is allowed, and return the status of another."""
    found = sorted([status for status, _ in await asyncio.gather(*(at.answered(token) for _ in range(8)))])
    assert found[0] == 200
    return found[1]


@pytest.mark.spec("SLEEP-01")
@pytest.mark.parametrize(("call", "status"), [(counted, 200), (refused, 429)])
async def test_a_count_of_tokens_and_a_refused_call_hold_no_pass_back(tmp_path: Path, call: Call, status: int) -> None:
    async with live(tmp_path, sleeptime={"when": "manual", "model": "none"}) as at:
        token = await at.agent(bank="team", max_calls_per_day=1)
        await at.rest("POST", "/banks", {"name": "team"})
        assert await call(at, token) == status
        await at.rest("POST", "/banks/team/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})
        await at.rest("PATCH", "/banks/team", {"policy": {"sleeptime": {"idle_seconds": 0}}})
        async with asyncio.timeout(60):
            while not (await at.rest("GET", "/banks/team/passes"))[1]["passes"]:
                await asyncio.sleep(0.05)
