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
