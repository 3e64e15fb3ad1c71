"""What large answers cost the calls that pass meanwhile: the event loop is never busy for long."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.database_file import write_beside
from tests.interaction.live import ADMIN, CHAT, Live, live
from tests.interaction.test_unknown_names import loop_seconds

pytestmark = pytest.mark.usefixtures("frozen_heap")


async def add_agents(folder: Path, count: int) -> None:
    """Copy the only agent that often."""

    def write(database: sqlite3.Connection) -> None:
        names = [row[1] for row in database.execute("PRAGMA table_info(agents)")]
        copied = ", ".join(name for name in names if name not in ("id", "name", "token_hash"))
        database.executemany(
            f"INSERT INTO agents (id, name, token_hash, {copied}) SELECT ?, ?, ?, {copied} FROM agents LIMIT 1",
            [(f"agt_{number}", f"agent-{number:05}", f"hash-{number}") for number in range(count)],
        )

    await write_beside(folder / "circadia.db", write)


async def read_agents(at: Live) -> int:
    """Return the number of the listed agents, without a parse of the answer in this loop."""
    async with at.http.get(f"{at.url}/api/v1/agents", headers={"authorization": f"Bearer {ADMIN}"}) as response:
        assert (response.status, response.content_type) == (200, "application/json")
        return (await response.read()).count(b'"reference":')


@pytest.mark.spec("UI-04")
async def test_a_list_of_10000_agents_keeps_the_event_loop_busy_for_less_than_50_ms(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        await at.agent("first")
        await add_agents(tmp_path, 9_999)
        assert await read_agents(at) == 10_000
        assert await loop_seconds(read_agents(at)) < 0.05


@pytest.mark.spec("WAKE-42")
async def test_the_largest_schedule_keeps_the_event_loop_busy_for_less_than_50_ms(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent("first")
        routines = [{"name": f"r{number}", "cron": f"{number % 60} * * * *"} for number in range(100)]
        blackouts = [
            {"start_time": f"{number % 23:02}:{number % 60:02}", "end_time": f"{number % 23:02}:59"}
            for number in range(200)
            if number % 60 < 59
        ]
        body = {"routines": routines, "blackouts": blackouts}
        status, answer = await at.rest("PUT", "/agents/first/schedule", body)
        assert status == 200, answer

        async def read() -> None:
            headers = {"authorization": f"Bearer {token}"}
            async with at.http.get(f"{at.url}/api/v1/agents/first/schedule", headers=headers) as response:
                assert response.status == 200
                assert len(await response.read()) > 100_000

        await read()
        assert await loop_seconds(read()) < 0.05


LONG = "word " * 1_700_000
"""More than the gateway keeps of an answer that it reads."""
LONG_ANSWERS: dict[str, tuple[str, str, Any, Any]] = {
    "openai": (
        "/v1/chat/completions", "openai", CHAT,
        {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": LONG}}]},
    ),
    "anthropic": (
        "/v1/messages", "anthropic", {**CHAT, "max_tokens": 9},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": LONG}]},
    ),
    "gemini": (
        "/v1beta/models/gemini-2.5-flash:generateContent", "openai", {"contents": [{"parts": [{"text": "hello"}]}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": LONG}]}, "finishReason": "STOP"}]},
    ),
}  # fmt: skip


@pytest.mark.spec("GATE-61", "GATE-64")
@pytest.mark.parametrize("api", LONG_ANSWERS)
async def test_an_answer_that_is_too_long_to_be_read_passes_and_did_not_fail(tmp_path: Path, api: str) -> None:
    path, upstream, asked, said = LONG_ANSWERS[api]
    async with live(tmp_path, upstream={"api": "gemini"} if api == "gemini" else {}) as at:
        token = await at.agent()
        at.upstream.next(body=said, status=200, headers={"content-type": "application/json"})
        async with at.call(token, path, asked, upstream=upstream) as response:
            assert (response.status, len(await response.read()) > len(LONG)) == (200, True)
        (line,) = await at.usage()
        assert (line["calls"], line["failed"], line["unknown"]) == (1, 0, 1)
