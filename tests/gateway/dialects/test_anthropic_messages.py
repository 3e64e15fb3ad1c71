"""Messages: what is read, what is added, what is measured."""

import json
from typing import Any

import pytest

from circadia.errors import InvalidRequest
from circadia.llm.usage import Usage
from tests.gateway.dialects.samples import (
    COUNT_TOKENS,
    MESSAGE_CONTENT,
    MESSAGE_EVENTS,
    MESSAGES,
    body,
    bytewise,
    run,
    sse,
    with_line,
    with_usage,
)

USER = {"role": "user", "content": "Hi"}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}
USAGE = Usage(
    input_tokens=1110,
    output_tokens=40,
    cached_tokens=100,
    cache_write_tokens=1000,
    cache_write_1h_tokens=600,
    reasoning_tokens=7,
)


def request_of(*messages: object, **more: object) -> bytes:
    return body({"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages, **more})


@pytest.mark.spec("GATE-66", "GATE-67")
def test_a_request_is_read() -> None:
    read = MESSAGES.parse_request(request_of(USER, stream=True, metadata={"user_id": "ann"}, container="container_1"))
    assert (read.model, read.streamed, read.output_limit, read.turn) == ("claude-sonnet-4-5", True, 100, True)
    assert (read.end_user, read.foreign_ids) == ("ann", ("container_1",))


DEVICE, ACCOUNT, SESSION = "0f" * 32, "7a3c2b1e-0000-4000-8000-123456789abc", "d2e70091-3007-41a3-a916-cb8b0d3098de"


@pytest.mark.spec("GATE-67")
@pytest.mark.parametrize("account", [ACCOUNT, ""])
def test_of_what_claude_code_calls_its_user_the_session_is_no_part_of_the_person(account: str) -> None:
    person = f"user_{DEVICE}_account_{account}"
    before = f"{person}_session_{SESSION}"
    now = {"device_id": DEVICE, "account_uuid": account, "session_id": SESSION, "new": True}
    for user_id in (before, json.dumps(now), now):
        assert MESSAGES.parse_request(request_of(USER, metadata={"user_id": user_id})).end_user == person


@pytest.mark.spec("GATE-67")
@pytest.mark.parametrize("user_id", ["{", "{}", '{"device_id": 5}', "[]", f"ann_session_{SESSION}", "user_1_account_2"])
def test_other_users_are_called_as_they_are(user_id: str) -> None:
    assert MESSAGES.parse_request(request_of(USER, metadata={"user_id": user_id})).end_user == user_id


@pytest.mark.spec("GATE-67")
@pytest.mark.parametrize(
    ("messages", "turn"),
    [
        ([USER], True),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], True),
        ([USER, {"role": "assistant", "content": "x"}], False),
        ([USER, {"role": "assistant", "content": "x"}, {"role": "user", "content": [RESULT]}], False),
        ([{"role": "user", "content": [RESULT, {"type": "text", "text": "and?"}]}], True),
        ([USER, {"role": "system", "content": "x"}], True),
        ([], False),
    ],
)
def test_a_turn_ends_in_the_user_with_more_than_tool_results(messages: list[Any], turn: bool) -> None:
    assert MESSAGES.parse_request(request_of(*messages)).turn is turn


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (b"[]", "list"),
        (b"{}", "messages"),
        (request_of(5), "messages[0]"),
        (request_of({"role": 5}), "role"),
        (request_of(USER, max_tokens="many"), "max_tokens"),
        (request_of(USER, metadata=5), "metadata"),
        (request_of(USER, metadata={"user_id": 5}), "user_id"),
        (request_of(USER, container={"id": 5}), "id"),
        (request_of(USER, model=[]), "model"),
    ],
)
def test_a_malformed_request_is_refused_with_what_is_wrong_in_it(wrong: bytes, named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        MESSAGES.parse_request(wrong)
    assert named in refused.value.message


def test_tool_results_nested_in_tool_results_are_no_trap() -> None:
    deep: object = "x"
    for _ in range(100):
        deep = [{"type": "tool_result", "tool_use_id": "t", "content": deep}]
    assert len(MESSAGES.parse_request(request_of({"role": "user", "content": deep})).chain) == 1
    start, end = b'[{"type":"tool_result","content":', b"}]"
    deeper = b'{"messages":[{"role":"user","content":%b"x"%b}]}' % (start * 500, end * 500)
    with pytest.raises(InvalidRequest):
        MESSAGES.parse_request(deeper)


@pytest.mark.spec("GATE-61", "GATE-65")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '{"messages": [{"role": "user", "content": "Hé"}]}',
            '{"messages": [{"role": "user", "content": [{"type":"text","text":"Hé"},{"type":"text","text":"LINE"}]}]}',
        ),
        (
            '{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"c",'
            '"cache_control":{"type":"ephemeral"}}]}]}',
            '{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"c",'
            '"cache_control":{"type":"ephemeral"}},{"type":"text","text":"LINE"}]}]}',
        ),
        (
            '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}]}',
            '{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"LINE"}]},'
            '{"role":"assistant","content":"{"}]}',
        ),
    ],
)
def test_the_line_goes_after_tool_results_and_cache_marks_of_the_last_user_message(before: str, after: str) -> None:
    assert with_line(MESSAGES, before.encode(), "LINE") == after.encode()


def test_usage_need_not_be_asked_for() -> None:
    assert with_usage(MESSAGES, request_of(USER, stream=True)) is None


@pytest.mark.spec("GATE-64")
def test_usage_of_a_stream_is_that_of_its_start_with_the_totals_of_its_end() -> None:
    stream = sse(*MESSAGE_EVENTS, named=True)
    meter = MESSAGES.meter(streamed=True, take_usage_out=True, chain=())
    assert run(meter, bytewise(stream)) == stream
    assert meter.usage == USAGE
    assert (meter.model, meter.complete, meter.ids) == ("claude-sonnet-4-5-20250929", True, ["container_1"])


@pytest.mark.spec("GATE-64")
def test_usage_of_a_buffered_message_is_the_same() -> None:
    start: Any = MESSAGE_EVENTS[0]["message"]
    end: Any = MESSAGE_EVENTS[-2]["usage"]
    answer = body({**start, "content": MESSAGE_CONTENT, "usage": {**start["usage"], **end}})
    meter = MESSAGES.meter(streamed=False, take_usage_out=False, chain=("x",))
    assert run(meter, [answer]) == answer
    assert meter.usage == USAGE
    assert meter.complete is True


@pytest.mark.spec("GATE-64")
def test_a_stream_that_ends_in_an_error_is_not_complete_and_keeps_what_was_told() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}
    meter = MESSAGES.meter(streamed=True, take_usage_out=False, chain=("x",))
    run(meter, [sse(*MESSAGE_EVENTS[:5], error, named=True)])
    assert (meter.complete, meter.answer_hashes) == (False, [])
    assert meter.usage.input_tokens == 1110


@pytest.mark.spec("GATE-67")
@pytest.mark.parametrize("streamed", [True, False])
def test_the_next_request_is_found_by_the_hash_of_the_answer_however_it_is_sent_back(streamed: bool) -> None:
    first = MESSAGES.parse_request(request_of(USER, system="S"))
    meter = MESSAGES.meter(streamed=streamed, take_usage_out=False, chain=first.chain)
    answer = body({"type": "message", "role": "assistant", "content": MESSAGE_CONTENT})
    run(meter, [sse(*MESSAGE_EVENTS, named=True) if streamed else answer])
    sent_back: list[Any] = json.loads(json.dumps(MESSAGE_CONTENT[1:]))
    sent_back[1]["cache_control"] = {"type": "ephemeral"}
    marked = [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]
    then = MESSAGES.parse_request(
        request_of(
            {"role": "user", "content": marked},
            {"role": "assistant", "content": sent_back},
            {"role": "user", "content": [RESULT]},
            system=[{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
        )
    )
    assert then.chain[:1] == first.chain
    assert meter.answer_hashes == [then.chain[1]]


@pytest.mark.spec("GATE-41")
def test_counting_tokens_is_no_turn_and_writes_nothing() -> None:
    request = request_of(USER)
    read = COUNT_TOKENS.parse_request(request)
    assert (read.turn, read.output_limit, read.model) == (False, 0, "claude-sonnet-4-5")
    assert read.chain == MESSAGES.parse_request(request).chain, "it is counted as a part of its conversation"
    meter = COUNT_TOKENS.meter(streamed=False, take_usage_out=False, chain=())
    run(meter, [b'{"input_tokens":5}'])
    assert (meter.usage, meter.complete) == (Usage(), True)
    with pytest.raises(InvalidRequest):
        COUNT_TOKENS.parse_request(b"{}")
