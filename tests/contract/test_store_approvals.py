"""Approvals of calls as both databases keep them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from circadia.ids import AgentId, ApprovalId
from circadia.records.approval import TRANSITIONS, Approval, ApprovalRule, ApprovalStatus
from circadia.stores.base import Store

pytestmark = pytest.mark.spec("WAKE-86")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST = Approval(
    id=ApprovalId("apr_1"), agent_id=AgentId("agt_ann"), session="default", agent="ann", door="model", target="openai",
    what="POST /v1/responses", rule=ApprovalRule.SPEND, model="o3-pro", nanousd=10**12, digest="d1", preview="buy it",
    cut=True, valid_seconds=60.5, requested_at=NOW, expires_at=NOW + DAY,
)  # fmt: skip
SECOND = replace(FIRST, id=ApprovalId("apr_2"), digest="d2", expires_at=NOW + 2 * DAY)
OTHER = replace(FIRST, id=ApprovalId("apr_3"), agent_id=AgentId("agt_bob"), agent="bob")


async def test_an_approval_is_found_by_its_call_until_it_is_closed(store: Store) -> None:
    async with store.begin_write() as tx:
        for each in (FIRST, SECOND):
            await tx.approvals.add(each)
    async with store.begin_write() as tx:
        assert await tx.approvals.get(FIRST.id) == FIRST
        assert await tx.approvals.find_open(FIRST.agent_id, "d1") == FIRST
        assert await tx.approvals.find_open(AgentId("agt_bob"), "d1") is None
        approved = replace(
            FIRST, status=ApprovalStatus.APPROVED, decided_by="operator/pat", decided_at=NOW, reason="checked"
        )
        assert await tx.approvals.save(approved, was=ApprovalStatus.PENDING)
        assert not await tx.approvals.save(replace(FIRST, status=ApprovalStatus.REFUSED), was=ApprovalStatus.PENDING), (
            "it is decided"
        )
        assert await tx.approvals.find_open(FIRST.agent_id, "d1") == approved
        used = replace(approved, status=ApprovalStatus.USED, closed_at=NOW)
        assert await tx.approvals.save(used, was=ApprovalStatus.APPROVED)
        assert await tx.approvals.find_open(FIRST.agent_id, "d1") is None
        assert await tx.approvals.get(FIRST.id) == used
        assert await tx.approvals.find_decided([FIRST.id, SECOND.id]) == [used]


async def test_approvals_are_listed_newest_first_and_due_ones_oldest_first(store: Store) -> None:
    async with store.begin_write() as tx:
        for each in (FIRST, OTHER):
            await tx.approvals.add(each)
    async with store.begin_write() as tx:
        await tx.approvals.add(SECOND)
    async with store.begin_read() as tx:
        assert await tx.approvals.find_all(limit=9) == [OTHER, SECOND, FIRST]
        assert await tx.approvals.find_all(before=OTHER.id, limit=1) == [SECOND]
        assert await tx.approvals.find_all(agent_id=FIRST.agent_id, status=ApprovalStatus.PENDING, limit=9) == [
            SECOND, FIRST,
        ]  # fmt: skip
        assert await tx.approvals.find_all(status=ApprovalStatus.USED, limit=9) == []
        assert {each.id for each in await tx.approvals.find_due(NOW + DAY, limit=9)} == {FIRST.id, OTHER.id}
        assert await tx.approvals.find_due(NOW + 3 * DAY, limit=9) == [FIRST, OTHER, SECOND]


def test_a_decision_is_final_and_an_approval_is_used_once_unless_nothing_came_of_it() -> None:
    status = ApprovalStatus
    assert {old: set(new) for old, new in TRANSITIONS.items()} == {
        status.PENDING: {status.APPROVED, status.REFUSED, status.EXPIRED},
        status.APPROVED: {status.USED, status.EXPIRED},
        status.USED: {status.APPROVED},
        status.REFUSED: set(),
        status.EXPIRED: set(),
    }
