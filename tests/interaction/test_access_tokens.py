"""Tokens of people: operators, whose acts bear their names, and viewers, who change nothing."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from circadia.api.app import openapi_document
from tests.interaction.live import Live, live

UNSAFE = sorted(
    (method.upper(), path)
    for path, operations in openapi_document()["paths"].items()
    for method in operations
    if method not in ("get", "parameters")
)


async def grant(at: Live, name: str, role: str) -> str:
    status, created = await at.rest("POST", "/tokens", {"name": name, "role": role})
    assert status == 201, created
    return created["token"]


async def whole(at: Live, method: str, path: str, token: str) -> int:
    """Send a request to a path of the server; return the status of its answer."""
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    async with at.http.request(method, at.url + path, json={}, headers=headers) as answer:
        return answer.status


@pytest.mark.spec("UI-02")
async def test_a_viewer_reads_what_an_operator_reads_and_may_call_nothing_that_changes(tmp_path: Path) -> None:
    async with live(tmp_path, banks={"team": {}}) as at:
        await at.agent()
        await at.rest("POST", "/sessions/default/threads", {"name": "t", "participants": ["ann"]})
        viewer = await grant(at, "vic", "viewer")
        for path in (
            "/sessions",
            "/sessions/default/agents",
            "/holds",
            "/wakes",
            "/banks",
            "/usage",
            "/events?after=0",
        ):
            assert await at.rest("GET", path, token=viewer) == await at.rest("GET", path), path
        assert (await at.rest("GET", "/me", token=viewer))[1] == {"name": "viewer/vic", "role": "viewer"}
        before = (await at.rest("GET", "/events?after=0"))[1]
        for method, path in UNSAFE:
            if path == "/api/v1/me/links":  # a way in for viewers too
                continue
            filled = re.sub("{[^}]*}", "default", path)
            assert await whole(at, method, filled, viewer) == 403, (method, path)
        assert await whole(at, "POST", "/mcp", viewer) == 403
        assert await whole(at, "POST", "/llm/openai/v1/chat/completions", viewer) == 403
        assert (await at.rest("GET", "/events?after=0"))[1] == before
        status, problem = await at.rest("POST", "/sessions", {"name": "more"}, token=viewer)
        assert (status, problem["code"]) == (403, "forbidden")
        assert "use an operator's token" in problem["detail"]
    assert len(UNSAFE) > 40


@pytest.mark.spec("UI-02")
async def test_what_a_person_does_bears_the_name_of_that_person(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann = await at.agent()
        olga = await grant(at, "olga", "operator")
        assert (await at.rest("PUT", "/sessions/default/agents/ann/sleeping", {"sleeping": True}, token=olga))[0] == 200
        sent = {"to": "ann", "message": "Look.", "reason": "blocker", "from": "operator"}
        assert (await at.rest("POST", "/wakes", sent, token=olga))[0] == 201
        granted, slept, wake = [(await at.events(kind))[-1] for kind in ("access_granted", "sleep_start", "wake")]
        assert granted["data"] == {"name": "olga", "role": "operator", "by": "operator"}
        assert slept["data"]["actor"] == "operator/olga"
        assert wake["data"]["from"] == "operator/olga"
        waited = {"name": "wait_for_agent", "arguments": {"agent": "operator", "timeout_seconds": 5}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": waited}
        async with at.tool(ann, call) as answer:
            assert "operator/olga" in await answer.text()


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("POST", "/sessions", {"name": "more"}, "session_created"),
        ("DELETE", "/sessions/old", None, "session_closed"),
        ("POST", "/sessions/default/agents", {"name": "bob"}, "agent_created"),
        ("PATCH", "/sessions/default/agents/ann", {"description": "tests"}, "agent_changed"),
        ("POST", "/sessions/default/agents/ann/token", None, "token_rotated"),
        ("DELETE", "/sessions/default/agents/ann", None, "agent_deleted"),
        ("DELETE", "/sessions/old", None, "agent_deleted"),
    ],
)
async def test_each_change_of_sessions_and_agents_names_who_made_it(
    tmp_path: Path, method: str, path: str, body: Any, kind: str
) -> None:
    async with live(tmp_path) as at:
        await at.agent()
        assert (await at.rest("POST", "/sessions", {"name": "old", "agents": [{"name": "cid"}]}))[0] == 201
        olga = await grant(at, "olga", "operator")
        assert (await at.rest(method, path, body, token=olga))[0] in {200, 201, 204}
        assert (await at.events(kind))[-1]["data"]["by"] == "operator/olga"


@pytest.mark.spec("UI-02")
async def test_a_revoked_token_opens_nothing_and_a_name_has_one_token(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        olga = await grant(at, "olga", "operator")
        assert (await at.rest("POST", "/tokens", {"name": "olga", "role": "viewer"}))[0] == 409
        assert (await at.rest("POST", "/tokens", {"name": "Olga!", "role": "viewer"}))[0] == 422
        assert (await at.rest("GET", "/me", token=olga))[0] == 200
        assert (await at.rest("DELETE", "/tokens/olgo"))[0] == 404
        assert (await at.rest("DELETE", "/tokens/olga", token=olga))[0] == 204
        assert (await at.rest("GET", "/me", token=olga))[0] == 401
        assert (await at.rest("GET", "/tokens"))[1] == {"tokens": []}
        assert [event["data"]["by"] for event in await at.events("access_revoked")] == ["operator/olga"]
        assert (await at.rest("GET", "/tokens", token=await at.agent()))[0] == 403


@pytest.mark.spec("UI-02")
async def test_another_server_refuses_a_revoked_token_within_a_second_or_two(tmp_path: Path, postgres_url: str) -> None:
    shared: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with live(tmp_path / "one", **shared) as one, live(tmp_path / "two", **shared) as two:
        viewer = await grant(one, "vic", "viewer")
        assert (await two.rest("GET", "/sessions", token=viewer))[0] == 200
        assert (await one.rest("DELETE", "/tokens/vic"))[0] == 204
        async with asyncio.timeout(10):
            while (await two.rest("GET", "/sessions", token=viewer))[0] != 401:
                await asyncio.sleep(0.02)


@pytest.mark.spec("UI-02")
async def test_a_stream_of_events_ends_with_the_token_at_every_server(tmp_path: Path, postgres_url: str) -> None:
    shared: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with live(tmp_path / "one", **shared) as one, live(tmp_path / "two", **shared) as two:
        viewer, stays = await grant(one, "vic", "viewer"), await grant(one, "olga", "operator")

        def follow(at: Live, token: str) -> Any:
            return at.http.get(f"{at.url}/api/v1/events/stream", headers={"authorization": f"Bearer {token}"})

        async with follow(one, viewer) as here, follow(two, viewer) as there, follow(two, stays) as other:
            for stream in (here, there, other):
                assert (await stream.content.readline()).startswith(b"retry:")
            assert (await one.rest("DELETE", "/tokens/vic"))[0] == 204
            async with asyncio.timeout(10):
                assert b"access_revoked" not in await here.content.read()
                assert b"access_revoked" not in await there.content.read()
                while b"access_revoked" not in await other.content.readline():
                    pass
