"""What people read of a large world costs the server and PostgreSQL 100 ms at most, in pages of 4 MB."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import aiohttp
import psutil
import pytest

from benchmarks.postgres import connect
from circadia.api.app import openapi_document
from circadia.settings.root import RetentionSettings
from tests.fixtures.server_process import CircadiaProcess

pytestmark = [pytest.mark.spec("LARGE-05"), pytest.mark.timeout(900)]

MOST_SECONDS: Final = 0.1
MOST_BYTES: Final = 4 * 2**20
TRIES: Final = 3
"""The cheapest counts: the first fills caches, and other work of the server runs beside one or another."""
LEFT_OUT: Final = frozenset({"export_bank", "follow_events", "resume_answer"})
"""Streams, and what only the agent may read that made the call."""
QUERIES: Final = (
    "/events?order=newest&limit=100", "/events?order=newest&session=default&agent=agent-0&limit=100",
    "/agents?limit=100", "/sessions/default/agents?limit=100", "/sessions/default/threads?limit=100",
    "/messages?limit=100", "/wakes?agent=agent-0&limit=100", "/banks/team/episodes?limit=100",
    *(f"/usage?group_by={by}&limit=100" for by in ("model", "day", "agent", "end_user", "conversation", "day,agent")),
)  # fmt: skip


async def find_names(server: CircadiaProcess) -> Mapping[str, str]:
    """Return a name of each kind that stands in a path."""

    async def first(path: str, key: str) -> Mapping[str, Any]:
        found: Sequence[Mapping[str, Any]] = (await server.call("GET", path))[key]
        return found[0]

    sleep_pass = await first("/banks/team/passes?limit=1", "passes")
    wake = await first("/wakes?limit=1", "wakes")
    pulse = await first("/agents/agent-0/pulses?limit=1", "pulses")
    return {
        "session": "default", "agent": "agent-0", "bank": "team", "pass": sleep_pass["id"], "wake": wake["id"],
        "pulse": pulse["id"], "root": pulse["id"],
        "thread": (await first("/sessions/default/threads?limit=1", "threads"))["name"],
        "episode": (await first("/banks/team/episodes?limit=1", "episodes"))["id"],
        "note": (await first("/banks/team/notes?limit=1", "notes"))["id"],
        "label": (await first("/banks/team/blocks", "blocks"))["label"],
        "answer": (await first("/banks/team/answers?limit=1", "answers"))["id"],
        "call": (await first("/calls?limit=1", "calls"))["id"],
        "approval": (await first("/approvals?limit=1", "approvals"))["id"],
        "alert": (await first("/alerts?limit=1", "alerts"))["id"],
        "hook": (await first("/hooks", "hooks"))["name"],
        "message": (await first("/messages?limit=1", "messages"))["id"],
    }  # fmt: skip


def list_paths(names: Mapping[str, str]) -> list[str]:
    """Return each GET that is no stream, with a full page if it has pages, and those with more to choose."""
    paths: list[str] = list(QUERIES)
    for path, operations in openapi_document()["paths"].items():
        operation = operations.get("get")
        if operation is None or operation["operationId"] in LEFT_OUT or "{dream}" in path or "{folder}" in path:
            continue
        given = {each["name"]: each["schema"] for each in operation.get("parameters", ())}
        page = [f"limit={min(100, given['limit'].get('maximum', 100))}"] if "limit" in given else []
        query = "&".join([*page, *["q=porto"] * ("q" in given)])
        paths.append(path.removeprefix("/api/v1").format_map(names) + f"?{query}" * bool(query))
    return paths


@pytest.fixture
def world_settings() -> Mapping[str, object]:
    """Nothing is deleted meanwhile: that work would count as that of the reads."""
    kept = dict.fromkeys(RetentionSettings.model_fields)
    return {"retention": kept, "limits": {"keep_handled_days": None}}


@pytest.fixture
async def operator(world_server: CircadiaProcess) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {**world_server.admin, "Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(f"{world_server.url}/api/v1/", headers=headers) as client:
        yield client


async def find_backends(url: str | None) -> list[int]:
    """Return the processes of PostgreSQL that work for the database."""
    if url is None:
        return []
    connection = await connect(url)
    try:
        rows = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
    finally:
        await connection.close()
    return [row["pid"] for row in rows]


def seconds_of(pids: Sequence[int]) -> float:
    """Return the processor time that these processes have used; one that has ended counts no more."""
    total = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total


async def test_each_get_takes_100_ms_of_the_server_and_of_its_database(
    world_server: CircadiaProcess, operator: aiohttp.ClientSession, world_url: str | None
) -> None:
    dear: dict[str, tuple[float, int]] = {}
    for path in list_paths(await find_names(world_server)):
        found: list[tuple[float, int]] = []
        for _ in range(TRIES):
            before = seconds_of([world_server.pid]), seconds_of(backends := await find_backends(world_url))
            async with operator.get(path.removeprefix("/")) as answer:
                content = await answer.read()
                assert answer.status in (200, 404), f"{path}: {answer.status} {content[:500]!r}"
            took = seconds_of([world_server.pid]) - before[0], seconds_of(backends) - before[1]
            found.append((max(took), len(content)))
        seconds, size = min(found)
        if seconds > MOST_SECONDS or size > MOST_BYTES:
            dear[path] = seconds, size
    assert not dear


async def test_new_events_follow_those_of_the_world(
    world_server: CircadiaProcess, operator: aiohttp.ClientSession
) -> None:
    async def newest(limit: int) -> Sequence[Mapping[str, Any]]:
        async with operator.get(
            f"events?order=newest&agent=agent-0&session=default&type=sleep_start&limit={limit}"
        ) as answer:
            assert answer.status == 200, await answer.text()
            found: Mapping[str, Any] = await answer.json()
            return found["events"]

    before = await newest(1)
    for sleeping in (False, True, False, True):
        await world_server.call("PUT", "/sessions/default/agents/agent-0/sleeping", {"sleeping": sleeping})
    second, first = await newest(2)
    assert second["number"] > first["number"] > before[0]["number"] > 0
