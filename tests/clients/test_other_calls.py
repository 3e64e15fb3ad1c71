"""Which calls of the SDKs are held, and which are let through to a sleeping agent."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import anthropic
import openai
import pytest
import pytest_asyncio
from openai.types.chat import ChatCompletionStreamOptionsParam

from tests.clients.conftest import REPLY, Stage, StageAgent

pytestmark = pytest.mark.asyncio(loop_scope="module")

HELLO = "hello"


class Sdks:
    """Both SDKs as one agent uses them."""

    def __init__(self, agent: StageAgent) -> None:
        url = agent.stage.server.url
        self.agent = agent
        self.openai = openai.AsyncOpenAI(base_url=f"{url}/llm/openai/v1", api_key=agent.token)
        self.anthropic = anthropic.AsyncAnthropic(base_url=f"{url}/llm/anthropic", api_key=agent.token)


@pytest_asyncio.fixture(loop_scope="module")
async def sdks(stage: Stage) -> AsyncGenerator[Sdks]:
    made = Sdks(await stage.agent(asleep=False))
    async with made.openai, made.anthropic:
        yield made


async def completion(sdks: Sdks) -> object:
    return (await sdks.openai.completions.create(model="m", prompt=HELLO)).choices[0].text


async def embedding(sdks: Sdks) -> object:
    return len((await sdks.openai.embeddings.create(model="m", input=HELLO, dimensions=8)).data[0].embedding)


async def openai_models(sdks: Sdks) -> object:
    return (await sdks.openai.models.list()).data[0].id


async def anthropic_models(sdks: Sdks) -> object:
    return (await sdks.anthropic.models.list()).data[0].id


async def count_tokens(sdks: Sdks) -> object:
    counted = await sdks.anthropic.messages.count_tokens(model="m", messages=[{"role": "user", "content": HELLO}])
    return counted.input_tokens


HELD: list[tuple[Callable[[Sdks], Awaitable[object]], object]] = [(completion, REPLY), (embedding, 8)]
LET_THROUGH: list[tuple[Callable[[Sdks], Awaitable[object]], object]] = [
    (openai_models, "mock-1"),
    (anthropic_models, "mock-1"),
    (count_tokens, 1),
]


@pytest.mark.spec("GATE-40")
@pytest.mark.parametrize(("call", "answer"), HELD)
async def test_completions_and_embeddings_are_held(
    call: Callable[[Sdks], Awaitable[object]], answer: object, sdks: Sdks
) -> None:
    await sdks.agent.sleep()
    asked = asyncio.ensure_future(call(sdks))
    await sdks.agent.held_long()
    await sdks.agent.wake()
    assert await asked == answer
    assert len(sdks.agent.stage.upstream.requests) == 1


@pytest.mark.spec("GATE-41")
@pytest.mark.parametrize(("call", "answer"), LET_THROUGH)
async def test_lists_of_models_and_counts_are_not_held(
    call: Callable[[Sdks], Awaitable[object]], answer: object, sdks: Sdks
) -> None:
    await sdks.agent.sleep()
    assert await call(sdks) == answer


@pytest.mark.spec("GATE-41")
async def test_polls_cancels_and_deletes_of_own_responses_are_not_held(sdks: Sdks) -> None:
    running = await sdks.openai.responses.create(model="m", input=HELLO, background=True)
    await sdks.agent.sleep()
    assert (await sdks.openai.responses.retrieve(running.id)).status == "in_progress"
    assert (await sdks.openai.responses.cancel(running.id)).status == "cancelled"
    await sdks.openai.responses.delete(running.id)
    with pytest.raises(openai.NotFoundError):
        await sdks.openai.responses.retrieve(running.id)


@pytest.mark.spec("GATE-60")
async def test_another_agents_response_is_refused_as_if_it_were_not_there(sdks: Sdks, stage: Stage) -> None:
    mine = await sdks.openai.responses.create(model="m", input=HELLO)
    other = Sdks(await stage.agent(asleep=False))
    async with other.openai, other.anthropic:
        with pytest.raises(openai.NotFoundError):
            await other.openai.responses.retrieve(mine.id)
        with pytest.raises(openai.APIStatusError) as refused:
            await other.openai.responses.create(model="m", input=HELLO, previous_response_id=mine.id)
    assert 400 <= refused.value.status_code < 500
    assert stage.upstream.requests == []


@pytest.mark.spec("GATE-61", "GATE-64")
@pytest.mark.parametrize("wanted", [True, False], ids=["asked for", "not asked for"])
async def test_the_usage_chunk_reaches_those_who_asked_for_it_only(wanted: bool, sdks: Sdks) -> None:
    options: ChatCompletionStreamOptionsParam | openai.Omit = {"include_usage": True} if wanted else openai.omit
    stream = await sdks.openai.chat.completions.create(
        model="m", messages=[{"role": "user", "content": HELLO}], stream=True, stream_options=options
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == REPLY
    assert [chunk.usage is not None for chunk in chunks if not chunk.choices] == ([True] if wanted else [])
    [seen] = sdks.agent.stage.upstream.requests
    assert seen.json()["stream_options"] == {"include_usage": True}
