"""Writing requests of all kinds, in random pairs and bursts at two servers: no deadlock, no failure, no late lock."""

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from circadia.ids import AgentId, SessionId
from circadia.stores.locks import agent_key, session_key
from circadia.stores.postgres import open_postgres
from circadia.stores.sql.driver_errors import BUSY
from circadia.stores.sql_store import SqlStore
from tests.cluster.random_requests import RARE, REQUESTS
from tests.cluster.scene import PauseWatcher, Scene, two_servers
from tests.contract.test_parallel_writers import count, count_deadlocks

SEED_VARIABLE = "CIRCADIA_CHAOS_SEED"
BURSTS = 60
BURSTS_OF_SLOW_TEST = 2000
MOST_AT_ONCE = 8
PAUSES = {"idle-in-transaction timeout": 1.0, "closed in the middle of operation": 1.0}
"""What may fail if the machine stands still for so many seconds. A process that stands still in a transaction is cut
off after 2 s (CLU-24); what it hears of that, by PostgreSQL or by asyncpg, depends on what it does in that moment."""
BURSTS_PER_BUSY = 60
"""Who takes a key out of order, since agents joined while it waited, waits for it for 0.25 s and is then told to send
the request again. On a busy machine, whose transactions take longer than that, it happens in so many bursts at most."""
_IDLE_IN_TRANSACTION = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '1 second'"
)


async def test_a_lock_out_of_order_is_seen_with_its_stack(postgres_url: str, late_locks: dict[str, str]) -> None:
    store = await open_postgres(postgres_url)
    try:
        async with store.begin_write(agent_key(AgentId("agt_1"))) as tx:
            await tx.events.last_number()
            await tx.hold(session_key(SessionId("ses_1")))
    finally:
        await store.close()
    ((stack, keys),) = late_locks.items()
    assert "agt_1" in keys
    assert "ses_1" in keys
    assert "tx.py" in stack


@pytest.mark.spec("CLU-01")
@pytest.mark.parametrize("bursts", [BURSTS, pytest.param(BURSTS_OF_SLOW_TEST, marks=pytest.mark.slow)])
async def test_random_requests_at_two_servers_neither_deadlock_nor_fail(
    tmp_path: Path, postgres_url: str, late_locks: dict[str, str], bursts: int
) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, random.randrange(10**6)))
    print(f"{SEED_VARIABLE}={seed}")
    source = random.Random(seed)
    weights = [1 if request in RARE else 4 for request in REQUESTS]
    fleet = {"max_wakes_per_day": 10**9}  # a limit, so that its key is taken
    passes = {"when": "manual", "model": "none"}
    async with two_servers(tmp_path, postgres_url, fleet=fleet, sleeptime=passes) as servers:
        scene, watcher = Scene(servers, source), PauseWatcher()
        for _ in range(bursts):
            await scene.restore()
            at_once = source.choice((2, 2, source.randint(3, MOST_AT_ONCE)))
            chosen = source.choices(REQUESTS, weights, k=at_once)
            await asyncio.gather(*(request(scene) for request in chosen))
        pause = watcher.stop()
        store = await open_postgres(postgres_url)
        try:
            assert isinstance(store, SqlStore)
            deadlocks = await count_deadlocks(store)
            idle = await count(store, _IDLE_IN_TRANSACTION)
        finally:
            await store.close()
    print(*sorted(map(str, scene.answers.items())), *scene.failures, sep="\n", file=sys.stderr)
    assert not late_locks, "\n\n".join(f"{keys}\n{stack}" for stack, keys in late_locks.items())
    allowed = [cut for cut, seconds in PAUSES.items() if pause >= seconds]
    failures = [failure for failure in scene.failures if not any(cut in failure for cut in allowed)]
    busy = [failure for failure in failures if BUSY in failure]
    assert busy == failures, (pause, failures)
    assert len(busy) <= bursts // BURSTS_PER_BUSY, (pause, busy)
    assert (deadlocks, idle) == (0, 0)
