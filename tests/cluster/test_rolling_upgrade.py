"""Two releases on one database: the older one works on the newer schema for as long as that says so."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from circadia.testing.upstream import MockUpstream
from tests.cluster.quick_agent import LAUNCHERS
from tests.cluster.releases import Migration, Release, install_release, newest_number
from tests.fixtures.server_process import CircadiaProcess

EXPAND = Migration(name="Expand", works_with=newest_number(), statement="ALTER TABLE agents ADD COLUMN mood VARCHAR")
CONTRACT = Migration(name="Contract", works_with=newest_number(1), statement="ALTER TABLE agents DROP COLUMN mood")
ROUNDS = 2


class Load:
    """What agents do at two servers in turn: calls held at one and woken at the other, messages, wakes with pulses."""

    def __init__(self, http: aiohttp.ClientSession, here: CircadiaProcess, there: CircadiaProcess) -> None:
        self.http = http
        self.servers = here, there

    async def prepare(self) -> dict[str, str]:
        agents = [{"name": "held", "sleep_events": ["agent_started"]}]
        tokens = await self.servers[0].create_session("team", agents)
        launched = {"name": "launched", "sleep_events": ["agent_started"]}
        await self.servers[0].call("POST", "/sessions/team/agents", launched)
        change = {"launcher": "quick", "wake_guardrails.cooldown_seconds": 0, "wake_guardrails.max_wakes_per_day": None}
        await self.servers[0].call("PATCH", "/agents/team:launched/coordination", change)
        return tokens

    async def run(self, tokens: dict[str, str], rounds: int) -> None:
        """Run rounds in which each server has each part once; each request must succeed."""
        for number in range(rounds):
            for one, other in (self.servers, self.servers[::-1]):
                await one.put_sleeping("team", "held", True)
                call = asyncio.create_task(self._chat(one, tokens["held"]))
                await one.held_by("team", "held")
                text = f"{number} at {one.url}"
                await other.call("POST", "/messages", {"to": "team:held", "content": text})
                await other.call("POST", "/wakes", {"to": "team:launched", "reason": "blocker", "message": text})
                await other.put_sleeping("team", "held", False)
                assert await call == 200
        async with asyncio.timeout(60):
            while any(pulse["ended_at"] is None for pulse in await self.list_pulses()):
                await asyncio.sleep(0.02)

    async def list_pulses(self) -> list[dict[str, Any]]:
        return (await self.servers[0].call("GET", "/agents/team:launched/pulses?limit=1000"))["pulses"]

    async def _chat(self, at: CircadiaProcess, token: str) -> int:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        headers = {"authorization": f"Bearer {token}"}
        url = f"{at.url}/llm/openai/v1/chat/completions"
        async with self.http.post(url, json=body, headers=headers) as answer:
            return answer.status


async def list_versions(at: CircadiaProcess) -> Counter[str]:
    return Counter(member["version"] for member in (await at.call("GET", "/cluster"))["members"])


async def wait_for_log(server: CircadiaProcess, words: str) -> None:
    async with asyncio.timeout(60):
        while words not in server.log:
            await asyncio.sleep(0.02)


@pytest.mark.spec("CLU-30")
async def test_an_old_and_a_new_release_serve_side_by_side_until_a_contraction_needs_the_old_one_gone(
    tmp_path: Path, postgres_url: str
) -> None:
    present = install_release(tmp_path, "1.0")
    following = install_release(tmp_path, "1.1", EXPAND)
    last = install_release(tmp_path, "1.2", EXPAND, CONTRACT)
    async with MockUpstream() as provider, aiohttp.ClientSession() as http:
        config: dict[str, Any] = {
            "server": {"database_url": postgres_url, "drain_seconds": 1},
            "upstreams": {"openai": {"base_url": provider.base_url}},
            "launchers": LAUNCHERS,
        }
        (tmp_path / "circadia.yaml").write_text(yaml.safe_dump(config), "utf-8")

        async def migrate(release: Release, *options: str) -> tuple[int, str]:
            return await release.run("migrate", "--config", str(tmp_path / "circadia.yaml"), *options)

        old, new = present.serve(tmp_path / "old", config), following.serve(tmp_path / "new", config, "--no-migrate")
        async with old:
            starting = asyncio.create_task(new.__aenter__())
            await wait_for_log(new, f"has schema {newest_number()}, and this version needs {newest_number(1)}")
            for options in (("--dry-run",), ()):
                status, text = await migrate(following, *options)
                assert (status, "Expand" in text) == (0, True), text
            await starting
            try:
                assert await list_versions(old) == {"1.0": 1, "1.1": 1}
                load = Load(http, old, new)
                tokens = await load.prepare()
                await load.run(tokens, ROUNDS)
                await old.restart()
                await load.run(tokens, 1)
                pulses = await load.list_pulses()
                assert len(pulses) >= 2
                assert {pulse["status"] for pulse in pulses} == {"succeeded"}
                assert len(provider.requests) == (ROUNDS + 1) * 2
                status, text = await migrate(last)
                assert (status, old.url in text, "runs version 1.0" in text) == (10, True, True), text
                await old.terminate()
                status, text = await migrate(last)
                assert (status, "Contract" in text) == (0, True), text
                with pytest.raises(AssertionError, match="the server ended"):
                    await old.start()
                assert "this version knows schema" in old.log
                assert await list_versions(new) == {"1.1": 1}
                await Load(http, new, new).run(tokens, 1)
            finally:
                await new.__aexit__()
