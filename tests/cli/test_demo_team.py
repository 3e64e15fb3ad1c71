"""The whole demo: the team works the same incidents without and with sleep, in front of a mock provider and a model."""

import json
from pathlib import Path

import pytest

from circadia.cli.demo import story
from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import started

DEMO_SECONDS = 170.0


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_the_team_solves_the_same_incidents_with_fewer_calls_when_it_may_sleep(tmp_path: Path) -> None:
    async with MockUpstream(key="key-of-the-provider", reply="I look at it.") as provider:
        words = ("--upstream", f"{provider.base_url}/v1", "--model", "mock-1", "--key-env", "PROVIDER_KEY")
        env = {"PROVIDER_KEY": "key-of-the-provider", "TMPDIR": str(tmp_path)}
        async with started("demo", "--json", "--seconds", "12", "--price-as", "gpt-5-mini", *words, env=env) as demo:
            result = await demo.ended(DEMO_SECONDS)
        served = len(provider.answered)
    assert result.status == 0, result.err
    details = result.json
    baseline, sleeping = details["runs"]
    for run in (baseline, sleeping):
        assert run["finished"]
        assert run["client_errors"] == 0, [agent["errors"] for agent in run["agents"]]
        assert run["ledger_differences"] == []
        assert [agent["jobs"] for agent in run["agents"]] == [
            ["INC-1", "INC-2"],
            ["INC-1"],
            ["INC-2"],
            ["INC-1"],
            ["INC-1"],
        ]
    assert served == baseline["model_calls"] + sleeping["model_calls"]
    assert baseline["work_calls"] == sleeping["work_calls"]
    baseline_idle, sleeping_idle = (
        sum(agent["empty_calls"] for agent in run["agents"] if agent["agent"] != story.COORDINATOR)
        for run in (baseline, sleeping)
    )
    assert baseline_idle >= len(story.SPECIALISTS)
    # None at all, but where a busy machine lets the coordinator be late with taking one out of the thread.
    assert sleeping_idle <= baseline_idle / 5
    assert all(agent["naps"] for agent in sleeping["agents"])
    kept = next(tmp_path.glob("circadia-demo-*"))
    assert [each.name for each in kept.iterdir()] == ["result.json"]
    assert json.loads((kept / "result.json").read_text("utf-8")) == details


@pytest.mark.slow
async def test_the_demo_on_the_real_small_model_stays_under_three_minutes(tmp_path: Path) -> None:
    async with started("demo", "--json", env={"TMPDIR": str(tmp_path)}) as demo:
        result = await demo.ended(DEMO_SECONDS)
    assert result.status == 0, result.err
    details = result.json
    assert details["total_seconds"] < 180
    baseline, sleeping = details["runs"]
    assert sleeping["model_calls"] < baseline["model_calls"]
    assert not baseline["ledger_differences"] + sleeping["ledger_differences"]
