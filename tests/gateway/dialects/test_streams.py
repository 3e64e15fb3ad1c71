"""Streams pass as they came, in any chunks, but for the one event that the gateway itself asked for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.gateway.payload.server_sent_events import EventSplitter, event_data
from circadia.llm.usage import Usage
from tests.gateway.dialects.samples import (
    ALL,
    CHAT,
    COMPLETIONS,
    MESSAGES,
    USAGE_CHUNK,
    bytewise,
    chat_chunk,
    cuts,
    run,
    sse,
)

MAX_KEPT_BYTES = 8 * 2**20

pytestmark = pytest.mark.spec("GATE-61")

WANTED = Usage(input_tokens=20, output_tokens=9, cached_tokens=12, reasoning_tokens=4)


def stream(end: str, *, usage: bool) -> bytes:
    comment = f": keep-alive{end}{end}".encode()
    before = sse(chat_chunk({"content": "Grüße 😀"}), chat_chunk({"content": " data: \n\n[DONE]"}), end=end)
    last = sse(chat_chunk({}, "stop"), end=end)
    extra = sse(USAGE_CHUNK, end=end) if usage else b""
    return comment + before + comment + last + extra + comment + f"data: [DONE]{end}{end}".encode()


@given(data=st.data(), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_the_usage_event_is_taken_out_of_any_chunks_and_nothing_else(data: st.DataObject, end: str) -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    got = run(meter, data.draw(cuts(stream(end, usage=True))))
    assert got == stream(end, usage=False)
    assert meter.usage == WANTED
    assert meter.complete is True


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_usage_event_is_taken_out_wherever_the_stream_is_cut_in_two(end: str) -> None:
    whole, wanted = stream(end, usage=True), stream(end, usage=False)
    for at in range(len(whole)):
        meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
        assert run(meter, [whole[:at], whole[at:]]) == wanted


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_usage_event_is_taken_out_of_single_bytes(end: str) -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    assert run(meter, bytewise(stream(end, usage=True))) == stream(end, usage=False)


@given(data=st.data(), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_unless_told_to_take_it_out_each_chunk_passes_at_once_as_it_came(data: st.DataObject, end: str) -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=False, chain=("x",))
    for chunk in data.draw(cuts(stream(end, usage=True))):
        assert meter.feed(chunk) == chunk
    assert meter.end() == b""
    assert meter.usage == WANTED
    assert meter.complete is True


def test_a_whole_event_is_never_held_back() -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    event = sse(chat_chunk({"content": "x"}))
    assert meter.feed(event) == event
    assert meter.feed(event + event[:7]) == event
    assert meter.feed(event[7:]) == event


def test_an_unfinished_event_is_handed_over_at_the_end() -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    assert run(meter, [b'data: {"choices":[', b'{"x']) == b'data: {"choices":[{"x'


def test_a_usage_event_without_its_last_blank_line_is_taken_out_too() -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    assert run(meter, [sse(USAGE_CHUNK).rstrip(b"\n")]) == b""
    assert meter.usage == WANTED


@pytest.mark.parametrize(
    "frame",
    [
        chat_chunk({}, choices=[], usage=None, prompt_filter_results=[]),
        chat_chunk({"content": "x"}, usage={"prompt_tokens": 1, "completion_tokens": 1}),
        {"error": {"message": "x"}, "choices": []},
    ],
)
def test_an_event_that_is_more_than_usage_stays(frame: dict[str, object]) -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    assert run(meter, [sse(frame)]) == sse(frame)


def test_the_usage_event_of_a_legacy_completion_is_taken_out() -> None:
    text = {"model": "m", "choices": [{"index": 0, "text": "x", "finish_reason": None}], "usage": None}
    last = {"model": "m", "choices": [{"index": 0, "text": "", "finish_reason": "length"}], "usage": None}
    usage: dict[str, object] = {"model": "m", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 1}}
    meter = COMPLETIONS.meter(streamed=True, take_usage_out=True, chain=())
    assert run(meter, bytewise(sse(text, last, usage, done=True))) == sse(text, last, done=True)
    assert meter.usage == Usage(input_tokens=2, output_tokens=1)
    assert (meter.model, meter.complete) == ("m", True)


@pytest.mark.parametrize("beside", [{"citations": ["https://a.example"]}, {"search": {"n": 1}}, {"warning": "soon"}])
def test_a_chunk_that_says_more_than_usage_is_left_to_the_caller(beside: dict[str, object]) -> None:
    chunk: dict[str, object] = {"model": "m", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 1}}
    for dialect in (CHAT, COMPLETIONS):
        meter = dialect.meter(streamed=True, take_usage_out=True, chain=())
        assert run(meter, bytewise(sse({**chunk, **beside}, done=True))) == sse({**chunk, **beside}, done=True)
        assert meter.usage == Usage(input_tokens=2, output_tokens=1)


@pytest.mark.parametrize("beside", [{"timings": {"predicted_ms": 1.5}}, {"citations": []}, {"service_tier": None}])
def test_a_chunk_with_what_goes_with_usage_is_taken_out(beside: dict[str, object]) -> None:
    chunk: dict[str, object] = {"model": "m", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 1}}
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    assert run(meter, bytewise(sse({**chunk, **beside}, done=True))) == sse(done=True)


def test_an_event_that_never_ends_is_not_kept_for_ever() -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    chunk = b"x" * (1024 * 1024)
    got = [len(meter.feed(chunk)) for _ in range(12)]
    assert sum(got) + len(meter.end()) == 12 * len(chunk)
    assert [size > 0 for size in got].index(True) == MAX_KEPT_BYTES // len(chunk), "the chunk beyond what is kept"


@given(data=st.data(), junk=st.binary(max_size=200) | st.text(alphabet='data:{}[]"\r\n ', max_size=200).map(str.encode))
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("dialect", ALL, ids=lambda one: one.endpoint)
def test_any_rubbish_passes_every_meter_unchanged(
    dialect: object, streamed: bool, data: st.DataObject, junk: bytes
) -> None:
    for one in ALL:
        if one is dialect:
            meter = one.meter(streamed=streamed, take_usage_out=True, chain=("x",))
            assert run(meter, data.draw(cuts(junk))) == junk
            assert meter.usage == Usage()


@given(data=st.data(), text=st.text(alphabet="a\n", max_size=40) | st.text(alphabet="ab\r\n:", max_size=60))
def test_events_are_the_same_whatever_the_chunks(data: st.DataObject, text: str) -> None:
    whole = EventSplitter()
    expected = list(whole.feed(text.encode()))
    rest = whole.drain()
    splitter = EventSplitter()
    events = [event for chunk in data.draw(cuts(text.encode())) for event in splitter.feed(chunk)]
    held = splitter.drain()
    assert b"".join(events) + held == text.encode()
    # A lone CR may end an event or begin a CRLF, so only its place among the events is certain.
    if "\r" not in text:
        assert (events, held) == (expected, rest)


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: x\n\n", b"x"),
        (b"data:x\r\n\r\n", b"x"),
        (b"event: e\ndata: x\nid: 3\n\n", b"x"),
        (b"data: {\ndata: }\n\n", b"{\n }"),
        (b"event: e\rdata: x\r\r", b"x"),
        (b": data: x\n\n", b""),
        (b"\n\n", b""),
        (b"database: x\n\n", b""),
        (b"data\n\n", b""),
    ],
)
def test_the_data_of_an_event_is_found(event: bytes, data: bytes) -> None:
    assert event_data(event).strip() == data


THUMB = "\ud83d", "\udc4d"
"""The two halves of an emoji, as servers send them that stream by UTF-16 units."""


def halved(chat: bool, *pieces: str) -> bytes:
    """Return a stream of text in these pieces, with escapes for all that is not ASCII."""
    frames: list[dict[str, object]]
    if chat:
        frames = [chat_chunk({"content": piece}) for piece in pieces] + [chat_chunk({}, "stop")]
    else:
        block = {"type": "text", "text": ""}
        frames = [{"type": "message_start", "message": {"model": "m"}}]
        frames.append({"type": "content_block_start", "index": 0, "content_block": block})
        for piece in pieces:
            frames.append({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
        frames.append({"type": "message_stop"})
    return b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames)


@pytest.mark.spec("MEM-14", "GATE-67")
@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (("up ", *THUMB, " it is"), "up \U0001f44d it is"),
        (("ü" + THUMB[0], THUMB[1] + THUMB[0]), "ü\U0001f44d\ufffd"),
        (("cut", THUMB[1]), "cut\ufffd"),
    ],
)
def test_a_character_that_was_streamed_in_halves_is_whole_in_what_was_said(
    chat: bool, pieces: tuple[str, ...], said: str
) -> None:
    dialect = CHAT if chat else MESSAGES
    whole = dialect.meter(streamed=True, take_usage_out=False, chain=("x",), words=True)
    run(whole, [halved(chat, said)])
    meter = dialect.meter(streamed=True, take_usage_out=False, chain=("x",), words=True)
    stream = halved(chat, *pieces)
    assert run(meter, bytewise(stream)) == stream
    told = meter.answer_so_far()
    assert told is not None
    assert told.text == said
    assert meter.answer_hashes == whole.answer_hashes != []


@pytest.mark.spec("MEM-14")
def test_halves_in_a_whole_answer_spoil_nothing_but_themselves() -> None:
    answer = {
        "id": "\ud83d", "model": "m\udc4d", "usage": {"prompt_tokens": 2, "completion_tokens": 1},
        "choices": [{"index": 0, "message": {"content": "cut \ud83d", "role": "assistant"}, "finish_reason": "stop"}],
    }  # fmt: skip
    meter = CHAT.meter(streamed=False, take_usage_out=False, chain=("x",))
    run(meter, [json.dumps(answer).encode()])
    told = meter.answer_so_far()
    assert told is not None
    assert (told.text, meter.model, meter.usage.output_tokens) == ("cut \ufffd", "m\ufffd", 1)
    deep = b'{"a": "\\ud83d", "b": ' + b"[" * 100_000
    meter = CHAT.meter(streamed=False, take_usage_out=False, chain=("x",))
    assert run(meter, [deep]) == deep
