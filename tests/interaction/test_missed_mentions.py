"""Mentions that find their agent awake: its next sleep ends over them, once, unless somebody else wished that sleep."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import Live, live
from tests.interaction.test_launched_agents import BOB, end, hooked, started, state
from tests.interaction.test_wakes import PulseReceiver, until


class Room:
    """A thread in which the operator mentions an agent."""

    def __init__(self, server: Live, agent: str, thread: str) -> None:
        self.server = server
        self.agent = agent
        self.thread = thread

    async def mention(self) -> str:
        """Mention the agent and return the message's id."""
        path = f"/sessions/default/threads/{self.thread}/messages"
        status, sent = await self.server.rest("POST", path, {"content": "look", "mentions": [self.agent]})
        assert status == 201
        return sent["id"]


async def room(server: Live, agent: str) -> Room:
    body = {"name": f"with {agent}", "participants": [agent]}
    return Room(server, agent, (await server.rest("POST", "/sessions/default/threads", body))[1]["id"])


async def tool(server: Live, token: str, name: str, /, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with server.tool(token, call, headers={"mcp-protocol-version": "2025-06-18"}) as answer:
        text = await answer.text()
    (line,) = [line for line in text.splitlines() if line.startswith(("data: {", "{"))]
    return json.loads(line.removeprefix("data: "))["result"]["structuredContent"]


async def until_awake(server: Live, name: str) -> None:
    async with asyncio.timeout(60):
        while (await state(server, name))["sleeping"]:
            await asyncio.sleep(0.02)


@pytest.mark.spec("WAKE-88", "WAKE-21")
async def test_a_guarded_agent_that_falls_asleep_over_a_mention_is_woken_by_its_guardrails_once(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        await server.rest("PATCH", "/agents/ann/coordination", {"guard_thread_events": True})
        message = await (await room(server, "ann")).mention()
        assert (await tool(server, ann, "sleep_self"))["sleeping"]
        await until_awake(server, "ann")
        (wake,) = (await server.rest("GET", "/wakes"))[1]["wakes"]
        assert (wake["decision"], wake["source"], wake["message"]) == ("admitted", "thread", message)
        assert (await tool(server, ann, "sleep_self"))["sleeping"]
        assert len((await server.rest("GET", "/wakes"))[1]["wakes"]) == 1
        assert (await state(server, "ann"))["sleeping"]


@pytest.mark.spec("WAKE-88", "WAKE-21")
@pytest.mark.parametrize("guarded", [False, True])
async def test_a_launched_agent_that_is_mentioned_in_its_pulse_runs_once_more_with_the_mention_in_its_prompt(
    tmp_path: Path, guarded: bool
) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, agents=BOB, **hooked(program)) as server:
        settings = {"guard_thread_events": guarded, "wake_guardrails": {"cooldown_seconds": 0}}
        await server.rest("PATCH", "/agents/bob/coordination", settings)
        talk = await room(server, "bob")
        await talk.mention()
        first = await started(program)
        await until(server, first["pulse"], "running")
        message = await talk.mention()
        await end(server, first)
        second = await started(program)
        assert message in second["prompt"]
        await end(server, second)
        assert (await state(server))["sleeping"]
        assert len((await server.rest("GET", "/wakes"))[1]["wakes"]) == 2
        assert program.started.empty()


@pytest.mark.spec("WAKE-88")
@pytest.mark.parametrize("how", ["rest", "file", "tool that finishes edits"])
async def test_an_agent_that_nobody_gave_events_is_woken_by_a_mention(tmp_path: Path, how: str) -> None:
    file: dict[str, Any] = {"agents": {"ann": {"token_env": "ANN"}}, "environment": {"ANN": "cdt_ann_of_the_tests"}}
    async with live(tmp_path, **(file if how == "file" else {})) as server:
        ann = "cdt_ann_of_the_tests" if how == "file" else await server.agent("ann", sleeptime_agent=True)
        talk = await room(server, "ann")
        await talk.mention()
        finish = "memory_finish_edits" if how.startswith("tool") else "sleep_self"
        assert not (await tool(server, ann, finish))["sleeping"]
        assert (await tool(server, ann, finish))["sleeping"]
        await talk.mention()
        assert not (await state(server, "ann"))["sleeping"]


@pytest.mark.spec("WAKE-88")
async def test_who_falls_asleep_is_told_what_will_wake_it_or_that_only_a_person_will(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        schedule = {"routines": [{"name": "daily", "instructions": "look", "cron": "0 6 * * *"}]}
        assert (await server.rest("PUT", "/agents/ann/schedule", schedule))[0] == 200
        wakers = (await tool(server, ann, "sleep_self"))["wakes_on"]
        assert wakers[:3] == ["mentioned", "wake_agent", "message_agent with priority high or urgent"]
        assert wakers[3].startswith("routine daily at ")
        await server.sleeping(False)
        await server.rest("PATCH", "/sessions/default/agents/ann", {"wake_events": []})
        await server.rest("PATCH", "/agents/ann/coordination", {"wakes_enabled": False})
        assert (await tool(server, ann, "sleep_self"))["wakes_on"] == []


@pytest.mark.spec("WAKE-88")
async def test_a_sleep_that_somebody_else_wished_stands_and_its_answer_lists_what_is_unread(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        bob, ann = await server.agent("bob", may_sleep=["ann"]), await server.agent("ann")
        talk = await room(server, "ann")
        messages = [await talk.mention() for _ in range(2)]
        path = "/sessions/default/agents/ann/sleeping"
        slept = (await server.rest("PUT", path, {"sleeping": True}))[1]
        assert (slept["sleeping"], slept["unread"]) == (True, messages)
        await server.sleeping(False)
        slept = await tool(server, bob, "set_sleeping", agent="ann", sleeping=True)
        assert (slept["sleeping"], slept["unread"]) == (True, messages)
        await server.sleeping(False)
        own = (await server.rest("PUT", path, {"sleeping": True}, token=ann))[1]
        assert (own["sleeping"], own["actor"], own["unread"]) == (False, "mentioned by operator", [])
        assert (await server.rest("PUT", path, {"sleeping": True}, token=ann))[1]["sleeping"]


@pytest.mark.spec("GATE-65")
async def test_the_line_of_a_wake_says_who_woke_the_agent_and_by_what(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 60}) as server:
        ann = await server.agent("ann")
        talk = await room(server, "ann")
        await server.sleeping(True)
        pending = asyncio.create_task(server.answered(ann))
        await server.held(1)
        await talk.mention()
        assert (await pending)[0] == 200
        sent = server.upstream.requests[-1].json()["messages"][-1]["content"]
        assert ", woken by operator (mentioned); 1 unread message" in sent
