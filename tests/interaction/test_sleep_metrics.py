"""What Prometheus sees of passes."""

import asyncio
from pathlib import Path

import pytest

from tests.interaction.live import ADMIN, live


@pytest.mark.spec("SLEEP-60")
async def test_each_move_of_a_pass_is_counted_and_how_work_stands_is_shown(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        assert (await server.rest("POST", "/banks", {"name": "team"}))[0] == 201
        assert (await server.rest("POST", "/banks/team/episodes", {"text": "The build is green."}))[0] == 201
        status, run = await server.rest("POST", "/banks/team/passes", {"wait_seconds": 30})
        assert (status, run["ended_at"] is not None) == (202, True)
        headers = {"authorization": f"Bearer {ADMIN}"}
        text = ""
        async with asyncio.timeout(60):
            while f'circadia_passes_total{{status="{run["status"]}"}} 1.0' not in text:
                async with server.http.get(f"{server.url}/metrics", headers=headers) as answer:
                    text = await answer.text()
    assert 'circadia_passes_total{status="pending"} 1.0' in text
    names = ("lag_seconds", "backlog_episodes", "failures_in_a_row", "red_banks", "banks_waiting", "tokens_24h")
    for name in (*names, "saved_tokens_today", "spent_tokens_today"):
        assert f"\ncircadia_sleep_{name} " in text
