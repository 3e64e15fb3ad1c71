"""Usage over REST."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from circadia.ids import AgentId, ApprovalId, BankId, CallId
from circadia.records.approval import Approval, ApprovalRule, ApprovalStatus
from circadia.records.call import Call, CallStatus
from circadia.records.sleep_call import Benefit
from tests.api.service import Service


def call(number: int, agent_id: str, *, day: int = 1, cost: int | None = 1_500_000, tokens: int | None = 10) -> Call:
    return Call(
        id=CallId(f"call_{number}"),
        at=datetime(2026, 1, day, 12, tzinfo=UTC),
        agent_id=AgentId(agent_id),
        session="default",
        agent="ann",
        upstream="openai",
        endpoint="chat_completions",
        model="gpt-4o-mini",
        status=CallStatus.DONE,
        input_tokens=tokens,
        output_tokens=tokens,
        cost_nanousd=cost,
        held_seconds=2.0,
    )


@pytest.fixture
async def ledger(service: Service) -> Service:
    ann = (await service.ok("POST", "/sessions/default/agents", {"name": "ann"}))["id"]
    async with service.parts.store.begin_write() as tx:
        await tx.calls.add([call(1, ann), call(2, ann, day=2), call(3, ann, day=2, cost=None, tokens=None)])
    return service


@pytest.mark.spec("GATE-64")
async def test_calls_are_summed_with_their_price_and_what_is_not_known(ledger: Service) -> None:
    report = await ledger.ok("GET", "/usage?group_by=agent")
    line = {
        "calls": 3, "unknown": 1, "failed": 0, "input_tokens": 20, "output_tokens": 20, "cached_tokens": 0,
        "reasoning_tokens": 0, "cost_usd": 0.003, "unpriced": 1, "held_seconds": 6.0,
    }  # fmt: skip
    assert report == {
        "group_by": "agent",
        "usage": [{"key": "ann", "keys": ["ann"], **line}],
        "total": line,
        "next": None,
    }


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ("since=2026-01-02", [2]),
        ("until=2026-01-02", [1]),
        ("since=2026-01-01T13:00:00%2B01:00&until=2026-01-01T13:00:01+01:00", [1]),
        ("since=2026-01-02T12:00:01Z", []),
        ("session=default&agent=ann", [3]),
        ("group_by=day", [1, 2]),
        ("group_by=model", [3]),
        ("group_by=tier", [3]),
    ],
)
async def test_the_ledger_is_cut_and_grouped(ledger: Service, query: str, calls: list[int]) -> None:
    report = await ledger.ok("GET", f"/usage?{query}")
    assert [line["calls"] for line in report["usage"]] == calls
    assert report["total"]["calls"] == sum(calls)


@pytest.mark.spec("UI-11")
@pytest.mark.parametrize("query", ["group_by=day,tier", "group_by=day&group_by=tier"])
async def test_a_day_is_divided_by_a_second_grouping(ledger: Service, query: str) -> None:
    async with ledger.parts.store.begin_write() as tx:
        await tx.calls.add([replace(call(4, "", day=2), session="", agent="notes", tier="sleep")])
    report = await ledger.ok("GET", f"/usage?{query}")
    assert report["group_by"] == "day,tier"
    assert [(line["keys"], line["key"], line["calls"]) for line in report["usage"]] == [
        (["2026-01-01", "hot"], "2026-01-01,hot", 1),
        (["2026-01-02", "hot"], "2026-01-02,hot", 2),
        (["2026-01-02", "sleep"], "2026-01-02,sleep", 1),
    ]
    assert report["total"]["calls"] == 4
    by_agent = (await ledger.ok("GET", "/usage?group_by=session,agent"))["usage"]
    assert [line["keys"] for line in by_agent] == [["", "(sleep tier) notes"], ["default", "ann"]]


@pytest.mark.parametrize(
    "query",
    [
        "group_by=colour",
        "group_by=day,colour",
        "group_by=day,day",
        "group_by=day,tier,model",
        "group_by=",
        "since=yesterday",
        "until=0001-01-01T00:00:00%2B10:00",
        "since=9999-12-31T23:59:59-10:00",
    ],
)
async def test_a_wrong_query_is_the_callers_mistake(ledger: Service, query: str) -> None:
    assert (await ledger.call("GET", f"/usage?{query}")).status == 422


@pytest.mark.parametrize("path", ["/usage", "/events", "/events/stream", "/holds"])
@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("session=defalt", "no session 'defalt'; did you mean 'default'?"),
        ("agent=an", "no session has an agent 'an'; `circadia agents --session` lists those of one"),
        ("session=default&agent=an", "no agent 'an' in session 'default'; did you mean 'ann'?"),
    ],
)
async def test_a_list_that_is_cut_by_an_unknown_name_is_refused(
    ledger: Service, path: str, query: str, told: str
) -> None:
    answer = await ledger.call("GET", f"{path}?{query}")
    assert (answer.status, answer.body["detail"]) == (404, told)


async def test_what_a_deleted_agent_used_is_found_by_its_name(ledger: Service) -> None:
    await ledger.ok("DELETE", "/sessions/default/agents/ann")
    assert (await ledger.ok("GET", "/usage?session=default&agent=ann"))["total"]["calls"] == 3


async def test_calls_of_the_sleep_tier_are_told_with_the_bank_that_they_were_made_for(ledger: Service) -> None:
    async with ledger.parts.store.begin_write() as tx:
        await tx.calls.add([replace(call(4, ""), session="", agent="support", tier="sleep")])
    keys = [each["key"] for each in (await ledger.ok("GET", "/usage?group_by=agent"))["usage"]]
    assert keys == ["(sleep tier) support", "ann"]


@pytest.mark.spec("UI-16")
async def test_what_sleeping_saved_is_the_price_of_the_calls_of_an_agent_that_polls(service: Service) -> None:
    ann = (await service.ok("POST", "/sessions/default/agents", {"name": "ann"}))["id"]
    held = replace(call(1, ann, cost=2_000_000_000), held_seconds=3_000.0)  # $2, for 10 times 5 minutes
    other = replace(call(2, ann, cost=1_000_000_000), held_seconds=0.0)  # so the mean is $1.50
    unpriced = replace(call(3, ann, cost=None), held_seconds=0.0)
    dear = replace(call(4, ann, cost=9_000_000_000), model="gpt-5", held_seconds=0.0)  # it was never held
    unknown = replace(call(5, ann, cost=None), model="own", held_seconds=9_000.0)
    dream = replace(call(6, ann, cost=5_000_000_000), tier="sleep", session="", agent="bank", held_seconds=0.0)
    served = replace(call(7, ann, cost=0), tier="ready", held_seconds=600.0)
    bank = (await service.ok("POST", "/banks", {"name": "bank"}))["id"]
    gain = Benefit(
        bank_id=BankId(bank), operation="answers", day=date(2026, 1, 1), uses=1, saved_tokens=10, saved_seconds=1.0,
        saved_nanousd=500_000_000, unpriced_tokens=0,
    )  # fmt: skip
    before = replace(call(8, ann, cost=1_000_000_000), at=datetime(2025, 12, 31, 12, tzinfo=UTC), held_seconds=600.0)
    at = held.at
    approval = Approval(
        id=ApprovalId("apr_1"), agent_id=AgentId(ann), session="default", agent="ann", door="model", target="openai",
        what="POST /v1/chat/completions", rule=ApprovalRule.MODEL, model="gpt-4o-mini", digest="d", preview="",
        valid_seconds=9e4, status=ApprovalStatus.USED, requested_at=at - timedelta(seconds=600), expires_at=at,
        decided_by="operator", decided_at=at - timedelta(seconds=300), closed_at=at,
    )  # fmt: skip
    held = replace(held, held_seconds=3_300.0)
    async with service.parts.store.begin_write() as tx:
        await tx.approvals.add(approval)
        await tx.calls.add([held, other, unpriced, dear, unknown, dream, served, before])
        await tx.benefits.add([gain])
    report = await service.ok("GET", "/usage/savings?days=1")
    yesterday, today = report["days"]
    assert today == {
        "day": "2026-01-01", "held_seconds": 12_000.0, "sleeping_usd": 15.0, "memory_usd": 0.5, "dreaming_usd": 5.0,
        "saved_usd": 10.5,
    }  # fmt: skip
    assert (yesterday["day"], yesterday["saved_usd"]) == ("2025-12-31", 2.0)
    assert (report["poll_seconds"], report["mean_usd"], report["month_usd"]) == (300, 2.0, 315.0)
    alone = await service.ok("GET", "/usage/savings?days=0")
    assert (alone["days"], alone["mean_usd"]) == ([today], None)
    assert [day["saved_usd"] for day in (await service.ok("GET", "/usage/savings"))["days"]] == [0.0] * 12 + [2.0, 10.5]
