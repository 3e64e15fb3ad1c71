"""Banks that the file names."""

from pathlib import Path

import pytest

from circadia.records.agent import AgentPolicy
from circadia.server.remembering import file_banks, memory_tier
from circadia.settings import settings_from
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import ManualClock
from tests.wake.fleet import CountedIds


@pytest.mark.spec("MEM-12")
async def test_banks_of_the_file_are_made_and_each_bank_of_a_template_has_its_rules(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path / "circadia.db")
    clock, ids, signals = ManualClock(), CountedIds(), LocalSignals()
    template = "support-{user}"

    async def start(days: int) -> None:
        banks = {template: {"keep_days": days}, "team": {"description": f"keeps {days} days", "keep_days": days}}
        settings = settings_from({"banks": banks})
        memory = memory_tier(settings, clock, ids, signals, None)
        await file_banks(settings, store, memory)
        async with store.write() as tx:
            await memory.banks.bound(tx, AgentPolicy(bank=template), "ann", make=True)

    for days in (90, 30):
        await start(days)
        async with store.read() as tx:
            found = {bank.name: bank for bank in await tx.banks.every()}
        assert {name: bank.policy.keep_days for name, bank in found.items()} == {"support-ann": days, "team": days}
        assert found["team"].description == f"keeps {days} days"
    await store.close()
