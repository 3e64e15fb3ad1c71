"""A fleet under load: sleeps and wakes, held calls, launched pulses and passes, all at once, round after round."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from circadia.testing.upstream import MockUpstream
from tests.fixtures.server_process import CircadiaProcess

AGENTS = 50
BANKS = 10
UNLIMITED = {
    "cooldown_seconds": 0, "max_daily_session_minutes": None, "max_wakes_per_day": None,
    "max_wakes_per_pair_per_day": None, "max_wakes_per_session": None, "max_chain_depth": None,
}  # fmt: skip
SECONDS = 120.0


def config(upstream: str) -> dict[str, Any]:
    """Return a file with agents that are launched as programs and agents that always run, in turn."""
    agents: dict[str, Any] = {}
    for number in range(AGENTS):
        coordination = {"launcher": "program" if number % 2 else "resident", "wake_guardrails": UNLIMITED}
        agents[f"agent{number}"] = {"bank": f"bank{number % BANKS}", "coordination": coordination}
    return {
        "upstreams": {"openai": {"base_url": upstream}},
        "defaults": {"hold_grace_seconds": 0.01, "keep_alive_seconds": 0.5},
        "launchers": {"program": {"kind": "subprocess", "command": ["cat"]}},
        "agents": agents,
        "banks": {f"bank{number}": {} for number in range(BANKS)},
        "sleeptime": {"model": "none", "when": "manual"},
    }


class Fleet:
    """The agents at their server."""

    def __init__(self, server: CircadiaProcess, http: aiohttp.ClientSession) -> None:
        self.server = server
        self._http = http
        self._tokens: dict[str, str] = {}

    async def join(self) -> None:
        """Get each agent its token."""
        for number in range(AGENTS):
            made = await self.server.call("POST", f"/sessions/default/agents/agent{number}/token")
            self._tokens[f"agent{number}"] = made["token"]

    async def round(self, number: int) -> None:
        """Have each agent do its work once, and each bank a pass; then forget what was said, so that no bank grows."""
        await asyncio.gather(*(self._work(f"agent{each}", each, number) for each in range(AGENTS)))
        await asyncio.gather(*(self._dream(f"bank{each}") for each in range(BANKS)))

    async def settled(self) -> list[str]:
        """Return the status of each pulse once all have ended and no call is held."""
        async with asyncio.timeout(SECONDS):
            while True:
                open_pulses = [each for each in await self._pulses() if each["ended_at"] is None]
                if not open_pulses and not await self.server.holds():
                    return [each["status"] for each in await self._pulses()]
                await asyncio.sleep(0.1)

    def usage(self) -> tuple[int, int]:
        """Return the bytes of memory that the server takes, and how many descriptors it has open."""
        process = psutil.Process(self.server.pid)
        return process.memory_info().rss, process.num_fds()

    def rows(self) -> dict[str, int]:
        """Return how many rows each table has."""
        with closing(sqlite3.connect(f"file:{self.server.data / 'circadia.db'}?mode=ro", uri=True)) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in names}

    async def _work(self, agent: str, at: int, number: int) -> None:
        """Have a program launched; or call, sleep, call again, which is held, and be woken."""
        if at % 2:
            await self.server.put_sleeping("default", agent, True)
            await self.server.call(
                "POST", "/wakes", {"to": agent, "reason": "user_request", "message": f"Do {number}."}
            )
            return
        async with self._call(agent, f"In round {number} {agent} counts {number * AGENTS + at} boxes.") as answer:
            await answer.read()
        await self.server.put_sleeping("default", agent, True)
        async with self._call(agent, f"What did {agent} count in round {number}?") as answer:
            await self.server.put_sleeping("default", agent, False)  # the hold has opened its stream
            assert "[DONE]" in await answer.text()

    async def _dream(self, bank: str) -> None:
        run = await self.server.call("POST", f"/banks/{bank}/passes", {"wait_seconds": SECONDS})
        assert run["status"] in ("succeeded", "no_change"), run
        await self.server.call("POST", f"/banks/{bank}/forget", {"since": "2020-01-01"})

    async def _pulses(self) -> list[dict[str, Any]]:
        paths = [f"/agents/agent{number}/pulses" for number in range(1, AGENTS, 2)]
        return [each for path in paths for each in (await self.server.call("GET", path))["pulses"]]

    @asynccontextmanager
    async def _call(self, agent: str, text: str) -> AsyncGenerator[aiohttp.ClientResponse]:
        body = {"model": "mock-1", "stream": True, "messages": [{"role": "user", "content": text}]}
        headers = {"authorization": f"Bearer {self._tokens[agent]}"}
        url = f"{self.server.url}/llm/openai/v1/chat/completions"
        async with self._http.post(url, json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            yield answer


@asynccontextmanager
async def fleet(folder: Path, **more: Any) -> AsyncGenerator[Fleet]:
    """Run a server with the fleet."""
    async with MockUpstream() as upstream, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(SECONDS)) as http:
        async with CircadiaProcess(folder, config(upstream.base_url), **more) as server:
            found = Fleet(server, http)
            await found.join()
            yield found
            upstream.requests.clear()
