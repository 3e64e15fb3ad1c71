"""Legacy completions, embeddings, and endpoints that are only passed on."""

import base64
import json
from typing import Any

import pytest

from circadia.errors import InvalidRequest
from circadia.gateway.dialects.anthropic_messages import AnthropicMessages
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.gemini import GenerateContent
from circadia.gateway.dialects.openai_responses import Responses
from circadia.llm.usage import Usage
from tests.gateway.dialects.samples import COMPLETIONS, EMBEDDINGS, OPENAI, body, bytewise, run, with_line, with_usage

PLAIN = OPENAI["plain"]


@pytest.mark.spec("GATE-66")
@pytest.mark.parametrize(
    ("prompt", "limit"), [("x", 30), (["x", "y"], 60), ([1, 2, 3], 30), ([[1], [2]], 60), (None, 30), ([], 30)]
)
def test_a_legacy_completion_may_write_its_limit_for_each_choice_of_each_prompt(prompt: object, limit: int) -> None:
    read = COMPLETIONS.parse_request(body({"model": "m", "prompt": prompt, "max_tokens": 10, "n": 2, "best_of": 3}))
    assert (read.output_limit, read.turn, len(read.chain)) == (limit, True, 1)


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize(
    "wrong", [b"[]", b'{"prompt":5}', b'{"prompt":{}}', b'{"model":5}', b'{"stream":1}', b'{"n":"x"}']
)
def test_a_malformed_completion_is_refused(wrong: bytes) -> None:
    with pytest.raises(InvalidRequest):
        COMPLETIONS.parse_request(wrong)


@pytest.mark.spec("GATE-61")
def test_a_legacy_stream_is_asked_for_usage_and_its_prompt_left_alone() -> None:
    request = b'{"prompt":"x","stream":true}'
    assert with_usage(COMPLETIONS, request) == b'{"prompt":"x","stream":true,"stream_options":{"include_usage":true}}'
    assert with_line(COMPLETIONS, request, "LINE") == request


@pytest.mark.spec("GATE-64")
def test_usage_of_a_buffered_completion_is_read() -> None:
    answer = body({"model": "m", "choices": [{"text": "x"}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
    meter = COMPLETIONS.meter(streamed=False, take_usage_out=False, chain=("x",))
    assert run(meter, [answer]) == answer
    assert (meter.usage, meter.model, meter.answer_hashes) == (Usage(input_tokens=3, output_tokens=1), "m", [])


@pytest.mark.spec("GATE-66", "GATE-67")
def test_embeddings_write_nothing_and_are_no_turn() -> None:
    read = EMBEDDINGS.parse_request(body({"model": "m", "input": ["x"], "user": "ann"}))
    assert (read.model, read.output_limit, read.turn, read.end_user) == ("m", 0, False, "ann")
    with pytest.raises(InvalidRequest):
        EMBEDDINGS.parse_request(b"[]")


@pytest.mark.spec("GATE-64")
@pytest.mark.parametrize("usage_first", [True, False])
@pytest.mark.parametrize("size", [0, 100, 200_000])
def test_usage_of_embeddings_is_read_from_either_end_of_an_answer_of_any_size(usage_first: bool, size: int) -> None:
    vectors = {"object": "list", "data": [{"index": 0, "embedding": base64.b64encode(b"\1" * size).decode()}]}
    told = {"model": "text-embedding-3-small", "usage": {"prompt_tokens": 8, "total_tokens": 8}}
    answer = body({**told, **vectors} if usage_first else {**vectors, **told})
    meter = EMBEDDINGS.meter(streamed=False, take_usage_out=False, chain=())
    chunks = bytewise(answer) if size < 1000 else [answer[:70_000], answer[70_000:]]
    assert run(meter, chunks) == answer
    assert (meter.usage.input_tokens, meter.usage.output_tokens) == (8, None)
    assert (meter.model, meter.complete) == ("text-embedding-3-small", True)


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize(
    "anything", [b"", b"--boundary\r\n\xff", b"[1]", b'{"model":5,"stream":"x"}', b"{", b"{" * 5000]
)
def test_an_unknown_endpoint_takes_any_body(anything: bytes) -> None:
    read = PLAIN.parse_request(anything)
    assert (read.model, read.streamed, read.turn) == (None, False, False)
    assert with_line(PLAIN, anything, "LINE") == anything
    assert with_usage(PLAIN, anything) is None


@pytest.mark.spec("GATE-60")
def test_an_unknown_endpoint_tells_model_and_stream_where_the_body_has_them_and_the_id_of_the_answer() -> None:
    read = PLAIN.parse_request(b'{"model":"m","stream":true}')
    assert (read.model, read.streamed) == ("m", True)
    meter = PLAIN.meter(streamed=False, take_usage_out=False, chain=())
    run(meter, [b'{"id":"batch_1","usage":{"prompt_tokens":1}}'])
    assert (meter.ids, meter.usage) == (["batch_1"], Usage())
    sound = PLAIN.meter(streamed=False, take_usage_out=False, chain=())
    assert run(sound, [b"\xff\xfbMP3"]) == b"\xff\xfbMP3"
    assert sound.complete is True


ASKED = {"role": "user", "parts": [{"text": "Is the pier open?"}]}
SAID = {"role": "model", "parts": [{"text": "I look.", "thought": True}, {"functionCall": {"name": "look"}}]}
SEEN = {"role": "function", "parts": [{"function_response": {"name": "look", "response": {"since": 1700000000}}}]}

ODD: list[dict[str, Any]] = [
    {"contents": []}, {"contents": [{}]}, {"contents": [5]}, {"contents": [{"parts": {"text": "x"}}]},
    {"contents": [{"parts": [{"text": 5}, None]}]}, {"contents": [ASKED], "systemInstruction": None},
    {"contents": [ASKED], "system_instruction": {"parts": []}}, {"contents": [ASKED], "systemInstruction": "x"},
    {"cachedContent": "c", "contents": []}, {"contents": "x"}, {},
]  # fmt: skip


@pytest.mark.spec("GATE-99", "MEM-13")
@pytest.mark.parametrize("cache", ["cachedContent", "cached_content"])
def test_behind_a_cache_of_gemini_memory_stands_before_the_contents(cache: str) -> None:
    """Google refuses a system instruction beside a cache, which has one."""
    prompt = GenerateContent().prompt(body({cache: "cachedContents/c", "contents": [ASKED, SAID, SEEN]}))
    assert prompt is not None
    parts = [{"text": "stable"}, *ASKED["parts"], {"text": "fitting"}]
    changed = [{"role": "user", "parts": parts}, SAID, SEEN]
    assert json.loads(prompt.with_context("stable", "fitting")) == {cache: "cachedContents/c", "contents": changed}


@pytest.mark.spec("GATE-99", "MEM-14")
def test_thoughts_of_gemini_are_not_said_and_results_of_its_tools_are_heard() -> None:
    prompt = GenerateContent().prompt(body({"contents": [ASKED, SAID, SEEN]}))
    assert prompt is not None
    assert (prompt.question, prompt.texts) == ("Is the pier open?", {"Is the pier open?", ""})
    assert [(each.text, each.tool) for each in prompt.heard] == [('{"since": 1700000000}', True)]


@pytest.mark.spec("GATE-99", "GATE-61")
def test_what_gemini_takes_for_a_list_of_one_stays_and_memory_stands_beside_it() -> None:
    """Google's documentation and many scripts write one content and one part without a list."""
    told, asked = {"parts": {"text": "You are a cat."}}, {"role": "user", "parts": {"text": "Is the pier open?"}}
    sent = body({"system_instruction": told, "contents": asked})
    read = GenerateContent().parse_request(sent)
    assert (read.turn, len(read.chain)) == (True, 1)
    assert (
        read.chain == GenerateContent().parse_request(body({"contents": [{**asked, "parts": [asked["parts"]]}]})).chain
    )
    prompt = GenerateContent().prompt(sent)
    assert prompt is not None
    assert (prompt.question, [each.text for each in prompt.heard]) == ("Is the pier open?", ["Is the pier open?"])
    changed = json.loads(prompt.with_additions("stable", [(0, "fitting"), (0, "notice")]))
    assert changed["system_instruction"] == {"parts": [told["parts"], {"text": "stable"}]}
    assert changed["contents"] == {**asked, "parts": [asked["parts"], {"text": "fitting"}, {"text": "notice"}]}
    assert GenerateContent().prompt(body({"cachedContent": "c", "contents": asked})) is None


@pytest.mark.spec("GATE-61")
@pytest.mark.parametrize(
    ("dialect", "request_body"),
    [
        (GenerateContent(), {"contents": [ASKED], "systemInstruction": "Be kind."}),
        (GenerateContent(), {"contents": [ASKED], "systemInstruction": {"parts": "Be kind."}}),
        (AnthropicMessages(), {"messages": [{"role": "user", "content": "Hello"}], "system": {"text": "Be kind."}}),
        (Responses(), {"input": "Hello", "instructions": [{"role": "developer", "content": "Be kind."}]}),
    ],
)
def test_a_system_prompt_in_another_form_is_never_replaced(dialect: Dialect, request_body: dict[str, Any]) -> None:
    assert dialect.prompt(body(request_body)) is None


@pytest.mark.spec("GATE-99", "GATE-61")
@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
def test_an_odd_body_for_gemini_gets_no_memory_or_stays_json(odd: dict[str, object]) -> None:
    prompt = GenerateContent().prompt(body(odd))
    if prompt is not None:
        changed = json.loads(prompt.with_context("stable", "fitting"))
        assert changed["contents"] is not None
        assert "stable" in json.dumps(changed)
