"""The servers that the guard measures: one on a new database, one on the world."""

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import world
from benchmarks.postgres import connect, postgres
from benchmarks.requests import TEXT, body
from benchmarks.server import START_SECONDS, Circadia, circadia
from circadia.settings.root import RetentionSettings

SESSION: Final = "default"
USER: Final = "person-1"
PATH: Final = "/v1/chat/completions"
EPISODES: Final = 10
"""In the bank of the end user, so that there is something to find."""
KEEP_DAYS: Final = 365
"""More than the world has: nothing is deleted while it is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What takes chat completions: a process, and the request that it gets."""

    pid: int
    port: int
    path: str
    headers: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardServer:
    """A server, and the tokens of its agents without and with a bank."""

    circadia: Circadia
    plain: str
    bound: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Urls:
    """The databases of three servers; all none on SQLite, which is in the folder of its server."""

    fresh: str | None = None
    new: str | None = None
    world: str | None = None
    statistics: str | None = None
    """Another database of the same PostgreSQL."""


async def fill_databases(stack: contextlib.AsyncExitStack, folder: Path, *, is_postgres: bool) -> Urls:
    """Fill the world; return the databases of the three servers."""
    if not is_postgres:
        data = folder / "world" / "data"
        data.mkdir(parents=True)
        await world.fill_sqlite(data, world.FIXTURE)
        return Urls()
    url = await stack.enter_async_context(postgres())
    connection = await connect(url)
    names = ("fresh", "new", "world")
    for name in names:
        await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    fresh, new, large = (url.replace("/postgres?", f"/{name}?") for name in names)
    await world.fill_postgres(large, world.FIXTURE)
    return Urls(fresh=fresh, new=new, world=large, statistics=url)


async def open_fresh_server(stack: contextlib.AsyncExitStack, folder: Path, upstream: int, url: str | None) -> Subject:
    """Start a server without a bank on a new database, as one that is a gate alone."""
    settings: dict[str, Any] = {
        "upstreams": {"fast": {"base_url": f"http://127.0.0.1:{upstream}"}},
        **({} if url is None else {"server": {"database_url": url}}),
    }
    server = await stack.enter_async_context(circadia(folder, settings))
    token = (await server.agents("bench", ["ann"]))["ann"]
    headers = {"Authorization": f"Bearer {token}"}
    return Subject(pid=server.pid, port=server.port, path=f"/llm/fast{PATH}", headers=headers)


async def open_server(stack: contextlib.AsyncExitStack, folder: Path, upstream: int, url: str | None) -> GuardServer:
    """Start a server whose agents use memory: one has a bank, and the other's words can come to it."""
    settings: dict[str, Any] = {
        "upstreams": {"fast": {"base_url": f"http://127.0.0.1:{upstream}"}},
        "defaults": {"hold_silent_seconds": 0.5},
        "retention": dict.fromkeys(RetentionSettings.model_fields),
        "calls": {"text_days": KEEP_DAYS},
        "limits": {"keep_handled_days": None},
        "sleeptime": {"keep_days": KEEP_DAYS},
        **({} if url is None else {"server": {"database_url": url}}),
    }
    server = await stack.enter_async_context(circadia(folder, settings))
    agents = f"sessions/{SESSION}/agents"
    # The agent with half of the world's conversations, or a new one of its name.
    with contextlib.suppress(RuntimeError):
        await server.ask("POST", agents, {"name": "agent-0"})
    await server.ask("PATCH", f"{agents}/agent-0", {"policy": {"bank": None}})
    plain = (await server.ask("POST", f"{agents}/agent-0/token"))["token"]
    policy = {"bank": "user-{user}"}
    bound = (await server.ask("POST", agents, {"name": "bound", "policy": policy}))["token"]
    for name in ("agent-0", "bound"):
        await server.sleeping(SESSION, name, False)
    # The first turn that is kept makes the bank of its end user.
    headers = {"Authorization": f"Bearer {bound}", "X-Circadia-User": USER, "Content-Type": "application/json"}
    async with server.http.post(f"/llm/fast{PATH}", data=body(streamed=False), headers=headers) as answer:
        answer.raise_for_status()
    async with asyncio.timeout(START_SECONDS):
        while f"user-{USER}" not in [bank["name"] for bank in (await server.ask("GET", "banks?limit=1000"))["banks"]]:
            await asyncio.sleep(0.1)
    await server.ask("PATCH", f"{agents}/bound", {"policy": {"capture": False}})
    for at in range(EPISODES):
        await server.ask("POST", f"banks/user-{USER}/episodes", {"text": f"{at} {TEXT}", "speaker": "ann"})
    return GuardServer(circadia=server, plain=plain, bound=bound)
