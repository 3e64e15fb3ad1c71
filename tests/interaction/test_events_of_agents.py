"""What the record says of sessions, agents, tokens and pauses, read as a program reads it (GATE-80)."""

from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import Live, live


def without_numbers(events: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [(each["type"], each["session"], each["agent"], each["data"]) for each in events]


async def done(server: Live, method: str, path: str, body: object = None) -> Any:
    """Make a REST call as the operator and return its answer, which is no error."""
    status, answer = await server.rest(method, path, body)
    assert status < 300, answer
    return answer


@pytest.mark.spec("GATE-80")
async def test_what_becomes_of_a_session_its_agents_and_their_tokens_stands_in_the_record_in_order(
    tmp_path: Path,
) -> None:
    async with live(tmp_path) as server:
        newest = (await server.events())[-1]["number"]
        await done(server, "POST", "/sessions", {"name": "release"})
        for name in ("ann", "bob"):
            await done(server, "POST", "/sessions/release/agents", {"name": name})
        await done(server, "PATCH", "/sessions/release/agents/ann", {"enabled": False})
        await done(server, "PATCH", "/sessions/release/agents/ann", {"enabled": True})
        token = (await done(server, "POST", "/sessions/release/agents/ann/token"))["token"]
        await done(server, "DELETE", "/sessions/release/agents/ann")
        await done(server, "DELETE", "/sessions/release")
        events = [event for event in await server.events() if event["number"] > newest]
        assert token not in str(events)
        assert without_numbers([each for each in events if each["type"] != "agent_created"]) == [
            ("session_created", "release", None, {"agents": 0, "by": "operator"}),
            ("agent_changed", "release", "ann", {"enabled": False, "by": "operator"}),
            ("agent_changed", "release", "ann", {"enabled": True, "by": "operator"}),
            ("token_rotated", "release", "ann", {"by": "operator"}),
            ("agent_deleted", "release", "ann", {"reason": "deleted", "by": "operator"}),
            ("agent_deleted", "release", "bob", {"reason": "ended with its session", "by": "operator"}),
            ("session_closed", "release", None, {"by": "operator"}),
        ]


@pytest.mark.spec("GATE-80")
async def test_who_pauses_the_passes_of_a_bank_and_lets_them_begin_again_stands_in_the_record(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        bank = await done(server, "POST", "/banks", {"name": "team"})
        await done(server, "POST", "/banks/team/sleeptime/pause")
        await done(server, "POST", "/banks/team/sleeptime/resume")
        told = {"bank": "team", "bank_id": bank["id"], "by": "operator"}
        assert without_numbers(await server.events("passes_paused", "passes_resumed")) == [
            ("passes_paused", None, None, told),
            ("passes_resumed", None, None, told),
        ]
