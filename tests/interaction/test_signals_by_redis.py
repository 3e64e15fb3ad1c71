"""Two whole servers on one PostgreSQL that signal by Redis, which may go away at any time.

The clock of the second server stands unless a test moves it: what arrives meanwhile came as a signal.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from circadia.errors import ConfigError
from circadia.settings import settings_from
from circadia.testing.clock import ManualClock
from tests.fixtures.redis import RedisServer, connect_redis
from tests.interaction.live import Live, live


@dataclass
class Pair:
    here: Live
    there: Live
    clock: ManualClock
    """The clock of `there`."""
    redis: RedisServer
    token: str

    async def subscribed(self) -> None:
        """Return once both servers listen to Redis; the clock moves on for tries to connect."""
        async with asyncio.timeout(60), connect_redis(self.redis) as client:
            while (await client.pubsub_numsub("circadia"))[0][1] < 2:
                self.clock.advance(1)
                await asyncio.sleep(0.01)

    async def hold(self) -> "asyncio.Task[int]":
        """Put the agent to sleep at `here`, and return a call that is held at `there`."""
        await self.here.sleeping(True)
        async with asyncio.timeout(60):
            while True:  # a call passes until the signal is there
                held = asyncio.create_task(self._call())
                while not held.done():
                    if (await self.there.rest("GET", "/holds"))[1]["holds"]:
                        return held

    async def _call(self) -> int:
        async with self.there.call(self.token) as response:
            await response.read()
            return response.status


@asynccontextmanager
async def pair(folder: Path, url: str, redis: RedisServer) -> AsyncGenerator[Pair]:
    clock = ManualClock()
    sections: dict[str, Any] = {"server": {"database_url": url}, "signals_env": "REDIS_URL"}
    environment = {"REDIS_URL": redis.url}
    async with (
        live(folder / "here", environment=environment, **sections) as here,
        live(folder / "there", environment=environment, clock=clock, **sections) as there,
    ):
        at = Pair(here=here, there=there, clock=clock, redis=redis, token=await here.agent())
        await at.subscribed()
        yield at


async def ended(held: "asyncio.Task[int]") -> int:
    async with asyncio.timeout(60):
        return await held


@pytest.mark.spec("GATE-42", "CLU-13")
async def test_a_wake_at_one_server_admits_a_call_held_at_the_other_at_once(
    tmp_path: Path, postgres_url: str, redis_server: RedisServer
) -> None:
    async with pair(tmp_path, postgres_url, redis_server) as at:
        held = await at.hold()
        await at.here.sleeping(False)
        assert await ended(held) == 200


@pytest.mark.spec("CLU-22")
@pytest.mark.parametrize(
    ("lose", "restore"),
    [(RedisServer.stop, RedisServer.start), (RedisServer.freeze, RedisServer.thaw)],
    ids=["stopped", "silent"],
)
async def test_without_redis_a_wake_arrives_by_the_sweep_within_a_second_and_by_redis_again_when_it_is_back(
    tmp_path: Path,
    postgres_url: str,
    redis_server: RedisServer,
    lose: Callable[[RedisServer], None],
    restore: Callable[[RedisServer], None],
) -> None:
    async with pair(tmp_path, postgres_url, redis_server) as at:
        held = await at.hold()
        lose(redis_server)
        await at.here.sleeping(False)
        at.clock.advance(1)
        assert await ended(held) == 200
        restore(redis_server)
        await at.subscribed()
        held = await at.hold()
        await at.here.sleeping(False)
        assert await ended(held) == 200


@pytest.mark.spec("CLU-22")
async def test_servers_start_and_work_while_redis_is_away(
    tmp_path: Path, postgres_url: str, redis_server: RedisServer
) -> None:
    redis_server.stop()
    sections: dict[str, Any] = {"server": {"database_url": postgres_url}, "signals": redis_server.url}
    async with live(tmp_path / "here", **sections) as here, live(tmp_path / "there", **sections) as there:
        token = await here.agent()
        assert (await there.answered(token))[0] == 200


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"signals": "redis://localhost"}, "signals: a server on SQLite has no others to signal to; "),
        ({"signals_env": "REDIS_URL"}, "signals_env: a server on SQLite has no others to signal to; "),
        ({"signals": "redis://localhost", "signals_env": "REDIS_URL"}, "signals and signals_env say the same; "),
        ({"signals": "http://:s3cret@localhost"}, "signals: this is no URL of a Redis server; write redis://"),
        ({"signals": "redis://:s3cret@localhost:port"}, "signals: this is no URL of a Redis server; write redis://"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_not_shown(sections: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        settings_from(sections)
    assert told in str(refusal.value)
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "signals_env: the environment has no 'REDIS_URL'; set it, or remove the key from the file"),
        ({"REDIS_URL": "http://:s3cret@localhost"}, "signals_env: this is no URL of a Redis server; write redis://"),
    ],
)
async def test_a_variable_that_holds_no_url_is_refused_and_not_shown(
    tmp_path: Path, postgres_url: str, environment: dict[str, str], told: str
) -> None:
    sections: dict[str, Any] = {"server": {"database_url": postgres_url}, "signals_env": "REDIS_URL"}
    with pytest.raises(ConfigError) as refusal:
        async with live(tmp_path, environment=environment, **sections):
            pass
    assert str(refusal.value).startswith(told)
    assert "s3cret" not in str(refusal.value)


async def test_without_the_package_a_server_does_not_start_and_says_what_to_install(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    sections: dict[str, Any] = {"server": {"database_url": postgres_url}, "signals": "redis://localhost"}
    with pytest.raises(ConfigError, match=r"run `pip install 'circadia\[redis\]'`"):
        async with live(tmp_path, **sections):
            pass
