"""An upstream's error, or the gateway's own, is the SDK's own exception."""

import asyncio

import pytest

from tests.clients.conftest import REPLY, Stage
from tests.clients.model_clients import ModelClient, failure, model_clients

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLIENTS = [pytest.param(client, id=client.name) for client in model_clients()]
BUFFERED = [each for each in CLIENTS if "buffered" in str(each.id)]
PLAIN = [each for each in BUFFERED if "responses" not in str(each.id)]
"""One call per SDK, sync and async: the classes of exceptions are the SDK's, not the call's."""
STREAMED = [each for each in CLIENTS if "streamed" in str(each.id)]
STATUSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "InternalServerError",
}


@pytest.mark.spec("GATE-61")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("client", PLAIN)
async def test_the_upstreams_status_is_the_sdks_class(client: ModelClient, status: int, stage: Stage) -> None:
    agent = await stage.agent(asleep=False)
    stage.upstream.next(status=status)
    classes, seen, message = await failure(client, stage.server.url, agent.token)
    # The Python clients of Anthropic have a class of their own for 503.
    assert classes[0] in {STATUSES[status], "ServiceUnavailableError" if status == 503 else STATUSES[status]}
    assert seen == status
    assert f"scripted error {status}" in message


@pytest.mark.spec("GATE-61")
@pytest.mark.parametrize("client", STREAMED)
async def test_the_upstreams_status_is_the_sdks_class_for_a_stream_too(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=False)
    stage.upstream.next(status=429)
    classes, seen, _ = await failure(client, stage.server.url, agent.token)
    assert (classes[0], seen) == ("RateLimitError", 429)


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize("client", PLAIN)
async def test_a_wrong_token_is_an_authentication_error_at_once(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    classes, status, _ = await failure(client, stage.server.url, agent.token + "x")
    assert (classes[0], status) == ("AuthenticationError", 401)
    assert stage.upstream.requests == []


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize("client", PLAIN)
async def test_an_upstream_that_is_not_granted_is_a_permission_error_at_once(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=True, upstreams=[])
    classes, status, _ = await failure(client, stage.server.url, agent.token)
    assert (classes[0], status) == ("PermissionDeniedError", 403)
    assert stage.upstream.requests == []


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize("client", PLAIN)
async def test_a_base_url_beside_the_model_door_is_told_with_the_right_one(client: ModelClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=False)
    classes, status, message = await failure(client, f"{stage.server.url}/away", agent.token)
    assert (classes[0], status) == ("NotFoundError", 404)
    assert "a base URL that ends in /llm/NAME/v1" in message
    classes, status, message = await failure(client, f"{stage.server.url}/away", "wrong")
    assert (classes[0], status) == ("AuthenticationError", 401)
    assert "this is not a Circadia token" in message
    assert stage.upstream.requests == []


@pytest.mark.spec("GATE-50")
@pytest.mark.parametrize("client", STREAMED)
async def test_an_error_after_the_stream_was_opened_is_an_api_error_and_not_retried(
    client: ModelClient, stage: Stage
) -> None:
    agent = await stage.agent(asleep=True)
    stage.upstream.next(status=400)
    failing = asyncio.create_task(failure(client, stage.server.url, agent.token, max_retries=2))
    await agent.held_long()
    await agent.wake()
    classes, _, message = await failing
    assert "APIError" in classes
    assert "scripted error 400" in message
    assert len(stage.upstream.requests) == 1


@pytest.mark.spec("GATE-48", "GATE-51")
@pytest.mark.parametrize("client", BUFFERED)
async def test_an_error_after_the_buffered_answer_was_opened_is_never_taken_for_an_answer(
    client: ModelClient, stage: Stage
) -> None:
    agent = await stage.agent(asleep=True)
    stage.upstream.next(status=400)
    failing = asyncio.create_task(failure(client, stage.server.url, agent.token))
    await agent.held_long()
    await agent.wake()
    classes, _, _ = await failing
    assert ("TypeError" if client.node else "APIConnectionError") in classes
    assert len(stage.upstream.requests) == 1


@pytest.mark.spec("GATE-48")
@pytest.mark.parametrize(
    "client", [each for each in CLIENTS if "buffered" in str(each.id) and "node" not in str(each.id)]
)
async def test_a_python_client_retries_a_broken_buffered_answer_and_gets_the_right_one(
    client: ModelClient, stage: Stage
) -> None:
    agent = await stage.agent(asleep=True)
    stage.upstream.next(status=400)
    asked = asyncio.create_task(client.say(stage.server.url, agent.token, "hello"))
    await agent.held_long()
    await agent.wake()
    assert await asked == REPLY
    assert len(stage.upstream.requests) == 2
