"""No input makes a dialect raise anything but InvalidRequest, or change a byte that it must not."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.errors import InvalidRequest
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.payload.fields import as_object
from tests.gateway.dialects.samples import ALL, OPENAI, with_line, with_usage

pytestmark = pytest.mark.spec("GATE-60", "GATE-61")

EACH = pytest.mark.parametrize("dialect", ALL, ids=lambda one: one.endpoint)
WORDS = st.sampled_from(
    [
        "role",
        "user",
        "assistant",
        "tool",
        "system",
        "content",
        "type",
        "text",
        "tool_result",
        "tool_use",
        "image_url",
        "id",
        "message",
        "function_call",
        "function_call_output",
        "input_text",
        "input",
        "name",
        "arguments",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=15,
)
PART = st.fixed_dictionaries({"type": WORDS}, optional={"text": st.text(max_size=5), "content": VALUES, "id": WORDS})
CONTENT = st.text(max_size=8) | st.lists(PART, max_size=3) | VALUES
ROLE = st.sampled_from(["user", "user", "assistant", "tool", "system"])
MESSAGE = st.fixed_dictionaries({"role": ROLE, "content": CONTENT}, optional={"tool_calls": VALUES, "type": WORDS})
FIELDS = st.sampled_from(
    [
        "model",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "n",
        "best_of",
        "user",
        "metadata",
        "system",
        "instructions",
        "previous_response_id",
        "conversation",
        "container",
        "prompt",
    ]
)
OPTIONS = st.none() | st.dictionaries(st.sampled_from(["include_usage", "include_obfuscation"]), VALUES) | VALUES
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> object:
    """Something like a request, with any field of any type."""
    fields: dict[str, object] = {**draw(st.dictionaries(FIELDS, VALUES, max_size=2))}
    items = st.lists(MESSAGE, max_size=4)
    fields[draw(st.sampled_from(["messages", "input"]))] = draw(items | items | VALUES)
    fields |= as_object(draw(st.fixed_dictionaries({}, optional={"stream": st.booleans(), "stream_options": OPTIONS})))
    return fields


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """JSON as one client or another writes it."""
    value = draw(requests() | OBJECTS | VALUES)
    return json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))).encode()


BODIES = st.binary(max_size=60) | texts()


@EACH
@given(body=BODIES)
def test_reading_anything_gives_a_request_or_an_invalid_request(dialect: Dialect, body: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        read = dialect.parse_request(body)
        assert read.output_limit is None or 0 <= read.output_limit <= 10**12
        assert all(isinstance(name, str) and name for name in read.foreign_ids)
        assert len(set(map(len, filter(None, read.chain)))) <= 1


@EACH
@given(body=BODIES, line=st.text(max_size=10))
def test_a_line_only_adds_to_the_body_and_keeps_it_json(dialect: Dialect, body: bytes, line: str) -> None:
    after = with_line(dialect, body, line)
    if after == body:
        return
    added = len(after) - len(body)
    start = next((at for at in range(len(body)) if body[at] != after[at]), len(body))
    assert any(after[:at] + after[at + added :] == body for at in range(start + 1))
    assert _grown(json.loads(body), json.loads(after), line)


def _grown(before: Any, after: Any, line: str) -> bool:
    """Whether `after` is `before` with the line behind one user turn or tool result."""
    key = "messages" if before.get("messages") != after.get("messages") else "input"
    if isinstance(before[key], str):
        return {**before, key: f"{before[key]}\n\n{line}"} == after
    items: list[Any] = before[key]
    part = {"type": "text" if key == "messages" else "input_text", "text": line}
    if len(after[key]) > len(items):
        place = after[key].index({"type": "message", "role": "user", "content": [part]})
        items.insert(place, after[key][place])
        return str(items[place - 1]["type"]).endswith("_call_output") and before == after
    (last,) = (at for at, item in enumerate(items) if item != after[key][at])
    content = items[last]["content"]
    if isinstance(content, str):
        grown = [f"{content}\n\n{line}", [{**part, "text": content}, part]]
    else:
        grown = [[*content, part]]
    items[last]["content"] = after[key][last]["content"]
    return items[last]["role"] in ("user", "tool") and items[last]["content"] in grown and before == after


@EACH
@given(body=BODIES)
def test_asking_for_usage_changes_nothing_else(dialect: Dialect, body: bytes) -> None:
    after = with_usage(dialect, body)
    if after is None:
        return
    before = json.loads(body)
    options: dict[str, object] = before.get("stream_options") or {}
    assert json.loads(after) == {**before, "stream_options": {**options, "include_usage": True}}
    assert with_usage(dialect, after) is None


@EACH
@given(answer=BODIES)
def test_any_json_passes_every_meter_unchanged(dialect: Dialect, answer: bytes) -> None:
    for streamed, stream in ((False, answer), (True, b"event: x\ndata: " + answer.replace(b"\n", b"") + b"\n\n")):
        meter = dialect.meter(streamed=streamed, take_usage_out=False, chain=("x",))
        assert meter.feed(stream) == stream
        assert meter.end() == b""


@pytest.mark.parametrize("key", ["messages", "input", "prompt"])
@EACH
def test_five_megabytes_of_rubbish_are_handled(dialect: Dialect, key: str) -> None:
    for junk in (b"x" * 5_000_000, b"[" * 5_000_000, b'{"%b":"' % key.encode() + b"\\u00e9" * 800_000 + b'"}'):
        with contextlib.suppress(InvalidRequest):
            dialect.parse_request(junk)
        with_line(dialect, junk, "LINE")
        with_usage(dialect, junk)


@EACH
@pytest.mark.parametrize("depth", [200, 990, 1020, 5000])
def test_deep_nesting_is_refused_or_read_but_never_crashes(dialect: Dialect, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for body in (
        b'{"stream":true,"stream_options":null,"x":' + deep + b',"messages":[{"role":"user","content":"x"}]}',
        b'{"messages":[{"role":"user","content":[' + deep + b"]}]}",
        b'{"input":[{"role":"user","content":[' + deep + b"]}]}",
    ):
        with contextlib.suppress(InvalidRequest):
            dialect.parse_request(body)
        with_line(dialect, body, "LINE")
        with_usage(dialect, body)


def test_the_dialects_cover_every_route() -> None:
    assert set(OPENAI) == {
        "chat_completions",
        "completions",
        "embeddings",
        "responses",
        "stored_response",
        "compacted_response",
        "input_tokens",
        "generate_content",
        "count_content_tokens",
        "messages",
        "count_tokens",
        "plain",
    }


@EACH
@given(body=BODIES)
def test_context_is_put_into_anything_that_has_a_place_for_it_and_changes_nothing_else(
    dialect: Dialect, body: bytes
) -> None:
    with contextlib.suppress(InvalidRequest):
        dialect.parse_request(body)
        found = dialect.prompt(body)
        if found is None:
            return
        assert found.with_context("", "") == body
        made = found.with_context("S-t-a-b-l-e", "F-i-t")
        assert isinstance(json.loads(made), dict)
        assert made.count(b"S-t-a-b-l-e") == 1
        assert made.count(b"F-i-t") == (found.user is not None)
