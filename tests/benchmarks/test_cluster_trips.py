"""Round trips to PostgreSQL, counted on the wire: what a network's distance multiplies."""

import pytest

from benchmarks.cluster_process import ClusterMember, home_name, prepare
from benchmarks.delay_proxy import delay_proxy
from circadia.agents.directory import find_agent, find_session
from circadia.records.principal import Principal
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals


@pytest.mark.spec("CLU-02")
async def test_a_decision_with_its_pulse_takes_at_most_thirty_round_trips(postgres_url: str) -> None:
    await prepare(postgres_url, writers=1, sessions=1)
    async with delay_proxy(postgres_url) as proxy:
        store = await open_postgres(proxy.build_url(postgres_url))
        member = ClusterMember(store, LocalSignals())
        async with store.begin_read() as tx:
            home = await find_session(tx, Principal(), home_name(0))
            sender, *targets = [
                await find_agent(tx, home, name) for name in ("sender-0", *(f"target-0-{at}" for at in range(8)))
            ]
        for at, target in enumerate(targets):
            if at == 3:  # each statement is prepared once, which takes a trip
                await proxy.begin_count()
            await member.decide(sender, target)
            assert await member.run_next_pulse()
        trips = (await proxy.count()).trips
        await store.close()
    assert 5 * 20 <= trips <= 5 * 30
