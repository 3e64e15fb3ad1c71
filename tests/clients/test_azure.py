"""OpenAI's SDK for Azure: its token, its paths, and the key that Azure takes."""

import asyncio
import json
from collections.abc import AsyncGenerator
from urllib.parse import quote

import aiohttp
import openai
import pytest
import pytest_asyncio

from tests.clients.conftest import PROVIDER_KEY, REPLY, Stage, StageAgent

pytestmark = pytest.mark.asyncio(loop_scope="module")

VERSION = "2024-10-21"
PATH = "/openai/deployments/my-gpt/chat/completions"


def azure(agent: StageAgent) -> openai.AsyncAzureOpenAI:
    return openai.AsyncAzureOpenAI(
        azure_endpoint=f"{agent.stage.server.url}/llm/azure", api_key=agent.token, api_version=VERSION, max_retries=0
    )


@pytest_asyncio.fixture(loop_scope="module")
async def agent(stage: Stage) -> AsyncGenerator[StageAgent]:
    yield await stage.agent(asleep=False)


async def ask(sdk: openai.AsyncAzureOpenAI, model: str = "my-gpt") -> str | None:
    answer = await sdk.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])
    return answer.choices[0].message.content


@pytest.mark.spec("GATE-60", "GATE-62")
async def test_its_calls_go_to_the_deployment_with_the_providers_key_in_the_place_of_the_token(
    agent: StageAgent,
) -> None:
    async with azure(agent) as sdk:
        assert await ask(sdk) == REPLY
        stream = await sdk.chat.completions.create(
            model="my-gpt", messages=[{"role": "user", "content": "hello"}], stream=True
        )
        assert "".join([c.choices[0].delta.content or "" async for c in stream if c.choices]) == REPLY
        assert len((await sdk.embeddings.create(model="my-e", input="hello", dimensions=8)).data[0].embedding) == 8
    seen = agent.stage.upstream.requests
    assert [(each.path, each.query) for each in seen] == [
        (PATH, f"api-version={VERSION}"),
        (PATH, f"api-version={VERSION}"),
        ("/openai/deployments/my-e/embeddings", f"api-version={VERSION}"),
    ]
    for each in seen:
        assert each.header("api-key") == PROVIDER_KEY
        assert each.header("authorization") is None
        assert agent.token not in str(each.headers)
    assert agent.token not in agent.stage.server.log


@pytest.mark.spec("GATE-40")
async def test_its_calls_are_held_like_others(agent: StageAgent) -> None:
    await agent.sleep()
    async with azure(agent) as sdk:
        asking = asyncio.create_task(ask(sdk))
        assert (await agent.held())["what"] == f"POST {PATH}"
        await agent.wake()
        assert await asking == REPLY


@pytest.mark.spec("GATE-66")
@pytest.mark.parametrize("body", [{}, {"model": "cheap"}, {"model": "dear"}], ids=["none", "another", "the same"])
async def test_the_deployment_counts_as_the_model_whatever_the_body_says(stage: Stage, body: dict[str, str]) -> None:
    agent = await stage.agent(asleep=False, policy={"models": ["cheap"]})
    async with azure(agent) as sdk:
        assert await ask(sdk, "cheap") == REPLY
        with pytest.raises(openai.PermissionDeniedError, match="may not use model 'dear'"):
            await ask(sdk, "dear")
    async with aiohttp.ClientSession(headers={"api-key": agent.token}) as http:
        url = f"{stage.server.url}/llm/azure/openai/deployments/dear/chat/completions"
        sent = json.dumps({**body, "messages": [{"role": "user", "content": "hello"}]})
        async with http.post(url, data=sent) as answer:
            assert answer.status == 403
    assert [each.path.split("/")[3] for each in stage.upstream.requests] == ["cheap"]


@pytest.mark.spec("GATE-07", "GATE-35")
async def test_a_token_for_azure_is_a_token_like_others(agent: StageAgent) -> None:
    url = f"{agent.stage.server.url}/llm/azure/v1/models"
    wrong = "not-a-token"
    given: list[tuple[list[tuple[str, str]], int]] = [
        ([("api-key", agent.token)], 200),
        ([("api-key", wrong)], 401),
        ([("api-key", "")], 401),
        ([("authorization", f"Bearer {wrong}"), ("api-key", agent.token)], 401),
        ([("x-api-key", wrong), ("api-key", agent.token)], 401),
        ([("api-key", agent.token), ("api-key", agent.token)], 400),
    ]
    async with aiohttp.ClientSession() as http:
        for headers, status in given:
            async with http.get(url, headers=headers) as answer:
                assert answer.status == status, headers


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize("name", ["meta/llama-3", "accounts/fireworks/models/llama-v3p1"])
async def test_a_models_name_with_slashes_is_fetched_as_sdks_ask_for_it(agent: StageAgent, name: str) -> None:
    url = f"{agent.stage.server.url}/llm/openai/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=agent.token, max_retries=0) as sdk:
        with pytest.raises(openai.NotFoundError, match="does not exist"):  # at the mock
            await sdk.models.retrieve(name)
    (seen,) = agent.stage.upstream.requests
    assert seen.path == f"/v1/models/{quote(name, safe='')}"
    assert seen.header("authorization") == f"Bearer {PROVIDER_KEY}"
