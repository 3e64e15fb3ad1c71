"""A whole installation moves from SQLite to PostgreSQL and back: all of it is there, and goes on."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.spec("CLU-32")

PATIENCE_SECONDS = 60.0
CHAT = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
AGENTS: Sequence[dict[str, Any]] = (
    {"name": "ann", "sleep_events": ["agent_started"]},
    {"name": "bob"},
    {"name": "cid", "policy": {"bank": "harbour"}},
)
SHOWN = (
    "/sessions/team/agents",
    "/sessions/team/threads",
    "/agents/team:ann/inbox?q=caf%C3%A9",
    "/agents/team:ann/inbox?state=handled",
    "/agents/team:bob/inbox",
    "/agents/team:bob/pulses",
    "/agents/team:ann/schedule?since=2026-01-05T00:00:00Z&until=2026-01-06T00:00:00Z",
    "/agents/team:ann/coordination",
    "/wakes",
    "/banks",
    "/banks/harbour/episodes",
    "/banks/harbour/blocks",
    "/banks/harbour/search?q=Where%20does%20the%20boat%20lie",
    "/usage?group_by=agent",
)
"""What is compared; lists of live processes are not."""


async def fetch_shown(server: CircadiaProcess) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):  # embedding follows in the background
        while any(
            each["embedded_by"] is None for each in (await server.call("GET", "/banks/harbour/episodes"))["episodes"]
        ):
            await asyncio.sleep(0.02)
    return {path: await server.call("GET", path) for path in SHOWN}


async def fetch_events(server: CircadiaProcess, after: int = 0) -> list[dict[str, Any]]:
    return (await server.call("GET", f"/events?after={after}&limit=10000"))["events"]


async def ask_model(server: CircadiaProcess, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        asyncio.timeout(PATIENCE_SECONDS),
        http.post(f"{server.url}/llm/openai/v1/chat/completions", json=CHAT) as answer,
    ):
        await answer.read()
        return answer.status


async def wait_for_pulse_end(server: CircadiaProcess) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (pulses := (await server.call("GET", "/agents/team:bob/pulses"))["pulses"]) or any(
            pulse["ended_at"] is None for pulse in pulses
        ):
            await asyncio.sleep(0.02)


async def wait_for_usage(server: CircadiaProcess) -> None:
    """Wait until the call is in the ledger, which is written after its answer."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await server.call("GET", "/usage?group_by=agent"))["usage"]:
            await asyncio.sleep(0.02)


async def fill(server: CircadiaProcess) -> dict[str, str]:
    """Write something of each kind, and return the agents' tokens."""
    await server.call("POST", "/banks", {"name": "harbour", "policy": {"hot_edits": True}})
    tokens = await server.create_session("team", AGENTS)
    for number, text in enumerate(
        ("The boat lies at pier nine.", "Maria paints it green.", "Naïve café, 東京, \U0001f6a2.")
    ):
        body = {"text": text, "conversation": "c", "importance": 0.25, "metadata": {"n": number, "x": [1.5, None, "é"]}}
        await server.call("POST", "/banks/harbour/episodes", body)
    await server.call("PUT", "/banks/harbour/blocks/about", {"value": "Ann sails."})
    for content in ("a café by the harbour", "another"):
        await server.call("POST", "/messages", {"to": "team:ann", "content": content, "key": content})
    handled = (await server.call("GET", "/agents/team:ann/inbox?q=another"))["messages"][0]["id"]
    await server.call("POST", f"/agents/team:ann/inbox/{handled}/ack")
    routine = {"name": "weekly", "cron": "0 9 * * mon", "instructions": "write"}
    await server.call("PUT", "/agents/team:ann/schedule", {"routines": [routine]})
    await server.call("PATCH", "/agents/team:bob/coordination", {"launcher": "quick", "heartbeat_minutes": None})
    await server.call("POST", "/agents/team:bob/pulses", {"reason": "by hand"})
    await wait_for_pulse_end(server)
    assert await ask_model(server, tokens["cid"]) == 200
    await wait_for_usage(server)
    return tokens


async def read_stream(server: CircadiaProcess, last_event_id: int, count: int) -> list[int]:
    """Return the numbers of the next events that a reader of the stream gets."""
    numbers: list[int] = []
    headers = {**server.admin, "Last-Event-ID": str(last_event_id)}
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        aiohttp.ClientSession(headers=headers) as http,
        http.get(f"{server.url}/api/v1/events/stream") as stream,
    ):
        async for line in stream.content:
            if line.startswith(b"data: "):
                numbers.append(json.loads(line[6:])["number"])
                if len(numbers) == count:
                    break
    return numbers


async def require_same(server: CircadiaProcess, before: dict[str, Any], events: list[dict[str, Any]]) -> None:
    after = await fetch_shown(server)
    for path in SHOWN:
        assert after[path] == before[path], path
    assert (await fetch_events(server))[: len(events)] == events


async def require_working(server: CircadiaProcess, tokens: dict[str, str], last: int) -> None:
    """Assert that tokens, sleep, numbers, idempotency keys and the feed go on where they ended."""
    assert (await server.call("GET", "/sessions/team/agents/ann/sleeping"))["sleeping"] is True
    assert await ask_model(server, tokens["cid"]) == 200
    held = asyncio.create_task(ask_model(server, tokens["ann"]))
    await server.held_by("team", "ann")
    await server.put_sleeping("team", "ann", sleeping=False)
    assert await held == 200
    await server.put_sleeping("team", "ann", sleeping=True)
    again = await server.call("POST", "/messages", {"to": "team:ann", "content": "another", "key": "another"})
    old = {message["id"] for message in (await server.call("GET", "/agents/team:ann/inbox?state=handled"))["messages"]}
    assert again["message"] in old
    episode = await server.call(
        "POST", "/banks/harbour/episodes", {"text": f"After event {last}.", "conversation": "c"}
    )
    episodes = (await server.call("GET", "/banks/harbour/episodes?order=oldest"))["episodes"]
    assert episode["number"] == max(each["number"] for each in episodes)
    assert len({each["number"] for each in episodes}) == len(episodes)
    assert len((await server.call("GET", "/agents/team:ann/inbox?q=CAFE"))["messages"]) == 1
    numbers = [event["number"] for event in await fetch_events(server, last)]
    assert numbers
    assert min(numbers) > last
    assert await read_stream(server, last, len(numbers)) == numbers


async def test_a_move_to_postgresql_and_back_keeps_everything_and_all_numbers_go_on(
    tmp_path: Path, empty_postgres_url: str
) -> None:
    async with MockUpstream() as upstream:
        config: dict[str, Any] = {
            "upstreams": {"openai": {"base_url": upstream.base_url}},
            "launchers": {"quick": {"kind": "callable", "function": "benchmarks.pulse_agent:quick"}},
            "sleeptime": {"enabled": False},
        }
        shared = {**config, "server": {"database_url": empty_postgres_url}}
        first, second = tmp_path / "first.db", tmp_path / "second.db"
        async with CircadiaProcess(tmp_path / "lite", config) as server:
            tokens = await fill(server)
            before, events = await fetch_shown(server), await fetch_events(server)
        assert (await run("export", str(first), "--data", str(tmp_path / "lite" / "data"))).status == 0

        (tmp_path / "pg.yaml").write_text(json.dumps(shared), "utf-8")
        imported = await run("import", str(first), "--config", str(tmp_path / "pg.yaml"))
        assert imported.status == 0, imported
        async with CircadiaProcess(tmp_path / "pg", shared) as server:
            await require_same(server, before, events)
            await require_working(server, tokens, events[-1]["number"])
            before, events = await fetch_shown(server), await fetch_events(server)
        assert (await run("export", str(second), "--config", str(tmp_path / "pg.yaml"))).status == 0

        restored = tmp_path / "again"
        assert (await run("restore", str(second), "--data", str(restored / "data"))).status == 0
        async with CircadiaProcess(restored, config) as server:
            await require_same(server, before, events)
            await require_working(server, tokens, events[-1]["number"])
