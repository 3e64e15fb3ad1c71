"""An agent that one gateway has put to sleep sleeps at all gateways once that is answered."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from circadia.records.member import Role
from tests.interaction.live import Live
from tests.interaction.test_cluster import cluster, list_members, wait_until_listening

pytestmark = pytest.mark.spec("GATE-95")
CALLERS: Final = 16
"""Callers of one agent at each gateway."""
PAUSE_SECONDS: Final = 0.2
"""Longest pause of a caller between two calls."""
SEED: Final = 95


async def call_again_and_again(at: Live, token: str, pauses: random.Random) -> None:
    while True:
        await asyncio.sleep(pauses.uniform(0, PAUSE_SECONDS))
        async with at.call(token) as response:
            await response.read()
            assert response.status == 200


async def put_to_sleep(at: Live, name: str = "ann") -> Sequence[str]:
    """Put an agent to sleep; return the ids of the gateways that have not confirmed it."""
    status, answer = await at.rest("PUT", f"/sessions/default/agents/{name}/sleeping", {"sleeping": True})
    assert (status, answer["sleeping"]) == (200, True), answer
    return answer.get("unconfirmed", [])


async def wait_for_holds(gateways: Sequence[Live], each: int) -> None:
    async with asyncio.timeout(60):
        while any(at.server.waiting() < each for at in gateways):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("sleeps", [50, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_a_gateway_that_has_confirmed_a_sleep_sends_nothing_after_its_answer(
    tmp_path: Path, postgres_url: str, sleeps: int
) -> None:
    pauses, late = random.Random(SEED), 0
    confirmed = 0
    async with cluster(tmp_path, postgres_url, *[Role.GATEWAY] * 3) as gateways, AsyncExitStack() as stack:
        await wait_until_listening(postgres_url, 3)
        ids = {member["address"]: member["id"] for member in await list_members(gateways[0])}
        ann = await gateways[0].agent()
        callers = [
            asyncio.create_task(call_again_and_again(at, ann, pauses)) for at in gateways for _ in range(CALLERS)
        ]
        stack.callback(lambda: [caller.cancel() for caller in callers])
        for number in range(sleeps):
            asked = gateways[number % 3]
            unconfirmed = await put_to_sleep(asked)
            sent = {at.url: len(at.upstream.requests) for at in gateways}
            await wait_for_holds(gateways, CALLERS // 2)
            for at in gateways:
                if ids[at.url] not in unconfirmed:
                    late += len(at.upstream.requests) - sent[at.url]
                    confirmed += at is not asked
            await asked.sleeping(False)
        assert not [caller for caller in callers if caller.done()]
    print(f"{confirmed=} {late=}")
    assert late == 0
    assert confirmed > sleeps, "far most of them"
