"""The client's waits: they return the state that a program waits for, whoever brings it about."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from circadia.client.calls import Client
from circadia.errors import NotFound
from circadia.testing.clock import ManualClock
from tests.api.service import ADMIN, Service


@pytest.fixture
def pauses() -> ManualClock:
    """The clock of the waiting client."""
    return ManualClock()


@pytest.fixture
async def waiting(service: Service, pauses: ManualClock) -> AsyncGenerator[Client]:
    async with Client(service.url, ADMIN, clock=pauses) as client:
        yield client


async def waited(pauses: ManualClock, wait: Awaitable[Any], act: Callable[[], Awaitable[object]]) -> Any:
    """Return what the wait returns; `act` comes once the client has looked in vain and pauses."""
    task = asyncio.ensure_future(wait)
    await pauses.wait_for_sleepers(1)
    assert not task.done()
    await act()
    pauses.advance(1.0)
    return await asyncio.wait_for(task, 20)


async def test_it_waits_until_an_agent_sleeps_and_until_it_is_awake(
    service: Service, client: Client, waiting: Client, pauses: ManualClock
) -> None:
    await client.create_agent("default", "ann")
    wait = waiting.wait_until_sleeping("default", "ann")
    state = await waited(pauses, wait, lambda: client.set_sleeping("default", "ann", True))
    assert (state.sleeping, state.generation) == (True, 1)
    wait = waiting.wait_until_sleeping("default", "ann", False)
    state = await waited(pauses, wait, lambda: client.set_sleeping("default", "ann", False))
    assert state.sleeping is False


async def test_it_waits_for_messages_of_a_thread_and_of_an_inbox(
    client: Client, waiting: Client, pauses: ManualClock
) -> None:
    for name in ("ann", "bob"):
        await client.create_agent("default", name)
    thread = (await client.create_thread("default", "notes", ["ann", "bob"])).id
    first = await client.send_message("default", thread, "one", sender="ann")
    wait = waiting.wait_for_messages("default", thread, after=first.number)
    messages = await waited(pauses, wait, lambda: client.send_message("default", thread, "two", sender="ann"))
    assert [each.content for each in messages] == ["two"]
    for item in (await client.show_inbox("bob")).messages:
        await client.ack_message("bob", item.id)
    page = await waited(pauses, waiting.wait_for_inbox("bob"), lambda: client.send_direct("bob", "three"))
    assert [each.content for each in page.messages] == ["three"]


async def test_it_waits_for_the_end_of_a_pulse_and_of_a_pass(
    client: Client, waiting: Client, pauses: ManualClock
) -> None:
    await client.create_agent("default", "ann")
    await client.set_sleeping("default", "ann", True)
    pulse = (await client.start_pulse("ann")).pulse
    assert pulse is not None
    ended = await waited(pauses, waiting.wait_for_pulse(pulse), lambda: client.cancel_pulse(pulse))
    assert ended.status == "cancelled"
    await client.create_bank("team")
    run = (await client.run_pass("team")).id
    over = await waited(pauses, waiting.wait_for_pass(run), lambda: client.cancel_pass(run))
    assert over.status == "cancelled"


async def test_it_waits_for_the_decision_on_a_deferred_wake(
    client: Client, waiting: Client, pauses: ManualClock
) -> None:
    await client.create_agent("default", "ann")
    wake = (await client.wake_agent("ann", "user_request", "look")).wake  # it is awake, so this waits
    assert wake is not None
    assert (await client.show_wake(wake)).decision == "deferred"
    decided = await waited(pauses, waiting.wait_for_wake(wake), lambda: client.cancel_wake(wake))
    assert decided.decision == "cancelled"


async def test_a_wait_ends_when_its_time_is_over_and_says_what_does_not_exist(client: Client) -> None:
    await client.create_agent("default", "ann")
    with pytest.raises(TimeoutError):
        await client.wait_until_sleeping("default", "ann", timeout_seconds=0.2)
    with pytest.raises(NotFound):
        await client.wait_until_sleeping("default", "nobody")
