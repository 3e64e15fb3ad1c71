"""What PostgreSQL reads for a claim."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from circadia.ids import AgentId
from circadia.stores.postgres import open_postgres
from tests.contract.rows import agent, at
from tests.contract.wake_rows import pulse
from tests.stores.test_postgres import asked, transaction


@pytest.mark.spec("CLU-106")
async def test_a_claim_reads_none_of_3000_pulses_that_wait_for_another_launcher(postgres_url: str) -> None:
    store = await open_postgres(postgres_url)
    async with store.begin_write() as tx:
        for number in range(3_000):
            waiting = pulse(f"pulse {number}", agent("ada"), launcher="new")
            await tx.pulses.add(replace(waiting, agent_id=AgentId(f"agent {number}")))
        await tx.pulses.add(pulse("mine", agent("bob"), launcher="old"))
    await asked(store, "ANALYZE")
    reads = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'pulses'"

    def count(connection: Connection) -> int:
        return connection.exec_driver_sql(reads).scalar_one()

    for _ in range(10):  # PostgreSQL plans a statement anew for the first five times
        async with transaction(store) as (tx, block):
            before = await block.run(count)
            claimed = await tx.pulses.claim("w", ["old"], now=at(9), until=at(9), limit=100)
            assert [each.id for each in claimed] == ["mine"]
            assert await block.run(count) - before <= 20
    await store.close()
