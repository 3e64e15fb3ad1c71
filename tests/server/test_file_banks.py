"""Banks that the file names."""

from dataclasses import replace

import pytest

from circadia.records.agent import AgentPolicy
from circadia.server.memory_wiring import apply_file_banks, build_memory_services
from circadia.settings import settings_from
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import ManualClock
from tests.wake.fleet import CountedIds


@pytest.mark.spec("MEM-12")
async def test_banks_are_set_to_what_the_file_states_but_for_those_that_a_person_has_set(sqlite_store: Store) -> None:
    clock, ids, signals = ManualClock(), CountedIds(), LocalSignals()
    template = "support-{user}"

    async def start(days: int) -> None:
        banks = {template: {"keep_days": days}, "team": {"description": f"keeps {days} days", "keep_days": days}}
        settings = settings_from({"banks": banks})
        memory = build_memory_services(settings, clock, ids, EventLog(clock, signals), None)
        await apply_file_banks(settings, sqlite_store, memory)
        async with sqlite_store.begin_write() as tx:
            await memory.banks.resolve_bound_bank(tx, AgentPolicy(bank=template), "ann", make=True)

    for days in (90, 30):
        await start(days)
        async with sqlite_store.begin_read() as tx:
            found = {bank.name: bank for bank in await tx.banks.find_all()}
        assert {name: bank.policy.keep_days for name, bank in found.items()} == {"support-ann": days, "team": days}
        assert found["team"].description == f"keeps {days} days"
    async with sqlite_store.begin_write() as tx:
        ann = await tx.banks.get_by_name("support-ann")
        assert ann is not None
        await tx.banks.save(replace(ann, policy=ann.policy.model_copy(update={"keep_days": None, "own": True})))
        team = await tx.banks.get_by_name("team")
        assert team is not None
        await tx.banks.save(replace(team, policy=team.policy.model_copy(update={"min_importance": 0.3})))
    await start(7)
    async with sqlite_store.begin_read() as tx:
        found = {bank.name: bank for bank in await tx.banks.find_all()}
    assert found["support-ann"].policy.keep_days is None, "a person has set it"
    assert (found["team"].policy.keep_days, found["team"].policy.min_importance) == (7, 0.3), (
        "the file says one of them"
    )
