"""What passes may spend, on which model, and how many of them may run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from circadia.cli.demo.dream_model import reply
from circadia.testing.upstream import MockUpstream
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import KEY, Live, live

TOLD = ("Ann lives in Porto.", "Ann works for Acme.", "Bob sold his bike in May.", "The red door leads to the garden.")
MODEL = {"upstream": "openai", "name": "gpt-4o-mini"}
FREE: dict[str, Any] = {"budget": {}, "fleet_budget": {}}
CONSOLIDATE = {"operations": ["consolidate"]}


def nothing(window: str, limit: str) -> dict[str, Any]:
    return {"budget": {window: {limit: 0}}}


POLICIES: dict[str, tuple[dict[str, Any], bool]] = {
    "free": ({"budget": {}}, True),
    **{f"{window}_{limit}": (nothing(window, limit), False) for window in ("per_pass", "per_hour", "per_day")
       for limit in ("calls", "tokens", "usd", "seconds")},
    "own": ({"budget": {}, "operations": {"consolidate": {"budget": {"per_pass": {"calls": 0}}}}}, False),
}  # fmt: skip
"""By bank: what its passes may do, and whether they then ask their model."""


async def told(at: Live, bank: str) -> None:
    for text in TOLD:
        assert (await at.rest("POST", f"/banks/{bank}/episodes", {"text": text}))[0] == 201


async def passed(at: Live, bank: str, **more: Any) -> Any:
    """Return a pass over the bank that has ended."""
    run = (await at.rest("POST", f"/banks/{bank}/passes", {"wait_seconds": 60, **more}))[1]
    assert run.get("ended_at"), run
    return run


@pytest.mark.setting(
    "sleeptime.budget", "sleeptime.budget.per_pass", "sleeptime.budget.per_hour", "sleeptime.budget.per_day",
    "sleeptime.budget.per_pass.calls", "sleeptime.budget.per_pass.tokens", "sleeptime.budget.per_pass.usd",
    "sleeptime.budget.per_pass.seconds", "sleeptime.operations", "sleeptime.operations.enabled",
    "sleeptime.operations.budget",
    banks={
        "off": {"sleeptime": {"operations": {"consolidate": {"enabled": False}}}},
        **{name: {"sleeptime": policy} for name, (policy, _) in POLICIES.items()},
    },
    sleeptime={"when": "manual", "model": MODEL, **FREE},
)  # fmt: skip
async def test_a_model_is_asked_only_within_each_limit_of_each_window(at: Live) -> None:
    asked: dict[str, bool] = {}
    for name in POLICIES:
        await told(at, name)
        asked[name] = (await passed(at, name, **CONSOLIDATE))["spent"]["calls"] > 0
    assert asked == {name: asks for name, (_, asks) in POLICIES.items()}
    assert (await at.rest("POST", "/banks/off/passes", CONSOLIDATE))[0] == 422


@pytest.mark.setting("sleeptime.fleet_budget")
@pytest.mark.parametrize("window", ["per_hour", "per_day"])
async def test_passes_over_all_banks_share_a_budget(tmp_path: Path, window: str) -> None:
    tier = {"when": "manual", "model": MODEL, "budget": {}, "fleet_budget": {window: {"calls": 1}}}
    async with live(tmp_path, banks={"one": {}, "two": {}}, sleeptime=tier) as at:
        spent: list[int] = []
        for name in ("one", "two"):
            await told(at, name)
            spent.append((await passed(at, name, **CONSOLIDATE))["spent"]["calls"])
    assert spent == [1, 0]


@pytest.mark.setting("sleeptime.model.upstream", "sleeptime.model.name", "sleeptime.operations.model")
async def test_passes_ask_the_model_and_the_upstream_of_the_file_and_an_operation_its_own(tmp_path: Path) -> None:
    own = {"operations": {"consolidate": {"model": "gpt-4.1-nano"}}}
    tier = {"when": "manual", "model": {"upstream": "anthropic", "name": "claude-haiku-4-5"}}
    async with live(tmp_path, banks={"one": {}, "two": {"sleeptime": own}}, sleeptime=tier) as at:
        for name in ("one", "two"):
            await told(at, name)
            await passed(at, name, **CONSOLIDATE)
        asked = [(each.path, each.json()["model"]) for each in at.upstream.requests]
    assert {path for path, _ in asked} == {"/v1/messages"}
    assert list(dict.fromkeys(model for _, model in asked)) == ["claude-haiku-4-5", "gpt-4.1-nano"]


@pytest.mark.setting("sleeptime.model.timeout_seconds", "sleeptime.model.reasoning")
async def test_a_model_thinks_as_much_and_is_waited_for_as_long_as_the_file_says(tmp_path: Path) -> None:
    model = {"upstream": "openai", "name": "gpt-5-mini", "timeout_seconds": 0.3, "reasoning": "high"}
    clock = LeapClock()
    async with live(tmp_path, clock=clock, banks={"one": {}}, sleeptime={"when": "manual", "model": model}) as at:
        at.upstream.next(times=20, hang=True)
        await told(at, "one")
        run = (await at.rest("POST", "/banks/one/passes", CONSOLIDATE))[1]
        async with asyncio.timeout(30):
            while run["ended_at"] is None:
                clock.leap(1)
                await asyncio.sleep(0.05)
                run = (await at.rest("GET", f"/passes/{run['id']}"))[1]
        asked = at.upstream.requests[0].json()
    assert "no answer within 0.3 s" in run["detail"]
    assert asked["reasoning_effort"] == "high"


@pytest.mark.setting("sleeptime.model.local", "sleeptime.max_concurrent_passes")
@pytest.mark.parametrize(
    ("model", "passes", "asked", "running"),
    [({}, {}, 2, 2), ({"local": True}, {}, 1, 2), ({}, {"max_concurrent_passes": 1}, 1, 1)],
)
async def test_passes_run_and_ask_beside_each_other_as_the_file_says(
    tmp_path: Path, model: dict[str, Any], passes: dict[str, Any], asked: int, running: int
) -> None:
    tier = {"when": "manual", "model": {**MODEL, **model}, **passes}
    async with (
        MockUpstream(key=KEY, reply=reply) as provider,
        live(tmp_path, banks={"one": {}, "two": {}}, sleeptime=tier, provider=provider) as at,
    ):
        provider.gate.clear()
        runs: list[Any] = []
        for name in ("one", "two"):
            await told(at, name)
            runs.append((await at.rest("POST", f"/banks/{name}/passes", CONSOLIDATE))[1])

        async def status() -> list[str]:
            return [(await at.rest("GET", f"/passes/{run['id']}"))[1]["status"] for run in runs]

        await provider.wait_for_requests(asked)
        async with asyncio.timeout(30):
            while (await status()).count("running") < running:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)  # one more would have come by now
        assert (len(provider.requests), (await status()).count("running")) == (asked, running)
        provider.gate.set()
        async with asyncio.timeout(60):
            while set(await status()) & {"running", "pending"}:
                await asyncio.sleep(0.02)


@pytest.mark.setting(
    "sleeptime.passes_per_hour", banks={"none": {"sleeptime": {"passes_per_hour": 0}}, "some": {}},
    sleeptime={"when": "manual", "idle_seconds": 10, "model": "none"},
)  # fmt: skip
async def test_a_bank_without_passes_an_hour_has_none(at: Live, clock: LeapClock) -> None:
    for name in ("none", "some"):
        await told(at, name)
    clock.leap(60)
    async with asyncio.timeout(30):
        while not (await at.rest("GET", "/banks/some/passes"))[1]["passes"]:
            clock.leap(1)
            await asyncio.sleep(0.02)
    assert (await at.rest("GET", "/banks/none/passes"))[1]["passes"] == []
    assert (await at.rest("GET", "/banks/none/sleeptime"))[1]["verdict"]["gate"] == "passes"


@pytest.mark.setting(
    "sleeptime.max_passes_per_hour", banks={"one": {}, "two": {}},
    sleeptime={"when": "manual", "idle_seconds": 10, "model": "none", "max_passes_per_hour": 1},
)  # fmt: skip
async def test_over_all_banks_no_more_passes_begin_within_an_hour(at: Live, clock: LeapClock) -> None:
    for name in ("one", "two"):
        await told(at, name)
    clock.leap(60)

    async def begun() -> int:
        found = [(await at.rest("GET", f"/banks/{name}/passes"))[1]["passes"] for name in ("one", "two")]
        return len([each for each in found if each and each[-1]["started_at"]])

    for wanted, seconds in ((1, 1), (2, 60)):
        async with asyncio.timeout(30):
            while await begun() < wanted:
                clock.leap(seconds)
                await asyncio.sleep(0.05)
        assert await begun() == wanted
        clock.leap(600)
        await asyncio.sleep(0.3)
        assert await begun() == wanted
    assert clock.monotonic() > 3_600
