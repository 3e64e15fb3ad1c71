"""Calls that wait for a person's approval (WAKE-86): at both doors, for official clients, on both databases."""

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from mcp import MCPError

from circadia.testing.mcp_upstream import MockMcpServer
from tests.clients.mcp_clients import HANDSHAKE, McpClient, python_client
from tests.fixtures.ahead import OffsetClock
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, CHAT, Live, live
from tests.interaction.test_alert_webhook import paged
from tests.interaction.test_mcp_door import ask, call, session

pytestmark = pytest.mark.spec("WAKE-86")

SILENT = {"hold_grace_seconds": 60, "hold_silent_seconds": 60}
DEAR = "o3-pro"
ASKED = {**CHAT, "model": DEAR}


@pytest.fixture(params=["sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The sections of the configuration that name the database."""
    if request.param == "sqlite":
        return {}
    return {"server": {"database_url": request.getfixturevalue("postgres_url")}}


async def pending(at: Live, count: int = 1) -> list[dict[str, Any]]:
    """Return the pending approvals once there are so many, the oldest first."""
    async with asyncio.timeout(60):
        while True:
            found = (await at.rest("GET", "/approvals?status=pending"))[1]["approvals"]
            if len(found) == count:
                return found[::-1]
            await asyncio.sleep(0.01)


async def decide(at: Live, approval: str, verdict: str = "approve", reason: str = "", **given: Any) -> tuple[int, Any]:
    return await at.rest("POST", f"/approvals/{approval}/{verdict}", {"reason": reason}, **given)


async def asks(at: Live, token: str, body: object = ASKED, **given: Any) -> tuple[int, Any]:
    async with at.call(token, body=body, **given) as response:
        return response.status, json.loads(await response.read())


async def test_a_model_call_waits_for_a_person_who_sees_what_it_is_and_is_sent_once(
    tmp_path: Path, sections: Mapping[str, Any]
) -> None:
    async with live(tmp_path, defaults=SILENT, **sections) as at:
        token = await at.agent(approve_models=[DEAR])
        assert (await asks(at, token, CHAT))[0] == 200, "other models need no approval"
        secret = "sk-proj-" + "a1B2" * 12
        body = {**ASKED, "messages": [{"role": "user", "content": f"spend it, my key is {secret}"}]}
        waiting = asyncio.create_task(asks(at, token, body))
        (approval,) = await pending(at)
        assert (approval["agent"], approval["reference"], approval["status"]) == ("ann", "ann", "pending")
        assert (approval["door"], approval["target"], approval["rule"]) == ("model", "openai", "model")
        assert (approval["what"], approval["model"]) == ("POST /v1/chat/completions", DEAR)
        assert "spend it" in approval["preview"]
        assert secret not in approval["preview"]
        assert (len(approval["digest"]), approval["cut"], approval["decided_by"]) == (64, False, None)
        (hold,) = await at.held(1)
        assert hold["approval"] == approval["id"]
        assert len(at.upstream.requests) == 1, "nothing was sent"
        assert (await asks(at, token, CHAT))[0] == 200, "the agent's other calls go on"
        _, person = await at.rest("POST", "/tokens", {"name": "pat", "role": "operator"})
        status, decided = await decide(at, approval["id"], reason="checked", token=person["token"])
        assert (status, decided["status"], decided["decided_by"]) == (200, "approved", "operator/pat")
        assert (await waiting)[0] == 200
        assert (await at.rest("GET", f"/approvals/{approval['id']}"))[1]["status"] == "used"
        events = [event["data"] for event in await at.events("approval")]
        assert [(each["status"], each["by"]) for each in events] == [
            ("pending", "ann"), ("approved", "operator/pat"), ("used", "ann"),
        ]  # fmt: skip
        assert {each["digest"] for each in events} == {approval["digest"]}
        again = asyncio.create_task(asks(at, token, body))
        (next_one,) = await pending(at)
        assert next_one["id"] != approval["id"], "an approval is for one call"
        assert next_one["digest"] == approval["digest"]
        await decide(at, next_one["id"], "refuse", "enough")
        assert (await again)[0] == 403
        assert len(at.upstream.requests) == 3


@pytest.mark.setting("defaults.approve_models", "defaults.approval_seconds")
async def test_a_decision_given_twice_late_or_by_a_viewer_or_an_agent_changes_nothing(
    tmp_path: Path, sections: Mapping[str, Any]
) -> None:
    clock = LeapClock()
    async with live(tmp_path, defaults={**SILENT, "hold_silent_seconds": 6e5}, clock=clock, **sections) as at:
        token = await at.agent(approve_models=["*"], approval_seconds=3600.0)
        waiting = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)
        _, viewer = await at.rest("POST", "/tokens", {"name": "vic", "role": "viewer"})
        assert (await decide(at, approval["id"], token=viewer["token"]))[0] == 403
        assert (await decide(at, approval["id"], token=token))[0] == 403
        assert (await at.rest("GET", "/approvals", token=token))[0] == 403
        assert (await at.rest("GET", "/approvals", token=viewer["token"]))[0] == 200
        assert (await decide(at, "apr_nobody"))[0] == 404
        assert (await at.rest("POST", f"/approvals/{approval['id']}/refuse", {}))[0] == 422, "a refusal needs a reason"
        assert (await decide(at, approval["id"]))[0] == 200
        status, problem = await decide(at, approval["id"], "refuse", "no")
        assert (status, "by operator already" in problem["detail"]) == (409, True)
        assert (await waiting)[0] == 200
        waiting = asyncio.create_task(asks(at, token))
        (late,) = await pending(at)
        clock.leap(3700)
        status, answer = await waiting
        assert (status, answer["error"]["code"]) == (403, "approval_refused")
        assert "nobody approved this call" in answer["error"]["message"]
        assert (await decide(at, late["id"]))[0] == 409
        assert (await at.rest("GET", f"/approvals/{late['id']}"))[1]["status"] == "expired"
        assert len(at.upstream.requests) == 1


async def test_a_changed_body_finds_no_approval_and_a_repeat_that_only_streams_does(
    tmp_path: Path, sections: Mapping[str, Any]
) -> None:
    async with live(tmp_path, defaults=SILENT, **sections) as at:
        token = await at.agent(approve_models=[DEAR])
        gone = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)
        gone.cancel()
        await at.held(0)
        assert (await decide(at, approval["id"]))[0] == 200, "the caller is away, and comes back"
        changed = asyncio.create_task(asks(at, token, {**ASKED, "temperature": 2}))
        (other,) = await pending(at)
        assert other["digest"] != approval["digest"]
        assert at.upstream.requests == []
        async with at.call(token, body={**ASKED, "stream": True}) as response:
            assert (response.status, (await response.read()).endswith(b"[DONE]\n\n")) == (200, True)
        assert (await at.rest("GET", f"/approvals/{approval['id']}"))[1]["status"] == "used"
        await decide(at, other["id"], "refuse", "no")
        assert (await changed)[0] == 403
        assert len(at.upstream.requests) == 1


async def test_of_two_equal_calls_one_approval_lets_one_pass(tmp_path: Path, sections: Mapping[str, Any]) -> None:
    async with live(tmp_path, defaults=SILENT, **sections) as at:
        token = await at.agent(approve_models=[DEAR])
        calls = [asyncio.create_task(asks(at, token)) for _ in range(2)]
        await at.held(2)
        (first,) = await pending(at)
        await decide(at, first["id"])
        done, (other,) = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert done.pop().result()[0] == 200
        (second,) = await pending(at)
        assert second["id"] != first["id"]
        assert len(at.upstream.requests) == 1
        await decide(at, second["id"])
        assert (await other)[0] == 200


async def test_a_call_that_its_provider_did_not_carry_out_keeps_its_approval(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT, upstream={"retries": 0}) as at:
        token = await at.agent(approve_models=[DEAR])
        at.upstream.next(status=503, body={"error": {"message": "overloaded"}})
        waiting = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)
        await decide(at, approval["id"])
        assert (await waiting)[0] == 503
        async with asyncio.timeout(60):
            while (await at.rest("GET", f"/approvals/{approval['id']}"))[1]["status"] != "approved":
                await asyncio.sleep(0.01)
        assert (await asks(at, token))[0] == 200
        assert len(at.upstream.requests) == 2
        assert (await at.rest("GET", f"/approvals/{approval['id']}"))[1]["status"] == "used"


async def test_a_call_that_its_provider_may_have_carried_out_is_not_sent_again(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent(approve_models=[DEAR])
        at.upstream.next(reset=True)
        waiting = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)
        await decide(at, approval["id"])
        assert (await waiting)[0] == 502
        again = asyncio.create_task(asks(at, token))
        (other,) = await pending(at)
        assert other["id"] != approval["id"]
        assert len(at.upstream.requests) == 1
        await decide(at, other["id"], "refuse", "no")
        assert (await again)[0] == 403


async def test_an_approval_is_not_given_back_beside_one_that_is_open_for_the_same_call(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT, upstream={"retries": 0}) as at:
        token, answer = await at.agent(approve_models=[DEAR]), asyncio.Event()
        at.upstream.next(status=503, body={"error": {"message": "overloaded"}}, delay=answer)
        waiting = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)
        await decide(at, approval["id"])
        async with asyncio.timeout(60):
            while not at.upstream.requests:
                await asyncio.sleep(0.01)
        second = asyncio.create_task(asks(at, token))
        (other,) = await pending(at)
        answer.set()
        assert (await waiting)[0] == 503
        third = asyncio.create_task(asks(at, token))  # after what the end of the first one wrote
        await at.held(2)
        assert [each["id"] for each in await pending(at)] == [other["id"]]
        assert (await at.rest("GET", f"/approvals/{approval['id']}"))[1]["status"] == "used"
        await decide(at, other["id"], "refuse", "no")
        assert [(await call)[0] for call in (second, third)] == [403, 403]


async def test_an_asleep_agents_call_waits_for_both_the_wake_and_the_person(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent(approve_models=[DEAR])
        await at.sleeping(True)
        waiting = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)
        await decide(at, approval["id"])
        async with asyncio.timeout(60):
            while (await at.held(1))[0]["approval"] is not None:
                await asyncio.sleep(0.01)
        assert at.upstream.requests == []
        await at.sleeping(False)
        assert (await waiting)[0] == 200
        waiting = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)
        await at.sleeping(True)
        await at.sleeping(False)
        assert len(await at.held(1)) == 1
        await decide(at, approval["id"], "refuse", "not now")
        assert (await waiting)[0] == 403


async def test_an_approval_that_is_too_old_when_its_agent_wakes_is_asked_for_anew(
    tmp_path: Path, ahead: type[OffsetClock]
) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent(approve_models=[DEAR], approval_seconds=60)
        await at.sleeping(True)
        waiting = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)
        assert (await decide(at, approval["id"]))[0] == 200
        ahead.by = timedelta(seconds=61)
        await at.sleeping(False)
        (again,) = await pending(at)
        assert (again["id"] != approval["id"], at.upstream.requests) == (True, [])
        assert (await decide(at, again["id"]))[0] == 200
        assert (await waiting)[0] == 200


async def test_a_policy_that_comes_while_a_call_is_held_asks_for_its_approval(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent()
        await at.sleeping(True)
        waiting = asyncio.create_task(asks(at, token))
        await at.held(1)
        changed = {"policy": {"approve_models": [DEAR]}}
        status, answer = await at.rest("PATCH", "/sessions/default/agents/ann", changed)
        assert status == 200, answer
        await at.sleeping(False)
        (approval,) = await pending(at)
        assert at.upstream.requests == []
        await decide(at, approval["id"])
        assert (await waiting)[0] == 200


@pytest.mark.setting("defaults.approve_above_usd")
async def test_a_dear_call_needs_approval_by_its_worst_price_and_an_unknown_price_does_too(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent(approve_above_usd=0.01)
        assert (await asks(at, token, {**CHAT, "max_tokens": 100}))[0] == 200
        calls = [
            asyncio.create_task(asks(at, token, {**CHAT, **more}))
            for more in ({"max_tokens": 100_000}, {"model": "nobody-knows-me"})
        ]
        known, unknown = sorted(await pending(at, 2), key=lambda each: each["max_usd"] is None)
        assert known["rule"] == unknown["rule"] == "spend"
        assert known["max_usd"] > 0.01
        assert unknown["max_usd"] is None
        for each in (known, unknown):
            await decide(at, each["id"])
        assert [status for status, _ in await asyncio.gather(*calls)] == [200, 200]


async def test_the_longest_hold_ends_a_wait_for_approval_too_and_a_repeat_finds_the_approval(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent(approve_models=[DEAR], hold_max_seconds=0.2)
        status, answer = await asks(at, token)
        assert (status, answer["error"]["code"]) == (503, "awaiting_approval")
        (approval,) = await pending(at)
        await decide(at, approval["id"])
        assert (await asks(at, token))[0] == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_official_sdks_raise_the_refusal_with_its_reason(tmp_path: Path, stream: bool) -> None:
    """A buffered call that was opened is cut, and its repeat gets the refusal with its own status."""
    async with live(tmp_path) as at:
        token = await at.agent(approve_models=["*"])

        async def by_openai() -> object:
            async with openai.AsyncOpenAI(base_url=f"{at.url}/llm/openai/v1", api_key=token) as client:
                answer: Any = await client.chat.completions.create(
                    model=DEAR, messages=[{"role": "user", "content": "hello"}], stream=stream
                )
                return [part async for part in answer] if stream else answer

        async def by_anthropic() -> object:
            async with anthropic.AsyncAnthropic(base_url=f"{at.url}/llm/anthropic", api_key=token) as client:
                answer: Any = await client.messages.create(
                    model="claude", max_tokens=9, messages=[{"role": "user", "content": "hello"}], stream=stream
                )
                return [part async for part in answer] if stream else answer

        for asking, error in ((by_openai, openai.APIError), (by_anthropic, anthropic.APIError)):
            waiting = asyncio.create_task(asking())
            (approval,) = await pending(at)
            async with asyncio.timeout(60):
                while (await at.held(1))[0]["phase"] != "opened":
                    await asyncio.sleep(0.01)
            await decide(at, approval["id"], "refuse", "after the release")
            with pytest.raises(error) as raised:
                await waiting
            assert "operator has refused this call" in str(raised.value)
            assert "after the release" in str(raised.value)
            if not stream:
                assert isinstance(raised.value, openai.PermissionDeniedError | anthropic.PermissionDeniedError)
            assert await at.held(0) == []
        assert at.upstream.requests == []


@pytest.mark.setting("defaults.approve_tools")
async def test_a_tool_call_waits_and_a_client_gets_the_refusal_as_an_mcp_error(
    tmp_path: Path, sections: Mapping[str, Any]
) -> None:
    client = McpClient(name="python", call=python_client("legacy"))
    async with MockMcpServer() as tools, live(tmp_path, mcp_servers={"t": {"url": tools.url}}, **sections) as at:
        token = await at.agent(approve_tools=["t/echo"])
        url = f"{at.url}/mcp/t"
        assert (await client.call(url, token, "add", {"a": 1, "b": 2}, False)).text.startswith("3")
        waiting = asyncio.create_task(client.call(url, token, "echo", {"text": "merge"}, True))
        (approval,) = await pending(at)
        assert (approval["door"], approval["target"], approval["what"]) == ("mcp", "t", "tools/call echo")
        assert json.loads(approval["preview"]) == {"text": "merge"}
        assert [each.name for each in tools.calls] == ["add"]
        await decide(at, approval["id"])
        assert (await waiting).text == "merge"
        waiting = asyncio.create_task(client.call(url, token, "echo", {"text": "merge"}, False))
        (approval,) = await pending(at)
        await decide(at, approval["id"], "refuse", "not on a Friday")
        with pytest.raises(MCPError) as raised:
            await waiting
        assert "not on a Friday" in str(raised.value)
        assert [each.name for each in tools.calls] == ["add", "echo"]


async def test_a_tool_call_that_is_cut_finds_its_approval_under_another_id(tmp_path: Path) -> None:
    async with MockMcpServer() as tools, live(tmp_path, mcp_servers={"t": {"url": tools.url}}) as at:
        token = await at.agent(approve_tools=["*"])
        headers = {"mcp-session-id": await session(at, token, "/t")}
        gone = asyncio.create_task(ask(at, token, call("echo", 1, "progress-1", text="hi"), "/t", **headers))
        (approval,) = await pending(at)
        gone.cancel()
        await at.held(0)
        await decide(at, approval["id"])
        other = asyncio.create_task(ask(at, token, call("echo", 2, text="ho"), "/t", **headers))
        (changed,) = await pending(at)
        assert changed["digest"] != approval["digest"]
        answer = (await ask(at, token, call("echo", 3, text="hi"), "/t", **headers))[-1]
        assert answer["result"]["content"][0]["text"] == "hi"
        await decide(at, changed["id"], "refuse", "no")
        (answer,) = (await other)[-1:]
        assert answer["error"]["data"] == {"code": "approval_refused", "retryable": False, "sleeping": False}


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","name":"echo","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","Name":"echo","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"echo"}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}]',
    ],
)
async def test_a_message_that_a_server_could_read_as_another_call_is_refused(tmp_path: Path, body: bytes) -> None:
    async with MockMcpServer() as tools, live(tmp_path, mcp_servers={"t": {"url": tools.url}}) as at:
        token = await at.agent(approve_tools=["t/echo"])
        async with at.tool(token, body, server="/t", headers={"mcp-protocol-version": HANDSHAKE}) as response:
            text = await response.text()
            assert (response.status, "the body" in text) == (400, True), text
        assert tools.calls == []


async def test_a_webhook_hears_once_that_an_agent_waits_and_again_after_a_decision(tmp_path: Path) -> None:
    async with paged(tmp_path) as (at, pager):
        token = await at.agent(approve_models=[DEAR])
        for number in range(2):
            waiting = asyncio.create_task(asks(at, token, {**ASKED, "n": number + 1}))
            (approval,) = await pending(at)
            pager_alert = await pager.heard("approval")
            assert (pager_alert["agent"], pager_alert["detail"]["approval"]) == ("ann", approval["id"])
            assert (pager_alert["detail"]["what"], "preview" in pager_alert["detail"]) == (approval["what"], False)
            pager.alerts.clear()
            await decide(at, approval["id"])
            assert (await waiting)[0] == 200


async def test_metrics_count_approvals_and_who_waits(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent(approve_models=[DEAR])
        waiting = asyncio.create_task(asks(at, token))
        (approval,) = await pending(at)

        async def metrics() -> str:
            async with at.http.get(f"{at.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as response:
                return await response.text()

        async with asyncio.timeout(60):  # its row is there shortly before the gate knows of it
            while "circadia_approvals_waiting 1.0" not in await metrics():
                await asyncio.sleep(0.01)
        await decide(at, approval["id"])
        assert (await waiting)[0] == 200
        text = await metrics()
        assert "circadia_approvals_waiting 0.0" in text
        for status in ("pending", "approved", "used"):
            assert f'circadia_approvals_total{{rule="model",status="{status}"}} 1.0' in text


async def test_own_tools_can_need_approval(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(approve_tools=["circadia/list_agents"])
        waiting = asyncio.create_task(ask(at, token, call("list_agents", 1)))
        (approval,) = await pending(at)
        assert approval["target"] == "circadia"
        await decide(at, approval["id"])
        assert "result" in (await waiting)[-1]
