"""The fleet at a glance: counts of today over all servers, and what is not well."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from circadia.records.member import Role
from tests.interaction.live import live

pytestmark = pytest.mark.spec("UI-03")


async def test_a_quiet_fleet_is_well_and_its_agents_calls_and_wakes_are_counted(tmp_path: Path) -> None:
    async with live(tmp_path, banks={"team": {}}) as at:
        ann, _, _ = await at.agent(), await at.agent("bob"), await at.agent("eve")
        assert (await at.answered(ann))[0] == 200
        await at.sleeping(True)
        await at.sleeping(True, "bob")
        held = asyncio.create_task(at.answered(ann))
        await at.held(1)
        for text in ("Look.", "Look again."):
            assert (await at.rest("POST", "/wakes", {"to": "bob", "message": text, "reason": "blocker"}))[0] == 201
        await at.server.journal.flush()
        status, seen = await at.rest("GET", "/overview")
        assert status == 200
        assert (seen["asleep"], seen["awake"], seen["held"], seen["passes"]) == (1, 2, 1, 0)
        assert sum(seen["wakes_today"].values()) == 2
        assert [(tier["key"], tier["calls"]) for tier in seen["usage_today"]] == [("hot", 1)]
        assert (seen["problems"], seen["alerts"], seen["dead_letters"]) == ([], [], 0)
        assert (await at.rest("GET", "/overview", token=ann))[0] == 403
        await at.sleeping(False)
        assert (await held)[0] == 200


async def test_an_upstream_that_fails_is_a_problem_with_what_to_do(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 0}) as at:
        ann = await at.agent()
        at.upstream.next(status=500, body={"error": {"message": "broken"}})
        assert (await at.answered(ann))[0] == 500
        await at.server.journal.flush()
        (problem,) = (await at.rest("GET", "/overview"))[1]["problems"]
        assert problem.startswith("Upstream 'openai' fails: 1 of 1 calls in 5 minutes.")
        assert "upstream_error" in problem


async def test_gateways_without_a_worker_are_a_problem_and_their_held_calls_add_up(
    tmp_path: Path, postgres_url: str
) -> None:
    shared: dict[str, Any] = {"server": {"database_url": postgres_url}, "role": Role.GATEWAY}
    async with live(tmp_path / "one", **shared) as one, live(tmp_path / "two", **shared) as two:
        ann = await one.agent()
        await one.sleeping(True)
        calls = [asyncio.create_task(at.answered(ann)) for at in (one, two)]
        await one.held(1)
        await two.held(1)
        async with asyncio.timeout(30):  # a member tells its holds with its beat
            while (seen := (await one.rest("GET", "/overview"))[1])["held"] != 2:
                await asyncio.sleep(0.1)
        (problem,) = seen["problems"]
        assert problem.startswith("No worker runs")
        assert "circadia serve --role worker" in problem
        await one.sleeping(False)
        assert [status for status, _ in await asyncio.gather(*calls)] == [200, 200]


def of_kind(seen: Any, kind: str) -> dict[str, Any]:
    (found,) = [each for each in seen["attention"] if each["kind"] == kind]
    assert found["text"] in seen["problems"]
    return found


@pytest.mark.spec("UI-16")
async def test_an_agent_that_is_refused_calls_for_a_spent_budget_needs_a_person(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann = await at.agent(max_calls_per_day=2)
        await at.agent("bob", max_calls_per_day=2)
        for _ in range(2):
            assert (await at.answered(ann))[0] == 200
        assert (await at.answered(ann))[0] == 429
        await at.server.journal.flush()
        found = of_kind((await at.rest("GET", "/overview"))[1], "budget")
        assert (found["subject"], found["figure"], found["limit"], found["unit"]) == ("ann", 2, 2, "calls")
        assert "max_calls_per_day" in found["text"]
        assert found["since"] is not None
        assert found["page"] == "/agents/ann?tab=settings"
        await at.rest("PATCH", "/sessions/default/agents/ann", {"policy": {"max_calls_per_day": 3}})
        assert (await at.rest("GET", "/overview"))[1]["attention"] == []


@pytest.mark.spec("UI-16")
async def test_a_budget_in_which_no_average_call_fits_any_more_is_spent(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann = await at.agent()
        for _ in range(3):
            assert (await at.answered(ann))[0] == 200
        (line,) = await at.usage()
        used = line["input_tokens"] + line["output_tokens"]
        for limit, spent in ((used + used // 3 - 1, True), (used + used // 3 + 1, False)):
            await at.rest("PATCH", "/sessions/default/agents/ann", {"policy": {"max_tokens_per_day": limit}})
            kinds = [each["kind"] for each in (await at.rest("GET", "/overview"))[1]["attention"]]
            assert kinds == ["budget"] * spent


@pytest.mark.spec("UI-16")
async def test_an_open_circuit_needs_a_person_until_it_is_tried_again(tmp_path: Path) -> None:
    program = {"kind": "subprocess", "command": ["false"]}
    async with live(tmp_path, launchers={"broken": program}) as at:
        await at.agent("bob")
        await at.sleeping(True, "bob")
        limits = {"cooldown_seconds": 0, "max_wakes_per_day": None}
        change = {"launcher": "broken", "wake_guardrails": limits}
        assert (await at.rest("PATCH", "/agents/bob/coordination", change))[0] == 200
        for _ in range(5):
            assert (await at.rest("GET", "/overview"))[1]["attention"] == []
            ask = {"to": "bob", "message": "Look.", "reason": "blocker"}
            pulse = (await at.rest("POST", "/wakes", ask))[1]["pulse"]
            async with asyncio.timeout(60):
                while (await at.rest("GET", f"/pulses/{pulse}"))[1]["ended_at"] is None:
                    await asyncio.sleep(0.02)
        found = of_kind((await at.rest("GET", "/overview"))[1], "circuit")
        assert (found["subject"], found["figure"], found["limit"]) == ("bob", 5, 5)


@pytest.mark.spec("UI-16")
async def test_held_calls_of_an_agent_that_nobody_may_wake_need_a_person(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann = await at.agent()
        await at.agent("lead")
        await at.sleeping(True)
        held = asyncio.create_task(at.answered(ann))
        (hold,) = await at.held(1)
        assert (await at.rest("GET", "/overview"))[1]["attention"] == []  # a mention may wake it
        await at.rest("PATCH", "/sessions/default/agents/ann", {"wake_events": []})
        await at.rest("PATCH", "/agents/ann/coordination", {"wakes_enabled": False})
        found = of_kind((await at.rest("GET", "/overview"))[1], "holds")
        assert (found["subject"], found["figure"], found["since"]) == ("ann", 1, hold["since"])
        await at.rest("PATCH", "/sessions/default/agents/lead", {"policy": {"may_wake": ["ann"]}})
        assert (await at.rest("GET", "/overview"))[1]["attention"] == []
        await at.sleeping(False)
        assert (await held)[0] == 200
