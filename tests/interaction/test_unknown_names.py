"""What names that callers make up cost the server, whatever is stored (GATE-72)."""

import random
import sqlite3
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.database_file import write_beside
from tests.interaction.live import ADMIN, live
from tests.recording.statement_recorder import SentStatement, recorded

pytestmark = pytest.mark.usefixtures("frozen_heap")


async def loop_seconds(work: Awaitable[object]) -> float:
    """Return the processor time that the event loop's thread takes while it awaits the work."""
    before = time.thread_time()
    await work
    return time.thread_time() - before


@pytest.mark.spec("GATE-72")
async def test_an_unknown_thread_among_20000_costs_the_event_loop_nothing_and_tells_of_no_thread_of_others(
    tmp_path: Path,
) -> None:
    draw = random.Random(7)

    def odd_name() -> str:
        return "".join(draw.choice("ab") for _ in range(199))

    async with live(tmp_path) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        await at.rest("POST", "/sessions/default/threads", {"name": "bobs-secret", "participants": []}, token=bob)
        await at.rest("POST", "/sessions/default/threads", {"name": "anns-thread", "participants": []}, token=ann)

        def write(database: sqlite3.Connection) -> None:
            columns = "session_id, status, created_by, created_at"
            database.executemany(
                f"INSERT INTO threads (id, name, {columns}) SELECT ?, ?, {columns} FROM threads LIMIT 1",
                [(f"thr_{number}", odd_name()) for number in range(20_000)],
            )
            database.execute(
                "INSERT OR IGNORE INTO participants (thread_id, agent_id, active, added_at) "
                "SELECT threads.id, agents.id, 1, threads.created_at FROM threads, agents "
                "WHERE agents.name = 'ann' AND threads.name != 'bobs-secret'"
            )

        await write_beside(tmp_path / "circadia.db", write)
        told: list[str] = []

        async def ask_for(name: str, token: str) -> None:
            status, problem = await at.rest("GET", f"/sessions/default/threads/{name}/messages", token=token)
            assert status == 404
            told.append(problem["detail"])

        for token in (ann, bob, ADMIN):
            assert await loop_seconds(ask_for(odd_name(), token)) < 0.05
        await ask_for("bobs-secrets", ann)
        assert "bobs-secret'" not in told[-1]
        await ask_for("bobs-secrets", bob)
        assert "did you mean 'bobs-secret'?" in told[-1]


@pytest.mark.spec("GATE-72")
async def test_an_agent_opens_as_many_threads_at_once_as_the_setting_says(tmp_path: Path) -> None:
    async with live(tmp_path, limits={"max_open_threads_per_agent": 2}) as at:
        token = await at.agent()

        async def open_thread() -> tuple[int, Any]:
            return await at.rest("POST", "/sessions/default/threads", {"name": "t", "participants": []}, token=token)

        first = (await open_thread())[1]["id"]
        assert (await open_thread())[0] == 201
        status, problem = await open_thread()
        assert (status, problem["detail"]) == (429, "'ann' has opened 2 threads that are still open; close some")
        await at.rest("POST", f"/sessions/default/threads/{first}/close", {}, token=token)
        assert (await open_thread())[0] == 201


@pytest.mark.parametrize("path", ["/agents/{}/inbox", "/agents/{}/coordination", "/sessions/{}/agents"])
async def test_a_name_of_60000_letters_is_answered_at_once(tmp_path: Path, path: str) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        long = "a" * 60_000

        async def ask_for() -> None:
            assert (await at.rest("GET", path.format(long), token=token))[0] in (403, 404, 414, 422)

        assert await loop_seconds(ask_for()) < 0.05


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "sqlite":
        return {}
    return {"server": {"database_url": request.getfixturevalue("postgres_url")}}


LISTS = [
    ("PUT", "/sessions/default/sleeping", "agents", {"sleeping": True}),
    ("POST", "/sessions/default/threads", "participants", {"name": "many"}),
    ("POST", "/sessions/default/threads/notes/messages", "mentions", {"content": "hello"}),
]


@pytest.mark.spec("GATE-72")
@pytest.mark.parametrize(("method", "path", "key", "body"), LISTS)
async def test_40000_names_are_one_parameter_and_a_name_that_comes_again_is_looked_up_once(
    tmp_path: Path, database: dict[str, Any], method: str, path: str, key: str, body: dict[str, Any]
) -> None:
    async with live(tmp_path, **database) as at:
        await at.agent("ann")
        await at.rest("POST", "/sessions/default/threads", {"name": "notes", "participants": ["ann"]})
        status, problem = await at.rest(method, path, {**body, key: [f"n{number}" for number in range(40_000)]})
        assert status == 404, problem
        assert "no agent 'n0'" in problem["detail"]
        sent: list[SentStatement] = []
        with recorded(sent.append):
            status, answer = await at.rest(method, path, {**body, key: ["ann"] * 40_000})
        assert status in (200, 201), answer
        assert len(sent) < 200
