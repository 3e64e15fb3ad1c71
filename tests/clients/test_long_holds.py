"""All four model SDKs, as they come out of the box, survive a hold of 11 minutes."""

import asyncio

import pytest

from tests.clients.conftest import REPLY, Stage
from tests.clients.model_clients import model_clients

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOLD_SECONDS = 11 * 60.0
TIMEOUT_SECONDS = HOLD_SECONDS + 240


@pytest.fixture(scope="module")
def short_limits() -> dict[str, float]:
    """The limits that users have."""
    return {}


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.spec("GATE-53")
async def test_each_sdk_survives_a_hold_of_11_minutes_with_its_default_settings(stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    clients = model_clients()
    asked = {client.name: asyncio.create_task(client.say(stage.server.url, agent.token, "hello")) for client in clients}
    await stage.server.held(len(clients), timeout_seconds=60)
    try:
        await stage.server.held(len(clients), seconds=HOLD_SECONDS, timeout_seconds=HOLD_SECONDS + 60)
    except AssertionError as error:
        ended = {name: repr(task) for name, task in asked.items() if task.done()}
        raise AssertionError(f"{error}; ended: {ended}; events: {await stage.server.call('GET', '/events')}") from None
    assert stage.upstream.requests == []
    await agent.wake()
    said = dict(zip(asked, await asyncio.gather(*asked.values(), return_exceptions=True), strict=True))
    assert said == dict.fromkeys(asked, REPLY)
    assert len(stage.upstream.requests) == len(clients), "some client has asked twice"
