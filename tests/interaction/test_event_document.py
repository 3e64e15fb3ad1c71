"""Each kind of event occurs on a whole server, and is as the OpenAPI document says."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from circadia.records.event import AnswerDrop, AnswerTrust, EventData, EventType, OperationSuspension
from tests.interaction.event_scenes import (
    HOOK_ENVIRONMENT,
    acknowledge,
    approvals_and_resumed_answers,
    ok,
    reviews,
    waits_and_hooks,
)
from tests.interaction.live import Live, live

BANK = {"bank": "support", "bank_id": "bnk_1"}
RARE: Mapping[EventType, EventData] = {
    EventType.ANSWERS_FELL_BACK: AnswerTrust(**BANK, least_precision=0.9),
    EventType.ANSWERS_TRUSTED: AnswerTrust(**BANK, least_precision=0.9),
    EventType.ANSWERS_DROPPED: AnswerDrop(bank="support", by="operator", answers=1, answer="ans_1"),
    EventType.OPERATION_PAUSED: OperationSuspension.model_validate({
        "bank": "support", "operation": "dedupe", "unit": "usd", "ratio": 0.5, "uses": 1, "calls": 30,
        "saved_tokens": 1, "saved_usd": 0.1, "spent_tokens": 9, "spent_usd": 0.2, "window_days": 14,
        "until": "2026-01-01T00:00:00Z",
    }),
}  # fmt: skip
"""Kinds that take many judged answers, ready ones, or calls; their own tests provoke them."""
LAUNCHERS = {"command": {"kind": "subprocess", "command": ["true"]}}


async def sessions_and_messages(at: Live) -> None:
    await ok(at, "POST", "/tokens", {"name": "eve", "role": "viewer"})
    await ok(at, "DELETE", "/tokens/eve")
    graph = {"name": "team", "agents": [{"name": "ann"}, {"name": "bob"}, {"name": "cid"}]}
    await ok(at, "POST", "/sessions", graph)
    await ok(at, "POST", "/sessions/team/threads", {"name": "talk", "participants": ["ann"]})
    await ok(at, "POST", "/sessions/team/threads/talk/participants", {"agent": "bob"})
    await ok(at, "POST", "/sessions/team/threads/talk/messages", {"from": "ann", "content": "hello"})
    await ok(at, "DELETE", "/sessions/team/threads/talk/participants/bob")
    await ok(at, "POST", "/sessions/team/threads/talk/close")
    await ok(at, "PATCH", "/sessions/team/agents/bob", {"enabled": False})
    await ok(at, "POST", "/sessions/team/agents/bob/token")
    await ok(at, "DELETE", "/sessions/team/agents/bob")
    sent = await ok(at, "POST", "/messages", {"to": "team:ann", "content": "hello"})
    await ok(at, "POST", f"/agents/team:ann/inbox/{sent['message']}/ack")
    await ok(at, "PATCH", "/agents/team:ann/coordination", {"launcher": "command"})
    await ok(at, "POST", "/wakes", {"to": "team:ann", "message": "hello", "reason": "user_request"})
    routine = {"name": "weekly", "cron": "0 9 * * mon"}
    await ok(at, "PUT", "/agents/team:ann/schedule", {"routines": [routine]})
    await ok(at, "DELETE", "/sessions/team")


async def banks(at: Live) -> None:
    await ok(at, "POST", "/banks", {"name": "support"})
    await ok(at, "PATCH", "/banks/support", {"description": "customers"})
    await ok(at, "POST", "/dreams", {"inputs": [{"type": "bank", "name": "support"}]})
    await ok(at, "PUT", "/banks/support/blocks/human", {"value": "Ann lives in Porto."})
    episode = await ok(at, "POST", "/banks/support/episodes", {"text": "I like tea."})
    await ok(at, "POST", "/banks/support/forget", {"ids": [episode["id"]]})
    await ok(at, "POST", "/banks/support/episodes", {"text": "I like coffee."})
    await ok(at, "POST", "/banks/support/sleeptime/pause")
    await ok(at, "POST", "/banks/support/sleeptime/resume")
    await ok(at, "POST", "/banks/support/passes", {"dry_run": True})
    await ok(at, "DELETE", "/banks/support")


async def corrections(at: Live) -> None:
    token = await at.agent("keeper", bank="kept", preset="personal")
    body = {"text": "I live in Porto.", "speaker": "user"}
    episode = (await ok(at, "POST", "/banks/kept/episodes", body))["id"]
    for tool, more in (("memory_correct", {"correction": "In Riga."}), ("memory_forget", {})):
        params = {"name": tool, "arguments": {"episode": episode, **more}}
        async with at.tool(token, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) as response:
            assert episode in await response.text()
    await ok(at, "POST", f"/banks/kept/forgotten/{episode}/restore")
    await ok(at, "DELETE", "/sessions/default/agents/keeper")  # awake, it would keep the session from stalling


async def calls(at: Live) -> None:
    token = await at.agent(max_calls_per_day=9)

    async def call() -> None:
        async with at.call(token) as response:
            await response.read()

    ends: list[Callable[[], Awaitable[object]]] = [
        lambda: at.sleeping(False),
        lambda: ok(at, "DELETE", "/sessions/default/agents/ann"),
    ]
    for end in ends:
        await at.sleeping(True)
        held = asyncio.create_task(call())
        await at.held(1)
        await end()
        await held


@pytest.mark.spec("SHIP-07")
async def test_each_kind_of_event_occurs_and_is_as_the_document_says(tmp_path: Path) -> None:
    """`Live.rest` checks each event of each answer against the document."""
    sections: dict[str, Any] = {"launchers": LAUNCHERS, "environment": HOOK_ENVIRONMENT}
    async with live(tmp_path, upstream={"retries": 0}, defaults={"stall_seconds": 0.1}, **sections) as at:
        await sessions_and_messages(at)
        await banks(at)
        await corrections(at)
        await reviews(at)
        await waits_and_hooks(at)
        await approvals_and_resumed_answers(at)
        token = await at.agent("bob", max_calls_per_day=1)
        at.upstream.next(reset=True)
        async with at.call(token) as response:
            assert response.status == 502
        await calls(at)
        await at.sleeping(True, "bob")
        for kind, data in RARE.items():
            at.server.journal.event(kind, data, session="default", agent="ann")
        await acknowledge(at)
        missing = set(EventType)
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                while missing:
                    await asyncio.sleep(0.05)
                    missing = set(EventType) - {event["type"] for event in await at.events()}
    assert missing == set()
