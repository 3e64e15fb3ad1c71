"""What every store promises of alerts: what is noted by one process is known to all."""

import pytest

from circadia.stores.base import Store
from tests.contract.rows import at


@pytest.mark.spec("WAKE-76")
async def test_an_alert_is_known_by_cause_and_subject_until_it_is_forgotten(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.alerts.record_alert("backlog", "team:ann", at(1))
        await tx.alerts.record_alert("backlog", "", at(2))
        await tx.alerts.record_alert("budget", "team:ann", at(3))
        await tx.alerts.record_alert("backlog", "team:ann", at(4))
    async with store.begin_read() as tx:
        assert await tx.alerts.find_alert_times("backlog") == {"team:ann": at(4), "": at(2)}
        assert await tx.alerts.find_alert_times("circuit_open") == {}
    async with store.begin_write() as tx:
        await tx.alerts.clear_alert("backlog", "team:ann")
        await tx.alerts.clear_alert("backlog", "team:bob")
        assert await tx.alerts.find_alert_times("backlog") == {"": at(2)}
        assert await tx.alerts.find_alert_times("budget") == {"team:ann": at(3)}


@pytest.mark.spec("WAKE-76")
async def test_what_is_to_be_posted_is_known_until_it_is_or_something_else_is_told(store: Store) -> None:
    first: dict[str, object] = {"id": "alr_1", "detail": {"waiting": 2}}
    other: dict[str, object] = {"id": "alr_2", "detail": {}}
    async with store.begin_write() as tx:
        await tx.alerts.record_alert("backlog", "team:ann", at(2), first)
        await tx.alerts.record_alert("budget", "team:ann", at(1), other)
        await tx.alerts.record_alert("budget", "team:bob", at(1))
    async with store.begin_write() as tx:
        found = await tx.alerts.find_unposted()
        assert [(each.cause, each.subject, each.told_at, each.body) for each in found] == [
            ("budget", "team:ann", at(1), other), ("backlog", "team:ann", at(2), first)
        ]  # fmt: skip
        await tx.alerts.mark_posted("budget", "team:ann", at(1))
        await tx.alerts.mark_posted("backlog", "team:ann", at(1))
        assert [each.body for each in await tx.alerts.find_unposted()] == [first], "that was told later"
        await tx.alerts.record_alert("backlog", "team:ann", at(3))
        assert await tx.alerts.find_unposted() == []
        assert await tx.alerts.find_alert_times("budget") == {"team:ann": at(1), "team:bob": at(1)}
