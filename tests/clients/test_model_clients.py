"""Official model SDKs are held and released, and notice nothing."""

import asyncio

import pytest

from tests.clients.conftest import PROVIDER_KEY, REPLY, Stage
from tests.clients.model_clients import ModelClient, model_clients

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLIENTS = [pytest.param(client, id=client.name) for client in model_clients()]


@pytest.mark.spec("GATE-50", "GATE-51", "GATE-53")
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_call_held_past_all_limits_gets_its_answer_from_one_request(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    asked = asyncio.create_task(client.say(stage.server.url, agent.token, "hello"))
    await agent.held_long()
    assert stage.upstream.requests == []
    await agent.wake()
    assert await asked == REPLY
    [seen] = stage.upstream.requests
    assert seen.path == client.path
    assert seen.header("x-stainless-retry-count") in (None, "0")
    assert await stage.server.holds() == []


@pytest.mark.spec("GATE-62")
@pytest.mark.parametrize("client", CLIENTS)
async def test_the_provider_sees_its_key_and_never_the_agents_token(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=False)
    assert await client.say(stage.server.url, agent.token, "hello") == REPLY
    [seen] = stage.upstream.requests
    everything = repr(seen.headers) + seen.query + repr(seen.body)
    assert agent.token not in everything
    assert PROVIDER_KEY in repr(seen.headers)
    assert PROVIDER_KEY not in stage.server.log
    assert agent.token not in stage.server.log


@pytest.mark.spec("GATE-47")
@pytest.mark.parametrize("client", [each for each in CLIENTS if "-async-" in str(each.id) or "-node-" in str(each.id)])
async def test_a_client_that_leaves_is_dropped_and_nothing_is_sent_later(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    asked = asyncio.create_task(client.say(stage.server.url, agent.token, "hello"))
    await agent.held_long()
    asked.cancel()
    await stage.server.held(0)
    await agent.wake()
    assert stage.upstream.requests == []
