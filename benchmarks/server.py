"""Circadia as a process of its own, as an operator starts it."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from benchmarks.processes import stop

ADMIN_TOKEN: Final = "operator-token-of-the-benchmarks"
ROOT: Final = Path(__file__).parent.parent
"""Where it is started, so that its launchers find the functions of this package."""
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Circadia:
    """A running server."""

    pid: int
    """Its process."""
    port: int
    """Where it listens, on 127.0.0.1."""
    http: aiohttp.ClientSession
    """Asks it with the operator's token; its base is `/api/v1/`."""

    async def agents(self, session: str, names: Sequence[str]) -> dict[str, str]:
        """Make a session with these agents, all awake; return their tokens by name."""
        graph = {"name": session, "agents": [{"name": name} for name in names]}
        made = await self.ask("POST", "sessions", graph)
        return {agent["name"]: agent["token"] for agent in made["agents"]}

    async def sleeping(self, session: str, agent: str, value: bool) -> None:
        """Put one agent to sleep, or wake it."""
        await self.ask("PUT", f"sessions/{session}/agents/{agent}/sleeping", {"sleeping": value})

    async def all_sleeping(self, session: str, agents: Sequence[str] | None, value: bool) -> None:
        """Put agents of a session to sleep, or wake them, in one call."""
        await self.ask("PUT", f"sessions/{session}/sleeping", {"sleeping": value, "agents": agents})

    async def held(self, session: str, agent: str) -> int:
        """Return how many calls of the agent are held."""
        return (await self.ask("GET", f"sessions/{session}/agents/{agent}/sleeping"))["held"]

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request of the control API; return its answer. Raises RuntimeError: it is not a 2xx."""
        async with self.http.request(method, f"api/v1/{path}", json=body) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path} answered {answer.status}: {await answer.text()}")
            return await answer.json()

    async def metric(self, name: str) -> float:
        """Return a metric that has no labels."""
        async with self.http.get("metrics") as answer:
            lines = (await answer.text()).splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


@contextlib.asynccontextmanager
async def circadia(folder: Path, settings: dict[str, Any]) -> AsyncGenerator[Circadia]:
    """Run `circadia serve` on a free port with its data in `folder`; stop it at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "circadia.yaml"
    config.write_text(yaml.safe_dump(settings), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "circadia", "serve"),
        *("--config", str(config), "--data", str(folder / "data"), "--port", "0"),
        cwd=ROOT,
        env={**os.environ, "CIRCADIA_ADMIN_TOKEN": ADMIN_TOKEN},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    drain: asyncio.Task[bytes] | None = None
    try:
        port = await asyncio.wait_for(_announced(process.stdout), START_SECONDS)
        drain = asyncio.create_task(process.stdout.read())
        async with aiohttp.ClientSession(
            f"http://127.0.0.1:{port}/", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}
        ) as http:
            yield Circadia(pid=process.pid, port=port, http=http)
    finally:
        await stop(process, STOP_SECONDS)
        if drain is not None:
            await drain


async def _announced(output: asyncio.StreamReader) -> int:
    """Return the port that the server names once it listens. Raises RuntimeError: it ended before."""
    said: list[str] = []
    async for raw in output:
        said.append(raw.decode())
        for word in said[-1].split():
            if word.startswith("http://127.0.0.1:"):
                return int(word.rsplit(":", 1)[1].strip("/.,"))
    raise RuntimeError(f"the server ended before it listened: {''.join(said)}")
