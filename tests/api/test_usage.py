"""Usage over REST."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from circadia.ids import AgentId, CallId
from circadia.records.call import Call, CallStatus
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
        ("agent=an", "no session has an agent 'an'"),
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
