"""`circadia usage`."""

import re
from typing import Any

import aiohttp
import pytest

from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def call_model(server: CircadiaProcess, token: str, model: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        async with http.post(f"{server.url}/llm/openai/v1/chat/completions", json=body) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()


async def settled(session: str, calls: int) -> Any:
    """Return the report once the journal has written so many calls."""
    while True:
        report = (await run("usage", "--session", session, "--json")).json
        if report["total"]["calls"] >= calls:
            return report


@pytest.mark.spec("GATE-64")
async def test_usage_is_summed_by_agent_and_by_model(operator: CircadiaProcess) -> None:
    tokens = await operator.create_session("spend", [{"name": "ann"}, {"name": "bob"}])
    await call_model(operator, tokens["ann"], "gpt-4o-mini")
    await call_model(operator, tokens["ann"], "gpt-4o")
    await call_model(operator, tokens["bob"], "gpt-4o")
    report = await settled("spend", 3)
    assert {each["key"]: each["calls"] for each in report["usage"]} == {"spend:ann": 2, "spend:bob": 1}
    assert report["total"]["input_tokens"] > 0
    by_model = (await run("usage", "--session", "spend", "--by", "model", "--json")).json
    assert {each["key"]: each["calls"] for each in by_model["usage"]} == {"gpt-4o": 2, "gpt-4o-mini": 1}
    lines = (await run("usage", "--session", "spend", "--by", "tier")).out.splitlines()
    assert [line.split()[:2] for line in lines] == [["tier", "calls"], ["hot", "3"], ["total", "3"]]
    two = ("usage", "--session", "spend", "--by", "tier", "--by", "model")
    assert [line.split()[:3] for line in (await run(*two)).out.splitlines()] == [
        ["tier", "model", "calls"], ["hot", "gpt-4o", "2"], ["hot", "gpt-4o-mini", "1"], ["total", "3", "0"],
    ]  # fmt: skip
    later = (await run("usage", "--session", "spend", "--since", "2999-01-01", "--json")).json
    assert later["usage"] == []
    only = (await run("usage", "--session", "spend", "--agent", "bob", "--until", "2999-01-01", "--json")).json
    assert only["total"]["calls"] == 1


async def test_people_are_told_which_calls_no_price_is_known_for(operator: CircadiaProcess) -> None:
    tokens = await operator.create_session("unpriced", [{"name": "ann"}])
    await call_model(operator, tokens["ann"], "some-model-of-my-own")
    await settled("unpriced", 1)
    assert (
        "not in the cost: calls of models with no known list price (1)"
        in (await run("usage", "--session", "unpriced")).err
    )


async def test_a_time_that_is_none_is_refused(operator: CircadiaProcess) -> None:
    refused(await run("usage", "--since", "yesterday"), 2, "since", "2026-01-31")


async def test_unknown_names_are_errors_of_each_list(operator: CircadiaProcess) -> None:
    for words in (("holds",), ("usage",), ("events",), ("events", "--follow"), ("top",), ("pulses",)):
        refused(await run(*words, "--session", "nowhere"), 4, "no session 'nowhere'")
    for words in (("holds",), ("usage",), ("events",)):
        refused(await run(*words, "--agent", "nobody"), 4, "no session has an agent 'nobody'")


@pytest.mark.spec("UI-16")
async def test_savings_are_listed_by_day_with_their_mean_and_a_month(operator: CircadiaProcess) -> None:
    listed = await run("savings", "--days", "1")
    columns = re.split(r" {2,}", listed.out.splitlines()[0].strip())
    assert columns == ["day", "calls held for", "by sleeping", "by memory", "dreaming cost", "saved"]
    assert len(listed.out.splitlines()) == 3
    report = await operator.call("GET", "/usage/savings?days=1")
    assert f"30 days such as today, so far: ${report['month_usd']:,.2f}" in listed.err
    assert "mean of the days before today: $0.00" in listed.err
