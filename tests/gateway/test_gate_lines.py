"""The lines at the gate: calls of one agent go to one provider in the order in which they came, or pass a stuck one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from circadia.gateway.hold.bodies import BodiesInFlight, CallBody
from circadia.gateway.hold.reply import Reply
from circadia.gateway.mcp.messages import McpReplyFormat
from circadia.gateway.model_call.hold import Admission, GateCall
from circadia.records.agent import Agent
from circadia.settings import LimitsSettings
from circadia.stores.base import Store
from tests.fixtures.leap import Leap
from tests.gateway.test_gate import Bench, agent_named, bench, settled, swallow


@asynccontextmanager
async def gate_call(made: Bench, agent: Agent) -> AsyncGenerator[GateCall]:
    body = CallBody(BodiesInFlight(LimitsSettings.model_validate({})))
    reply = Reply(swallow, McpReplyFormat(), 15.0)
    call = GateCall(agent=agent, reply=reply, body=body, door="mcp", to="", what="tools/call t", grace_seconds=2.0)
    try:
        yield call
    finally:
        made.gate.leave(call)


@asynccontextmanager
async def woken_call(made: Bench, agent: Agent, *, has_turn: bool) -> AsyncGenerator[GateCall]:
    """Yield a held call after its wake: still being prepared, or with its turn and without a connection."""
    async with gate_call(made, agent) as call:
        made.set(agent, True)
        admitting = asyncio.create_task(made.gate.admit(call))
        await settled()
        made.set(agent, False)
        assert (await admitting).was_held
        if has_turn:
            await made.gate.wait_for_turn(call)
        yield call


@pytest.mark.spec("GATE-42", "GATE-94")
@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_call_that_comes_after_the_wake_waits_behind_a_held_one_that_is_not_sent_yet(
    tmp_path: Path, sqlite_store: Store, has_turn: bool
) -> None:
    agent = agent_named("ann")
    async with bench(tmp_path, sqlite_store, [agent]) as made, woken_call(made, agent, has_turn=has_turn) as first:
        later = asyncio.create_task(made.hold(agent))
        await settled()
        assert not later.done()
        await made.gate.wait_for_turn(first)
        await made.gate.wait_to_send(first)
        made.gate.clear_to_send(first)
        assert not (await later)[1].was_held
        assert (await made.hold(agent))[1] == Admission(), "with nobody before it, a call waits for nothing"


@pytest.mark.spec("GATE-42")
@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_held_call_that_does_not_get_ready_is_passed_by_the_others(
    tmp_path: Path, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, has_turn: bool
) -> None:
    monkeypatch.setattr("circadia.gateway.model_call.hold.ORDER_SECONDS", 0.05)
    agent = agent_named("ann")
    async with bench(tmp_path, sqlite_store, [agent]) as made, woken_call(made, agent, has_turn=has_turn) as stuck:
        async with asyncio.timeout(30):
            await asyncio.gather(*(made.hold(agent) for _ in range(3)))
        await made.gate.wait_for_turn(stuck)
        await made.gate.wait_to_send(stuck)
        made.gate.clear_to_send(stuck)


@pytest.mark.spec("GATE-42")
async def test_a_call_waits_for_those_before_it_as_long_as_their_line_moves(
    tmp_path: Path, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, leap: Leap
) -> None:
    monkeypatch.setattr("circadia.gateway.model_call.hold.ORDER_SECONDS", 1_000.0)
    agent = agent_named("ann")
    async with (
        bench(tmp_path, sqlite_store, [agent]) as made,
        woken_call(made, agent, has_turn=False) as first,
        gate_call(made, agent) as second,
    ):
        await made.gate.admit(second)
        last = asyncio.create_task(made.hold(agent))
        await settled()
        await made.gate.wait_for_turn(first)
        await made.gate.wait_to_send(first)
        made.gate.clear_to_send(first)
        leap(1_000.0)
        await settled()
        assert not last.done(), "the line has moved since it came"
        leap(1_000.0)
        async with asyncio.timeout(30):
            await last
