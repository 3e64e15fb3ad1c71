"""`circadia approvals`: calls that wait for a person."""

import asyncio
from typing import Any

import aiohttp
import pytest

from circadia.client import Client
from circadia.errors import Conflict
from tests.cli.terminal import refused, run
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("WAKE-86")]


async def ask(server: CircadiaProcess, token: str, text: str) -> int:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        async with http.post(f"{server.url}/llm/openai/v1/chat/completions", json=body) as answer:
            await answer.read()
            return answer.status


async def waiting(agent: str) -> dict[str, Any]:
    """Return the call of the agent that waits, once it does."""
    async with asyncio.timeout(60):
        while not (found := (await run("approvals", "--agent", agent, "--json")).json["approvals"]):
            await asyncio.sleep(0.05)
    return found[0]


async def test_a_person_lists_shows_approves_and_refuses_calls(operator: CircadiaProcess) -> None:
    agents = [{"name": "ann", "policy": {"approve_models": ["*"]}}]
    token = (await operator.create_session("careful", agents))["ann"]
    assert "no call waits for approval" in (await run("approvals", "--agent", "careful:ann")).err
    call = asyncio.create_task(ask(operator, token, "may I\x1b[31m?"))
    approval = await waiting("careful:ann")
    listed = (await run("approvals", "--agent", "ann", "--session", "careful")).out
    assert all(word in listed for word in (approval["id"], "careful:ann", "pending"))
    shown = (await run("approvals", "show", approval["id"])).out
    assert "careful:ann: POST /v1/chat/completions at openai (model)" in shown
    assert "may I" in shown
    assert "\x1b" not in shown
    result = await run("approvals", "approve", approval["id"], "--reason", "fine")
    assert result.out == "approved POST /v1/chat/completions of careful:ann\n"
    assert await call == 200
    refused(await run("approvals", "refuse", approval["id"], "--reason", "no"), 5, "used", "operator")
    call = asyncio.create_task(ask(operator, token, "and now?"))
    approval = await waiting("careful:ann")
    assert (await run("approvals", "refuse", approval["id"], "--reason", "too late")).status == 0
    assert await call == 403
    every = (await run("approvals", "--all", "--agent", "careful:ann", "--json")).json["approvals"]
    assert [(each["status"], each["reason"]) for each in every] == [("refused", "too late"), ("used", "fine")]
    assert (await run("approvals", "--status", "refused", "--json")).json["approvals"][0]["id"] == approval["id"]
    refused(await run("approvals", "show", "apr_nobody"), 4, "apr_nobody")


async def test_a_program_waits_for_the_decision_with_the_client(operator: CircadiaProcess) -> None:
    agents = [{"name": "bob", "policy": {"approve_models": ["*"]}}]
    token = (await operator.create_session("watched", agents))["bob"]
    call = asyncio.create_task(ask(operator, token, "may I?"))
    approval = await waiting("watched:bob")
    async with Client(operator.url, ADMIN_TOKEN) as client:
        decision = asyncio.create_task(client.wait_for_approval(approval["id"], timeout_seconds=60))
        page = await client.list_approvals(status="pending", agent="watched:bob")
        assert [each.id for each in page.approvals] == [approval["id"]]
        await client.approve_call(approval["id"])
        assert (await decision).decided_by == "operator"
        with pytest.raises(Conflict):
            await client.refuse_call(approval["id"], "no")
    assert await call == 200
