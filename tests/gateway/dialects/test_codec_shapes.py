"""A ready answer in a provider's shape: its own meter, its SDK and the codec itself read the same words in it."""

from datetime import UTC, datetime

import anthropic
import httpx2
import openai
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response

from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.frames import AnswerCodec, VolatileSpans
from circadia.gateway.dialects.meters import Meter
from tests.gateway.dialects.samples import ALL, CHAT, MESSAGES, RESPONSES, body, bytewise, run

pytestmark = pytest.mark.spec("ANS-03")

NOTHING = VolatileSpans()

AT = datetime(2026, 11, 22, 4, 5, 6, tzinfo=UTC)
CREATED = int(AT.timestamp())
TEXT = 'Grüße 😀: "yes"\n\ndata: [DONE]\n\n' + "The invoice of ACME is due on Monday, and nobody has paid it. " * 9
ASKED = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Is it paid?"}]},
    RESPONSES: {"model": "m", "input": "Is it paid?", "store": False},
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Is it paid?"}]},
}
BACK = {CHAT: "messages", RESPONSES: "input", MESSAGES: "messages"}
EACH = pytest.mark.parametrize("dialect", ASKED, ids=lambda one: one.endpoint)


def codec(dialect: Dialect) -> AnswerCodec:
    assert dialect.answer_codec is not None
    return dialect.answer_codec


def whole(dialect: Dialect, text: str) -> bytes:
    return codec(dialect).build_answer(text, id="ans_1", model="m", at=AT)


def events(dialect: Dialect, text: str, *, usage: bool = False) -> bytes:
    streamed = codec(dialect).build_events(whole(dialect, text), usage=usage)
    assert streamed is not None
    return streamed


def read(dialect: Dialect, *chunks: bytes, streamed: bool) -> Meter:
    chain = dialect.parse_request(body(ASKED[dialect])).chain
    meter = dialect.meter(streamed=streamed, take_usage_out=False, chain=chain)
    assert run(meter, chunks) == b"".join(chunks)
    return meter


@EACH
@settings(max_examples=30)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400))
def test_an_endpoints_own_meter_reads_what_is_served_whole_and_streamed(dialect: Dialect, text: str) -> None:
    buffered = read(dialect, whole(dialect, text), streamed=False)
    for usage in (False, True):
        streamed = read(dialect, events(dialect, text, usage=usage), streamed=True)
        for meter in (buffered, streamed):
            said = meter.answer_so_far()
            assert said is not None
            assert (said.text, said.calls, said.cut, said.handle) == (text, (), False, None)
            assert (meter.complete, meter.model, meter.ids, meter.handle) == (True, "m", [], None)
        assert streamed.answer_hashes == buffered.answer_hashes
        told = streamed.usage if usage or dialect is not CHAT else buffered.usage
        assert (told.input_tokens, told.output_tokens) == (0, 0)


@EACH
def test_a_stream_reads_the_same_in_single_bytes(dialect: Dialect) -> None:
    said = read(dialect, *bytewise(events(dialect, TEXT, usage=True)), streamed=True).answer_so_far()
    assert said is not None
    assert said.text == TEXT


@EACH
def test_the_next_request_continues_what_was_served(dialect: Dialect) -> None:
    hashes = read(dialect, whole(dialect, TEXT), streamed=False).answer_hashes
    request = ASKED[dialect]
    said = {"role": "assistant", "content": TEXT}
    before = request[BACK[dialect]]
    items = before if isinstance(before, list) else [{"role": "user", "content": before}]
    again = {**request, BACK[dialect]: [*items, said, {"role": "user", "content": "And now?"}]}
    framed = codec(dialect).frame_call(dialect.load(body(again)), NOTHING)
    assert framed is not None
    assert framed.conversation(dialect.parse_request(body(again)).chain) in hashes


@EACH
def test_what_is_served_would_be_kept_as_an_answer_in_words(dialect: Dialect) -> None:
    answered = codec(dialect).parse_answer(whole(dialect, TEXT))
    assert answered is not None
    assert (answered.text, answered.reasoning, answered.called, answered.cut) == (TEXT, "", False, False)
    assert (answered.usage.input_tokens, answered.usage.output_tokens) == (0, 0)


@EACH
def test_a_long_answer_comes_in_pieces_that_end_between_words(dialect: Dialect) -> None:
    stream = events(dialect, TEXT)
    assert 5 < stream.count(b"delta") / (1 if dialect is CHAT else 2) < 40
    assert b"nobody" in stream
    assert b"x" * 80 in events(dialect, "x" * 5_000)


def sdk_openai(served: bytes) -> openai.OpenAI:
    return openai.OpenAI(api_key="x", base_url="http://x/v1", max_retries=0, http_client=answering(served))


def sdk_anthropic(served: bytes) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="x", base_url="http://x", max_retries=0, http_client=answering(served))


def answering(served: bytes) -> httpx2.Client:
    kind = "application/json" if served.startswith(b"{") else "text/event-stream"

    def handler(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=served)

    return httpx2.Client(transport=httpx2.MockTransport(handler))


def test_openais_sdk_reads_a_served_chat() -> None:
    said = sdk_openai(whole(CHAT, TEXT)).chat.completions.create(model="m", messages=[])
    choice = said.choices[0]
    assert (said.id, said.object, said.created, said.model) == ("chatcmpl-ans_1", "chat.completion", CREATED, "m")
    assert (choice.message.content, choice.message.role, choice.finish_reason) == (TEXT, "assistant", "stop")
    assert said.usage is not None
    assert said.usage.total_tokens == 0
    assert "system_fingerprint" not in said.model_fields_set


@pytest.mark.parametrize("usage", [False, True])
def test_openais_sdk_reads_a_served_chat_as_a_stream(usage: bool) -> None:
    with sdk_openai(events(CHAT, TEXT, usage=usage)).chat.completions.create(
        model="m", messages=[], stream=True
    ) as stream:
        chunks = list(stream)
    said = [chunk for chunk in chunks if chunk.choices]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in said) == TEXT
    assert said[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in said] == [None] * (len(said) - 1) + ["stop"]
    assert {(chunk.id, chunk.model, chunk.created) for chunk in chunks} == {("chatcmpl-ans_1", "m", CREATED)}
    assert [chunk.usage is not None for chunk in chunks] == [False] * len(said) + [True] * usage


def test_openais_sdk_gathers_the_events_of_a_served_chat() -> None:
    with sdk_openai(events(CHAT, TEXT, usage=True)).chat.completions.stream(model="m", messages=[]) as stream:
        said = stream.get_final_completion()
    assert said.choices[0].message.content == TEXT


def test_openais_sdk_reads_a_served_response() -> None:
    said = sdk_openai(whole(RESPONSES, TEXT)).responses.create(model="m", input="x")
    assert (said.id, said.status, said.output_text, said.created_at) == ("resp_ans_1", "completed", TEXT, CREATED)
    assert said.usage is not None
    assert said.usage.total_tokens == 0
    Response.model_validate(orjson.loads(whole(RESPONSES, TEXT)))


def test_openais_sdk_reads_a_served_response_as_a_stream() -> None:
    with sdk_openai(events(RESPONSES, TEXT)).responses.create(model="m", input="x", stream=True) as stream:
        steps = list(stream)
    assert [step.sequence_number for step in steps] == list(range(len(steps)))
    kinds = [step.type.removeprefix("response.") for step in steps if step.type != "response.output_text.delta"]
    assert kinds == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.done", "content_part.done",
        "output_item.done", "completed",
    ]  # fmt: skip
    assert "".join(step.delta for step in steps if step.type == "response.output_text.delta") == TEXT
    with sdk_openai(events(RESPONSES, TEXT)).responses.stream(model="m", input="x") as gathered:
        assert gathered.get_final_response().output_text == TEXT


def test_anthropics_sdk_reads_a_served_message() -> None:
    said = sdk_anthropic(whole(MESSAGES, TEXT)).messages.create(model="m", max_tokens=9, messages=[])
    assert (said.id, said.type, said.role, said.model) == ("msg_ans_1", "message", "assistant", "m")
    assert [block.text for block in said.content if block.type == "text"] == [TEXT]
    assert (said.stop_reason, said.usage.input_tokens, said.usage.output_tokens) == ("end_turn", 0, 0)


def test_the_words_of_a_served_message_have_no_empty_field() -> None:
    """Vercel's AI SDK takes `citations` for a list wherever the field is there; Anthropic leaves it out."""
    assert orjson.loads(whole(MESSAGES, TEXT))["content"] == [{"type": "text", "text": TEXT}]


def test_anthropics_sdk_reads_a_served_message_as_a_stream() -> None:
    with sdk_anthropic(events(MESSAGES, TEXT)).messages.stream(model="m", max_tokens=9, messages=[]) as stream:
        assert "".join(stream.text_stream) == TEXT
        said = stream.get_final_message()
    assert (said.id, said.stop_reason, said.usage.output_tokens) == ("msg_ans_1", "end_turn", 0)


def test_only_endpoints_that_are_asked_in_words_have_a_codec() -> None:
    assert [each.endpoint for each in ALL if each.answer_codec is not None] == [
        "chat_completions",
        "responses",
        "messages",
    ]
