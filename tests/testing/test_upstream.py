"""The mock upstream answers as providers do, tells what it saw, and misbehaves on demand."""

import asyncio
import json
import sys

import aiohttp
import anthropic
import openai
import pytest
from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionUserMessageParam

from circadia.testing.upstream import MockUpstream
from circadia.testing.upstream_script import ScriptedToolCall

HELLO: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hello there friend"}]


async def post(http: aiohttp.ClientSession, up: MockUpstream, path: str, document: object) -> aiohttp.ClientResponse:
    return await http.post(up.base_url + path, json=document)


async def test_openai_answers_are_what_the_official_client_expects() -> None:
    async with MockUpstream() as up, openai.AsyncOpenAI(base_url=f"{up.base_url}/v1", api_key="k") as client:
        chat = await client.chat.completions.create(model="m", messages=HELLO)
        assert chat.choices[0].message.content == "hello there friend"
        assert chat.usage is not None
        assert (chat.usage.prompt_tokens, chat.usage.completion_tokens) == (3, 3)
        stream = await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "one two"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.total_tokens == 4
        done = await client.completions.create(model="m", prompt="say this")
        assert done.choices[0].text == "say this"
        vectors = await client.embeddings.create(model="m", input=["a", "b", "a"])
        assert vectors.data[0].embedding == vectors.data[2].embedding != vectors.data[1].embedding
        assert "mock-1" in {model.id async for model in client.models.list()}
        assert len(up.requests) == 5


async def test_a_stream_carries_usage_only_when_it_is_asked_for() -> None:
    async with MockUpstream() as up, openai.AsyncOpenAI(base_url=f"{up.base_url}/v1", api_key="k") as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "one"}], stream=True
        )
        chunks = [chunk async for chunk in stream]
        assert all(chunk.usage is None and chunk.choices for chunk in chunks)


async def test_responses_are_streamed_stored_continued_cancelled_and_deleted() -> None:
    async with MockUpstream() as up, openai.AsyncOpenAI(base_url=f"{up.base_url}/v1", api_key="k") as client:
        first = await client.responses.create(model="m", input="hello you")
        assert first.output_text == "hello you"
        stream = await client.responses.create(model="m", input="and more", previous_response_id=first.id, stream=True)
        events = [event async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        last = events[-1]
        assert last.type == "response.completed"
        assert last.response.usage is not None
        assert last.response.usage.output_tokens == 2
        assert (await client.responses.retrieve(last.response.id)).output_text == "and more"
        running = await client.responses.create(model="m", input="x", background=True)
        assert running.status == "in_progress"
        assert (await client.responses.cancel(running.id)).status == "cancelled"
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)


async def test_anthropic_answers_are_what_the_official_client_expects() -> None:
    async with MockUpstream() as up, anthropic.AsyncAnthropic(base_url=up.base_url, api_key="k") as client:
        message = await client.messages.create(
            model="m", max_tokens=9, system="be kind", messages=[{"role": "user", "content": "hello you"}]
        )
        assert message.content[0].type == "text"
        assert message.content[0].text == "hello you"
        assert (message.usage.input_tokens, message.usage.output_tokens) == (4, 2)
        async with client.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "one two three"}]
        ) as stream:
            assert "".join([text async for text in stream.text_stream]) == "one two three"
            assert (await stream.get_final_message()).usage.output_tokens == 3
        count = await client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "a b c"}])
        assert count.input_tokens == 3
        assert "mock-1" in {model.id async for model in client.models.list()}


async def test_a_request_is_recorded_byte_for_byte() -> None:
    async with MockUpstream() as up, aiohttp.ClientSession() as http:
        raw = b'{ "model":"m",\t"messages": [] , "x": 1.0}'
        async with http.post(
            f"{up.base_url}/v1/chat/completions?a=%20b", data=raw, headers={"X-Mixed-Case": "Yes"}
        ) as answer:
            assert answer.status == 200
        [seen] = up.requests
        assert seen.body == raw
        assert (seen.method, seen.path, seen.query) == ("POST", "/v1/chat/completions", "a=%20b")
        assert ("X-Mixed-Case", "Yes") in seen.headers
        assert seen.header("x-mixed-case") == "Yes"


@pytest.mark.parametrize(
    ("path", "document", "key"),
    [
        ("/v1/chat/completions", {"messages": HELLO}, ["error", "type"]),
        ("/v1/messages", {"messages": HELLO}, ["error", "type"]),
    ],
)
async def test_a_scripted_status_has_the_error_shape_of_its_provider(
    path: str, document: object, key: list[str]
) -> None:
    async with MockUpstream() as up, aiohttp.ClientSession() as http:
        up.next(status=429, headers={"Retry-After": "7"})
        async with await post(http, up, path, document) as answer:
            assert answer.status == 429
            assert answer.headers["retry-after"] == "7"
            assert (await answer.json())[key[0]][key[1]] == "rate_limit_error"
        async with await post(http, up, path, document) as answer:
            assert answer.status == 200


async def test_a_script_waits_for_a_request_that_fits_its_path() -> None:
    async with MockUpstream() as up, aiohttp.ClientSession() as http:
        up.next(path="/embeddings", status=503)
        async with await post(http, up, "/v1/chat/completions", {"messages": HELLO}) as answer:
            assert answer.status == 200
        async with await post(http, up, "/v1/embeddings", {"input": "x"}) as answer:
            assert answer.status == 503


async def test_a_key_is_asked_for_where_one_is_set() -> None:
    async with MockUpstream(key="right") as up:
        async with openai.AsyncOpenAI(base_url=f"{up.base_url}/v1", api_key="wrong") as client:
            with pytest.raises(openai.AuthenticationError):
                await client.responses.create(model="m", input="x")
        async with anthropic.AsyncAnthropic(base_url=up.base_url, api_key="right") as kind:
            await kind.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x"}])


async def test_nothing_is_sent_while_the_gate_is_closed() -> None:
    async with MockUpstream() as up, aiohttp.ClientSession() as http:
        up.gate.clear()
        asked = asyncio.create_task(post(http, up, "/v1/chat/completions", {"messages": HELLO}))
        await up.wait_for_requests(1)
        assert not asked.done()
        up.gate.set()
        assert (await asked).status == 200


async def test_a_client_that_goes_away_is_noticed() -> None:
    async with MockUpstream() as up:
        up.next(hang=True)
        async with aiohttp.ClientSession() as http:
            asked = asyncio.create_task(post(http, up, "/v1/chat/completions", {"messages": HELLO}))
            await up.wait_for_requests(1)
            asked.cancel()
            assert [seen.number for seen in await up.wait_for_drops(1)] == [1]
        assert up.answered == []


async def test_a_client_that_leaves_a_paused_stream_is_noticed() -> None:
    async with MockUpstream() as up:
        up.next(pause_after_chunks=1)
        async with aiohttp.ClientSession() as http:
            answer = await post(http, up, "/v1/chat/completions", {"messages": HELLO, "stream": True})
            assert b"assistant" in await answer.content.readline()
            answer.close()
            await up.wait_for_drops(1)


async def test_a_paused_stream_goes_on_when_it_is_told_to() -> None:
    async with MockUpstream() as up, aiohttp.ClientSession() as http:
        resume = asyncio.Event()
        up.next(pause_after_chunks=2, resume=resume)
        answer = await post(http, up, "/v1/chat/completions", {"messages": HELLO, "stream": True})
        await answer.content.readuntil(b"hello")
        resume.set()
        assert (await answer.read()).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_can_die_in_the_middle(stream: bool) -> None:
    async with MockUpstream() as up, aiohttp.ClientSession() as http:
        up.next(die_after_chunks=1)
        answer = await post(http, up, "/v1/chat/completions", {"messages": HELLO, "stream": stream})
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_connection_can_be_reset_before_the_status() -> None:
    async with MockUpstream() as up, aiohttp.ClientSession() as http:
        up.next(reset=True)
        with pytest.raises((aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
            await post(http, up, "/v1/chat/completions", {"messages": HELLO})


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_can_be_rubbish(stream: bool) -> None:
    async with MockUpstream() as up, aiohttp.ClientSession() as http:
        up.next(garbage=True)
        answer = await post(http, up, "/v1/chat/completions", {"messages": HELLO, "stream": stream})
        assert answer.status == 200
        assert b"not json" in await answer.read()


async def test_the_port_is_kept_when_the_upstream_comes_back() -> None:
    up = MockUpstream()
    async with up:
        first = up.base_url
    async with aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.ClientConnectorError):
            await post(http, up, "/v1/chat/completions", {"messages": HELLO})
        async with up:
            assert up.base_url == first
            async with await post(http, up, "/v1/chat/completions", {"messages": HELLO}) as answer:
                assert answer.status == 200


async def test_it_runs_as_a_process_and_prints_its_address() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "circadia.testing.upstream", "--port", "0", "--reply", "fixed words"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            message = await client.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "hello"}]
            )
        assert message.content[0].type == "text"
        assert message.content[0].text == "fixed words"
    finally:
        process.terminate()
        await process.communicate()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_scripted_tool_call_reaches_the_official_clients(streamed: bool) -> None:
    call = ScriptedToolCall(name="send", arguments={"to": "bob", "words": ["one two", "three"]})
    async with MockUpstream(reply=lambda _: call) as up:
        async with openai.AsyncOpenAI(base_url=f"{up.base_url}/v1", api_key="k") as client:
            if streamed:
                chat = client.chat.completions.stream(model="m", messages=HELLO)
                async with chat as chunks:
                    message = (await chunks.get_final_completion()).choices[0].message
                async with client.responses.stream(model="m", input="hello") as events:
                    (item,) = (await events.get_final_response()).output
            else:
                message = (await client.chat.completions.create(model="m", messages=HELLO)).choices[0].message
                (item,) = (await client.responses.create(model="m", input="hello")).output
            assert message.tool_calls is not None
            (asked,) = message.tool_calls
            assert asked.type == "function"
            assert item.type == "function_call"
            for found in (asked.function, item):
                assert (found.name, json.loads(found.arguments)) == (call.name, call.arguments)
        async with anthropic.AsyncAnthropic(base_url=up.base_url, api_key="k") as client:
            question: list[MessageParam] = [{"role": "user", "content": "hello"}]
            if streamed:
                async with client.messages.stream(model="m", max_tokens=9, messages=question) as pieces:
                    answer = await pieces.get_final_message()
            else:
                answer = await client.messages.create(model="m", max_tokens=9, messages=question)
            block = answer.content[0]
            assert block.type == "tool_use"
            assert (block.name, block.input, answer.stop_reason) == (call.name, call.arguments, "tool_use")
