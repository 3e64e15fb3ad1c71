"""The doors of several servers on one database, with what tests of budgets ask there."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from sqlalchemy import Connection

from circadia.ids import AgentId
from circadia.stores.locks import LockKey, agent_key
from circadia.stores.postgres import open_postgres
from circadia.stores.sql_store import SqlStore
from tests.cluster.quick_agent import LAUNCHERS
from tests.cluster.scene import two_servers
from tests.durability.waking import where_it_is_midday
from tests.fixtures.server_process import CircadiaProcess
from tests.interaction.live import ADMIN

NO_LIMITS: Final[Mapping[str, object]] = {
    "launcher": "quick", "heartbeat_minutes": None, "on_busy": "refuse", "on_concurrency": "refuse",
    "max_concurrent_pulse_sessions": None,
    **{
        f"wake_guardrails.{name}": None
        for name in (
            "cooldown_seconds", "max_daily_session_minutes", "max_wakes_per_day", "max_wakes_per_pair_per_day",
            "max_wakes_per_session", "max_chain_depth",
        )
    },
}  # fmt: skip
NOTHING: Final[Mapping[str, object]] = {}


def count_waiters(connection: Connection) -> int:
    question = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    return connection.exec_driver_sql(question).scalar_one()


class Doors:
    """Servers on one database; requests go to them in turn."""

    def __init__(self, http: aiohttp.ClientSession, urls: Sequence[str], database: str) -> None:
        self.urls = urls
        self.database = database
        self.tokens: dict[str, str] = {}
        self.ids: dict[str, AgentId] = {}
        self._http = http
        self._turns = itertools.cycle(urls)

    async def send(self, method: str, path: str, body: object = None, *, by: str | None = None) -> tuple[int, Any]:
        """Send a request to the next server, as the operator or as an agent; return status and document."""
        token = ADMIN if by is None else self.tokens[by]
        headers = {"authorization": f"Bearer {token}"}
        url = f"{next(self._turns)}/api/v1{path}"
        async with self._http.request(method, url, json=body, headers=headers) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else None

    async def get(self, path: str) -> Any:
        status, answer = await self.send("GET", path)
        assert status == 200, answer
        return answer

    async def add_agent(self, name: str, limits: Mapping[str, object] = NOTHING, **policy: object) -> None:
        """Create an agent that sleeps, without any limits but these."""
        body = {"name": name, "sleep_events": ["agent_started"], "policy": {"may_wake": ["*"], **policy}}
        status, made = await self.send("POST", "/sessions/default/agents", body)
        assert status == 201, made
        self.tokens[name], self.ids[name] = made["token"], AgentId(made["id"])
        change = {**NO_LIMITS, "zone": where_it_is_midday(), **limits}
        status, changed = await self.send("PATCH", f"/agents/{name}/coordination", change)
        assert status == 200, changed

    async def wake(self, by: str, to: str) -> tuple[str, str | None]:
        """Wake an agent as another; return decision and rule."""
        body = {"to": to, "reason": "blocker", "message": "help"}
        status, answer = await self.send("POST", "/wakes", body, by=by)
        assert status == 201, answer
        return answer["decision"], answer["rule"]

    async def wake_until(self, rule: str, by: str, to: str) -> None:
        """Wake an agent again and again until a rule refuses it."""
        async with asyncio.timeout(60):
            while await self.wake(by, to) != ("refused", rule):
                pass

    async def count_admitted(self) -> int:
        """Return the number of wakes that count, once none is deferred."""
        wakes = (await self.get("/wakes?limit=1000"))["wakes"]
        admitted = [wake for wake in wakes if wake["decision"] == "admitted"]
        assert all(wake["charge"] in ("reserved", "charged") for wake in admitted)
        return len(admitted)

    async def race(self, key: LockKey, requests: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
        """Start requests while another process holds a key; let go once each server waits for it."""
        store = await open_postgres(self.database)
        try:
            assert isinstance(store, SqlStore)
            async with store.writer.begin([key]) as block:
                await block.run(count_waiters)
                tasks = [asyncio.ensure_future(request()) for request in requests]
                async with asyncio.timeout(30):
                    while await block.run(count_waiters) < len(self.urls):
                        await asyncio.sleep(0.01)
            return await asyncio.gather(*tasks)
        finally:
            await store.close()

    def key_of(self, name: str) -> LockKey:
        return agent_key(self.ids[name])


@asynccontextmanager
async def doors_of_two(folder: Path, url: str, **sections: Any) -> AsyncGenerator[Doors]:
    """Run two servers in this process."""
    async with two_servers(folder, url, **sections) as servers:
        yield Doors(servers[0].http, [server.url for server in servers], url)


@asynccontextmanager
async def doors_of_processes(folder: Path, url: str, number: int) -> AsyncGenerator[Doors]:
    """Run servers in processes of their own."""
    config = {"server": {"database_url": url, "drain_seconds": 0.2}, "launchers": LAUNCHERS}
    servers = [CircadiaProcess(folder / f"server{place}", config) for place in range(number)]
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for server in servers:
            server.folder.mkdir()
        await stack.enter_async_context(servers[0])  # the first one prepares the database
        async with asyncio.TaskGroup() as group:
            for server in servers[1:]:
                group.create_task(stack.enter_async_context(server))
        yield Doors(http, [server.url for server in servers], url)
