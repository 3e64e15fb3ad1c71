"""Responses: what is read, what is added, what is measured."""

from typing import Any

import pytest

from circadia.errors import InvalidRequest
from circadia.llm.usage import Usage
from tests.gateway.dialects.samples import RESPONSES, body, bytewise, run, sse, with_line

USER = {"role": "user", "content": "Hi"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "look",
    "arguments": '{"a": 1}',
    "status": "completed",
}
NONE: list[object] = []
TEXT: dict[str, object] = {"type": "output_text", "text": "Grüße", "annotations": NONE}
MESSAGE: dict[str, object] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [TEXT],
}
REASONING: dict[str, object] = {"type": "reasoning", "id": "rs_1", "summary": NONE}
USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 42,
}
WANTED = Usage(input_tokens=30, output_tokens=12, cached_tokens=8, cache_write_tokens=2, reasoning_tokens=5)


def request_of(given: object, **more: object) -> bytes:
    return body({"model": "gpt-5", "input": given, **more})


def response(status: str, **more: object) -> dict[str, object]:
    return {"id": "resp_1", "object": "response", "status": status, "model": "gpt-5-2025-08-07", "error": None, **more}


def stream(last: str, **more: object) -> bytes:
    return sse(
        {"type": "response.created", "sequence_number": 0, "response": response("in_progress")},
        {"type": "response.output_text.delta", "delta": 'x "response" y', "sequence_number": 1},
        {"type": f"response.{last}", "sequence_number": 2, "response": response(last, **more)},
        named=True,
    )


@pytest.mark.spec("GATE-66", "GATE-67")
def test_a_request_is_read() -> None:
    read = RESPONSES.parse_request(
        request_of("Hi", stream=True, max_output_tokens=9, previous_response_id="resp_0", user="ann")
    )
    assert (read.model, read.streamed, read.output_limit, read.turn, read.end_user) == ("gpt-5", True, 9, True, "ann")
    assert (read.conversation, read.foreign_ids) == ("resp_0", ("resp_0",))


@pytest.mark.spec("GATE-60", "GATE-67")
@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_named_and_must_be_the_callers(conversation: object) -> None:
    read = RESPONSES.parse_request(request_of([USER], conversation=conversation))
    assert (read.conversation, read.foreign_ids) == ("conv_1", ("conv_1",))


@pytest.mark.spec("GATE-60")
def test_a_response_that_is_compared_with_must_be_the_callers_too() -> None:
    assert RESPONSES.parse_request(
        request_of("x", prompt_cache_options={"comparison_response_id": "resp_9"})
    ).foreign_ids == ("resp_9",)


@pytest.mark.spec("GATE-60")
def test_items_that_the_provider_is_to_look_up_must_be_the_callers_too() -> None:
    picture = {"type": "image_generation_call", "id": "ig_1"}
    sent = {"type": "image_generation_call", "id": "ig_2", "result": "aGk="}
    given = [USER, {"type": "item_reference", "id": "msg_7"}, picture, sent, MESSAGE, CALL, USER]
    assert RESPONSES.parse_request(request_of(given, previous_response_id="resp_0")).foreign_ids == (
        "resp_0",
        "msg_7",
        "ig_1",
    )


@pytest.mark.spec("GATE-67")
@pytest.mark.parametrize(
    ("given", "turn"),
    [
        ("Hi", True),
        ([USER], True),
        ([{"type": "message", **USER}], True),
        ([USER, {"role": "developer", "content": "x"}], True),
        ([USER, CALL, OUTPUT], False),
        ([OUTPUT], False),
        ([USER, {"role": "assistant", "content": "x"}], False),
        ([OUTPUT, {"role": "developer", "content": "x"}], False),
        ([USER, {"type": "item_reference", "id": "msg_1"}], False),
        ([{"type": "item_reference", "id": "msg_1"}, USER], True),
        ([], False),
        (None, False),
    ],
)
def test_a_turn_ends_in_the_user_and_not_in_a_tool_result(given: Any, turn: bool) -> None:
    assert RESPONSES.parse_request(request_of(given)).turn is turn


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (b"x", "JSON"),
        (request_of(5), "input"),
        (request_of({}), "input"),
        (request_of(["x"]), "input[0]"),
        (request_of([{"content": "x"}]), "role"),
        (request_of("x", previous_response_id=5), "previous_response_id"),
        (request_of("x", conversation=5), "conversation"),
        (request_of("x", conversation={"id": []}), "id"),
        (request_of([{"type": "item_reference", "id": 5}]), "id"),
        (request_of("x", max_output_tokens="x"), "max_output_tokens"),
    ],
)
def test_a_malformed_request_is_refused_with_what_is_wrong_in_it(wrong: bytes, named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        RESPONSES.parse_request(wrong)
    assert named in refused.value.message


@pytest.mark.spec("GATE-61", "GATE-65")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"input" : "Hé", "x":1}', '{"input" : "Hé\\n\\nLINE", "x":1}'),
        ('{"input":[{"role":"user","content":"a"}]}', '{"input":[{"role":"user","content":"a\\n\\nLINE"}]}'),
        (
            '{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output"}]}',
            '{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output"},'
            '{"type":"message","role":"user","content":[{"type":"input_text","text":"LINE"}]}]}',
        ),
        (
            '{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"role":"user","content":"b"}]}',
            '{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"role":"user","content":"b\\n\\nLINE"}]}',
        ),
        ('{"input":[{"role":"assistant","content":"x"}]}', '{"input":[{"role":"assistant","content":"x"}]}'),
        ("{}", "{}"),
    ],
)
def test_the_line_goes_to_the_end_of_the_prompt(before: str, after: str) -> None:
    assert with_line(RESPONSES, before.encode(), "LINE") == after.encode()


@pytest.mark.spec("GATE-60", "GATE-64")
@pytest.mark.parametrize("last", ["completed", "incomplete", "failed"])
def test_a_stream_tells_its_id_at_once_and_its_usage_in_its_last_event(last: str) -> None:
    meter = RESPONSES.meter(streamed=True, take_usage_out=True, chain=())
    text = stream(last, usage=USAGE, conversation={"id": "conv_1"})
    first = text[: text.index(b"\n\n") + 2]
    assert meter.feed(first) == first
    assert meter.ids == ["resp_1"]
    assert run(meter, bytewise(text[len(first) :])) == text[len(first) :]
    assert meter.usage == WANTED
    assert meter.ids == ["resp_1", "conv_1"]
    assert (meter.model, meter.complete) == ("gpt-5-2025-08-07", last != "failed")


@pytest.mark.spec("GATE-60", "GATE-64")
def test_a_buffered_response_tells_usage_ids_and_model() -> None:
    meter = RESPONSES.meter(streamed=False, take_usage_out=False, chain=())
    answer = body(response("completed", usage=USAGE, conversation={"id": "conv_1"}))
    assert run(meter, bytewise(answer)) == answer
    assert (meter.usage, meter.ids, meter.complete) == (WANTED, ["resp_1", "conv_1"], True)
    assert meter.handle == "resp_1"


@pytest.mark.spec("GATE-64")
def test_a_response_in_the_background_has_no_usage_yet() -> None:
    meter = RESPONSES.meter(streamed=False, take_usage_out=False, chain=("x",))
    run(meter, [body(response("queued", usage=None))])
    assert (meter.usage, meter.ids, meter.complete) == (Usage(), ["resp_1"], True)


@pytest.mark.spec("GATE-60")
def test_a_response_that_is_not_stored_hands_out_no_id() -> None:
    meter = RESPONSES.meter(streamed=False, take_usage_out=False, chain=())
    run(meter, [body(response("completed", store=False, output=[MESSAGE]))])
    assert (meter.ids, meter.handle) == ([], None)


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize("streamed", [True, False])
def test_the_items_of_a_response_that_is_stored_are_the_callers(streamed: bool) -> None:
    meter = RESPONSES.meter(streamed=streamed, take_usage_out=False, chain=())
    output = [REASONING, MESSAGE, CALL]
    run(meter, [stream("completed", output=output) if streamed else body(response("completed", output=output))])
    assert meter.ids == ["resp_1", "rs_1", "msg_1", "fc_1"]


@pytest.mark.spec("GATE-67")
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    "sent_back",
    [
        [REASONING, MESSAGE, CALL],
        [MESSAGE, CALL],
        [
            {"role": "assistant", "content": "Grüße"},
            {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"a":1}'},
        ],
        [{"role": "assistant", "content": "Grüße"}],
        [{"type": "item_reference", "id": "msg_1"}, CALL],
        [{"type": "item_reference", "id": "rs_1"}, {"type": "item_reference", "id": "msg_1"}, {**CALL, "id": None}],
    ],
)
def test_the_next_request_is_found_by_the_hash_of_the_answer_however_it_is_sent_back(
    sent_back: list[object], streamed: bool
) -> None:
    first = RESPONSES.parse_request(request_of("Hi", instructions="I"))
    meter = RESPONSES.meter(streamed=streamed, take_usage_out=False, chain=first.chain)
    output = [REASONING, MESSAGE, CALL]
    run(meter, [stream("completed", output=output) if streamed else body(response("completed", output=output))])
    then = RESPONSES.parse_request(request_of([USER, *sent_back, OUTPUT], instructions="I"))
    assert then.chain[:1] == first.chain
    assert set(meter.answer_hashes) & set(then.chain)
    if len(sent_back) > 1 and {"type": "item_reference", "id": "msg_1"} not in sent_back:
        assert meter.answer_hashes[-1] == then.chain[2]


@pytest.mark.spec("GATE-67")
def test_what_a_conversation_is_continued_with_is_told_apart_by_its_id() -> None:
    assert (
        RESPONSES.parse_request(request_of("yes")).chain
        != RESPONSES.parse_request(request_of("yes", conversation="conv_1")).chain
    )
