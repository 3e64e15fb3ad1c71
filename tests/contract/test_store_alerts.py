"""What every store promises of alerts: what is noted by one process is known to all."""

import pytest

from circadia.stores.base import Store
from tests.contract.rows import at


@pytest.mark.spec("WAKE-76")
async def test_an_alert_is_known_by_cause_and_subject_until_it_is_forgotten(store: Store) -> None:
    async with store.write() as tx:
        await tx.alerts.tell("backlog", "team:ann", at(1))
        await tx.alerts.tell("backlog", "", at(2))
        await tx.alerts.tell("budget", "team:ann", at(3))
        await tx.alerts.tell("backlog", "team:ann", at(4))
    async with store.read() as tx:
        assert await tx.alerts.told("backlog") == {"team:ann": at(4), "": at(2)}
        assert await tx.alerts.told("circuit_open") == {}
    async with store.write() as tx:
        await tx.alerts.end("backlog", "team:ann")
        await tx.alerts.end("backlog", "team:bob")
        assert await tx.alerts.told("backlog") == {"": at(2)}
        assert await tx.alerts.told("budget") == {"team:ann": at(3)}
