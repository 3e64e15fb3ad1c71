"""A hold that ends while nothing was sent leaves the provider's status as it is."""

import asyncio

import pytest

from tests.clients.conftest import REPLY, Stage
from tests.clients.model_clients import ModelClient, failure, model_clients

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLIENTS = [pytest.param(client, id=client.name) for client in model_clients()]


@pytest.fixture(scope="module")
def short_limits() -> dict[str, float]:
    """Limits that no hold here reaches, however slow the machine is."""
    return {"hold_grace_seconds": 60.0, "hold_silent_seconds": 60.0, "keep_alive_seconds": 60.0}


@pytest.mark.spec("GATE-50", "GATE-51")
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_call_released_while_it_is_still_silent_gets_its_answer(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    asked = asyncio.create_task(client.say(stage.server.url, agent.token, "hello"))
    await agent.held()
    await agent.wake()
    assert await asked == REPLY
    assert len(stage.upstream.requests) == 1


@pytest.mark.spec("GATE-50", "GATE-51")
@pytest.mark.parametrize("client", CLIENTS)
async def test_the_upstreams_status_survives_a_short_hold(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    stage.upstream.next(status=429)
    failing = asyncio.create_task(failure(client, stage.server.url, agent.token))
    await agent.held()
    await agent.wake()
    classes, status, _ = await failing
    assert (classes[0], status) == ("RateLimitError", 429)
