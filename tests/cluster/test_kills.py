"""Processes of a cluster are killed at random instants under load: nothing acknowledged is lost, nothing ends twice."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.cluster.four_processes import four_processes
from tests.cluster.load import under_load
from tests.cluster.test_random_requests import SEED_VARIABLE

KILLS = 8
KILLS_OF_CHAOS = 300


def draw_seed() -> random.Random:
    seed = int(os.environ.get(SEED_VARIABLE, random.randrange(10**6)))
    print(f"{SEED_VARIABLE}={seed}", flush=True)
    return random.Random(seed)


async def kill_at_random(folder: Path, url: str, kills: int, *, short: bool) -> None:
    source = draw_seed()
    async with four_processes(folder, url, short=short) as cluster, under_load(cluster, source) as load:
        for _ in range(kills):
            await load.wait_for_more(1)  # on a busy machine too, some work is done between two kills
            await asyncio.sleep(source.uniform(0, 0.8))  # the instant is random
            await cluster.kill(source.choice(cluster.processes))


@pytest.mark.timeout(300)  # on a busy machine
@pytest.mark.spec("CLU-20")
async def test_kills_at_random_instants_lose_nothing_and_let_nothing_end_twice(
    tmp_path: Path, postgres_url: str
) -> None:
    await kill_at_random(tmp_path, postgres_url, KILLS, short=True)


@pytest.mark.slow
@pytest.mark.timeout(60 * 60)
@pytest.mark.spec("CLU-20")
async def test_three_hundred_kills_with_full_leases_lose_nothing_and_let_nothing_end_twice(
    tmp_path: Path, postgres_url: str
) -> None:
    await kill_at_random(tmp_path, postgres_url, KILLS_OF_CHAOS, short=False)
