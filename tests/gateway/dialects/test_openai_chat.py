"""Chat completions: what is read, what is added, what is measured."""

import json
from typing import Any

import pytest

from circadia.errors import InvalidRequest
from circadia.llm.usage import Usage
from tests.gateway.dialects.samples import (
    CHAT,
    CHAT_USAGE,
    USAGE_CHUNK,
    body,
    bytewise,
    chat_chunk,
    run,
    sse,
    with_line,
    with_usage,
)

USER = {"role": "user", "content": "Hi"}
CALLS = [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1, "b": 2}'}}]
TOOL = {"role": "tool", "tool_call_id": "call_1", "content": "42"}


def chat(*messages: object, **more: object) -> bytes:
    return body({"model": "gpt-4o", "messages": messages, **more})


@pytest.mark.spec("GATE-66", "GATE-67")
def test_a_request_is_read() -> None:
    request = chat({"role": "system", "content": "S"}, USER, stream=True, max_tokens=50, n=3, user="ann")
    read = CHAT.parse_request(request)
    assert (read.model, read.streamed, read.output_limit, read.turn, read.end_user) == (
        "gpt-4o",
        True,
        150,
        True,
        "ann",
    )
    assert read.input_estimate == -(-len(request) // 3)
    assert len(read.chain) == 2


def test_the_newer_names_of_fields_come_first_where_both_are_given() -> None:
    read = CHAT.parse_request(chat(USER, max_tokens=50, max_completion_tokens=10, safety_identifier="bob"))
    assert (read.output_limit, read.end_user) == (10, "bob")


def test_without_a_limit_or_with_a_negative_one_there_is_none() -> None:
    assert CHAT.parse_request(chat(USER)).output_limit is None
    assert CHAT.parse_request(chat(USER, max_tokens=-1)).output_limit is None


@pytest.mark.spec("GATE-67")
@pytest.mark.parametrize(
    ("messages", "turn"),
    [
        ([USER], True),
        ([USER, {"role": "assistant", "content": "x"}], False),
        ([USER, {"role": "assistant", "tool_calls": CALLS}, TOOL], False),
        ([USER, {"role": "function", "name": "look", "content": "42"}], False),
        ([USER, {"role": "system", "content": "Now answer."}], True),
        ([USER, TOOL, {"role": "developer", "content": "Now answer."}], False),
        ([{"role": "system", "content": "Write a poem."}], True),
        ([], False),
    ],
)
def test_a_turn_ends_in_the_user_and_not_in_a_tool_result(messages: list[Any], turn: bool) -> None:
    assert CHAT.parse_request(chat(*messages)).turn is turn


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b'{"messages":[]}\xff', "JSON"),
        (b"[]", "list"),
        (b"5", "number"),
        (b"{}", "messages"),
        (body({"messages": {}}), "messages"),
        (body({"messages": ["x"]}), "messages[0]"),
        (chat({"content": "x"}), "role"),
        (chat(USER, model=5), "model"),
        (chat(USER, stream="yes"), "stream"),
        (chat(USER, max_tokens="9"), "max_tokens"),
        (chat(USER, max_tokens=1.5), "max_tokens"),
        (chat(USER, n=True), "n"),
        (chat(USER, user={}), "user"),
        (b'{"messages":' + b"[" * 2000 + b"]" * 2000 + b"}", "JSON"),
        (chat({"role": "user", "content": [json.loads('{"x":' * 300 + "1" + "}" * 300)]}), "nested"),
    ],
)
def test_a_malformed_request_is_refused_with_what_is_wrong_in_it(wrong: bytes, named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        CHAT.parse_request(wrong)
    assert named in refused.value.message


def test_a_byte_order_mark_and_unknown_fields_are_no_reason_to_refuse() -> None:
    assert CHAT.parse_request(b"\xef\xbb\xbf" + chat(USER, new_field={"x": 1})).turn is True


@pytest.mark.spec("GATE-61", "GATE-65")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{ "messages" : [ {"role":"user","content":"H\\u00e9 😀"} ] }', '😀\\n\\nLINE"} ] }'),
        (
            '{"messages":[{"content":[{"type":"text","text":"x"}],"role":"user"}]}',
            '},{"type":"text","text":"LINE"}],"role',
        ),
        ('{"messages":[{"role":"user","content":[ ]}]}', '[{"type":"text","text":"LINE"} ]'),
        (
            '{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[]},{"role":"tool","content":"b"}]}',
            '"role":"tool","content":"b\\n\\nLINE"}]',
        ),
        (
            '{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}',
            '"a"},{"role":"user","content":"b\\n\\nLINE"',
        ),
    ],
)
def test_the_line_goes_to_the_end_of_the_prompt_and_no_other_byte_changes(before: str, after: str) -> None:
    changed = with_line(CHAT, before.encode(), "LINE").decode()
    assert after in changed
    assert any(
        changed.replace(added, "", 1) == before
        for added in ("\\n\\nLINE", ',{"type":"text","text":"LINE"}', '{"type":"text","text":"LINE"}')
    )


@pytest.mark.spec("GATE-65")
@pytest.mark.parametrize(
    "request_body",
    [
        b'{"messages":[{"role":"assistant","content":"x"}]}',
        b'{"messages":[{"role":"user","content":null}]}',
        b'{"messages":[{"role":"user"}]}',
        b'{"messages":[]}',
        b"{}",
        b"not json",
        b"\xff",
    ],
)
def test_without_a_user_message_the_body_stays_as_it_is(request_body: bytes) -> None:
    assert with_line(CHAT, request_body, "LINE") == request_body


@pytest.mark.spec("GATE-61")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"stream":true}', '{"stream":true,"stream_options":{"include_usage":true}}'),
        (' {"stream": true }\n', ' {"stream": true ,"stream_options":{"include_usage":true}}\n'),
        ('{"stream_options":null,"stream":true}', '{"stream_options":{"include_usage":true},"stream":true}'),
        ('{"stream_options":{ },"stream":true}', '{"stream_options":{"include_usage":true },"stream":true}'),
        (
            '{"stream_options":{"include_obfuscation":false},"stream":true}',
            '{"stream_options":{"include_obfuscation":false,"include_usage":true},"stream":true}',
        ),
        ('{"stream\\u005foptions":{},"stream":true}', '{"stream\\u005foptions":{"include_usage":true},"stream":true}'),
    ],
)
def test_usage_is_asked_for_where_the_request_says_nothing_of_it(before: str, after: str) -> None:
    assert with_usage(CHAT, before.encode()) == after.encode()


@pytest.mark.spec("GATE-61")
@pytest.mark.parametrize(
    "request_body",
    [
        '{"stream":true,"stream_options":{"include_usage":true}}',
        '{"stream":true,"stream_options":{"include_usage":false}}',
        '{"stream":true,"stream_options":{"include_usage":null}}',
        '{"stream":true,"stream_options":"x"}',
        '{"stream":false}',
        "{}",
        "[]",
        "not json",
    ],
)
def test_usage_is_not_asked_for_where_the_request_speaks_of_it_or_is_no_stream(request_body: str) -> None:
    assert with_usage(CHAT, request_body.encode()) is None


ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": CALLS},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": CHAT_USAGE,
}


@pytest.mark.spec("GATE-64")
def test_usage_and_model_are_taken_from_a_buffered_answer_which_passes_unchanged() -> None:
    meter = CHAT.meter(streamed=False, take_usage_out=True, chain=())
    answer = json.dumps(ANSWER, indent=2).encode()
    assert run(meter, bytewise(answer)) == answer
    assert meter.usage == Usage(input_tokens=20, output_tokens=9, cached_tokens=12, reasoning_tokens=4)
    assert (meter.model, meter.complete) == ("gpt-4o-mini-2024-07-18", True)


@pytest.mark.spec("GATE-64")
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b'{"choices":',
        b"[]",
        b'{"error":{"message":"no"}}',
        b'{"choices":5,"usage":5}',
        b'{"choices":[],"usage":{"prompt_tokens":"9","completion_tokens":-1}}',
        b'{"choices":[],"usage":{"prompt_tokens":true,"completion_tokens":1.5}}',
    ],
)
def test_usage_that_is_not_told_is_unknown(answer: bytes) -> None:
    meter = CHAT.meter(streamed=False, take_usage_out=False, chain=("x",))
    assert run(meter, [answer]) == answer
    assert meter.usage == Usage()
    assert meter.complete is False


@pytest.mark.spec("GATE-64")
def test_usage_is_taken_from_a_stream_that_sends_it_with_its_last_choice() -> None:
    last = chat_chunk({}, "stop", usage=CHAT_USAGE)
    stream = sse(chat_chunk({"content": "x"}), last, done=True)
    meter = CHAT.meter(streamed=True, take_usage_out=True, chain=())
    assert run(meter, [stream]) == stream
    assert meter.usage.output_tokens == 9
    assert meter.complete is True


@pytest.mark.spec("GATE-64")
def test_a_stream_that_breaks_off_is_not_complete_and_has_no_usage() -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=False, chain=("x",))
    run(meter, [sse(chat_chunk({"content": "x"})), b'data: {"choices":[{"del'])
    assert (meter.usage, meter.complete, meter.answer_hashes) == (Usage(), False, [])


DELTAS = sse(
    chat_chunk({"role": "assistant", "content": "", "refusal": None}),
    chat_chunk({"content": "Grüße, "}),
    chat_chunk({"content": "😀"}),
    chat_chunk({}, "stop"),
    USAGE_CHUNK,
    done=True,
)


@pytest.mark.spec("GATE-67")
@pytest.mark.parametrize(
    "sent_back",
    [
        {"role": "assistant", "content": "Grüße, 😀"},
        {"role": "assistant", "content": [{"type": "text", "text": "Grüße, 😀"}]},
        {
            "content": "Grüße, 😀",
            "refusal": None,
            "role": "assistant",
            "audio": None,
            "annotations": [],
            "tool_calls": [],
        },
    ],
)
def test_the_next_request_is_found_by_the_hash_of_the_answer_however_it_is_sent_back(sent_back: object) -> None:
    first = CHAT.parse_request(chat({"role": "system", "content": "S"}, USER))
    meter = CHAT.meter(streamed=True, take_usage_out=False, chain=first.chain)
    run(meter, bytewise(DELTAS))
    then = CHAT.parse_request(chat({"role": "system", "content": "S"}, USER, sent_back, USER))
    assert then.chain[:2] == first.chain
    assert meter.answer_hashes == [then.chain[2]]


@pytest.mark.spec("GATE-67")
def test_an_answer_of_tool_calls_is_found_again_streamed_and_buffered() -> None:
    first = CHAT.parse_request(chat(USER))
    function = {"name": "look", "arguments": '{"b":2,"a":1}'}
    then = CHAT.parse_request(
        chat(USER, {"role": "assistant", "tool_calls": [{"id": "call_1", "function": function}]}, TOOL)
    )
    buffered = CHAT.meter(streamed=False, take_usage_out=False, chain=first.chain)
    run(buffered, [body(ANSWER)])
    streamed = CHAT.meter(streamed=True, take_usage_out=False, chain=first.chain)
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    rest = [{"index": 0, "function": {"arguments": part}} for part in ('{"a"', ": 1, ", '"b": 2}')]
    deltas = [chat_chunk({"tool_calls": [call]}) for call in (head, *rest)]
    run(streamed, [sse(*deltas, chat_chunk({}, "tool_calls"), done=True)])
    assert buffered.answer_hashes == streamed.answer_hashes == [then.chain[1]]


@pytest.mark.spec("GATE-67")
def test_another_word_image_or_tool_result_gives_another_chain() -> None:
    def part(url: str) -> object:
        return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}

    bodies = [chat(USER), chat({"role": "user", "content": "Ho"}), chat({"role": "system", "content": "Hi"})]
    bodies += [chat(part("a")), chat(part("b")), chat(TOOL), chat({**TOOL, "content": "43"})]
    assert len({CHAT.parse_request(one).chain for one in bodies}) == len(bodies)


def test_an_answer_of_more_than_a_million_characters_gets_no_hash_and_keeps_its_usage() -> None:
    meter = CHAT.meter(streamed=True, take_usage_out=False, chain=("x",))
    piece = sse(chat_chunk({"content": "x" * 100_000}))
    run(meter, [*[piece] * 12, sse(chat_chunk({}, "stop"), USAGE_CHUNK, done=True)])
    assert meter.answer_hashes == []
    assert meter.usage.input_tokens == 20
