"""The servers that the guard measures: one on a new database, one on the world."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import world
from benchmarks.postgres import connect, postgres
from benchmarks.requests import TEXT
from benchmarks.server import Circadia, circadia
from circadia.settings.root import RetentionSettings

SESSION: Final = "default"
USER: Final = "person-1"


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


async def fill_databases(
    stack: contextlib.AsyncExitStack, folder: Path, *, is_postgres: bool
) -> tuple[str | None, str | None, str | None]:
    """Fill the world; return the URLs of an empty database and of the world."""
    if not is_postgres:
        data = folder / "world" / "data"
        data.mkdir(parents=True)
        await world.fill_sqlite(data, world.FIXTURE)
        return None, None, None
    url = await stack.enter_async_context(postgres())
    connection = await connect(url)
    for name in ("new", "world"):
        await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    new, large = (url.replace("/postgres?", f"/{name}?") for name in ("new", "world"))
    await world.fill_postgres(large, world.FIXTURE)
    return new, large, url


async def open_server(stack: contextlib.AsyncExitStack, folder: Path, upstream: int, url: str | None) -> GuardServer:
    settings: dict[str, Any] = {
        "upstreams": {"fast": {"base_url": f"http://127.0.0.1:{upstream}"}},
        "defaults": {"hold_silent_seconds": 0.5},
        "retention": dict.fromkeys(RetentionSettings.model_fields),  # else it deletes the world's oldest rows meanwhile
        "limits": {"keep_handled_days": None},
        **({} if url is None else {"server": {"database_url": url}}),
    }
    server = await stack.enter_async_context(circadia(folder, settings))
    agents = f"sessions/{SESSION}/agents"
    # The agent with half of the world's conversations, or a new one of its name.
    with contextlib.suppress(RuntimeError):
        await server.ask("POST", agents, {"name": "agent-0"})
    await server.ask("PATCH", f"{agents}/agent-0", {"policy": {"bank": None}})
    plain = (await server.ask("POST", f"{agents}/agent-0/token"))["token"]
    policy = {"bank": "user-{user}", "capture": False}
    bound = (await server.ask("POST", agents, {"name": "bound", "policy": policy}))["token"]
    bank = f"user-{USER}"
    with contextlib.suppress(RuntimeError):
        await server.ask("POST", "banks", {"name": bank})
    await server.ask("POST", f"banks/{bank}/episodes", {"text": TEXT, "speaker": "ann"})
    for name in ("agent-0", "bound"):
        await server.sleeping(SESSION, name, False)
    return GuardServer(circadia=server, plain=plain, bound=bound)
