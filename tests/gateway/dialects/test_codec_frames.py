"""The frame of a call: what its digest stands for, and what may be answered for the provider."""

import contextlib
import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.errors import InvalidRequest
from circadia.gateway.dialects import anthropic_messages, openai_chat, openai_responses
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.frames import MARK, FramedCall, VolatileSpans
from tests.gateway.dialects.samples import CHAT, MESSAGES, RESPONSES, body

NOTHING = VolatileSpans()
SAID = "The-word-that-was-said"
SYSTEM = "You keep the books of ACME."
TOOLS = [
    {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "book", "description": "Books.", "parameters": {"type": "object"}}},
]
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
CALLS: Mapping[Dialect, dict[str, Any]] = {
    CHAT: {
        "model": "gpt-5",
        "temperature": 0.5,
        "tools": TOOLS,
        "response_format": FORMAT,
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": SAID}],
    },
    RESPONSES: {
        "model": "gpt-5",
        "temperature": 0.5,
        "store": False,
        "tools": [{"type": "function", **each["function"]} for each in TOOLS],  # type: ignore[dict-item]
        "text": {"format": FORMAT},
        "instructions": SYSTEM,
        "input": [{"role": "user", "content": SAID}],
    },
    MESSAGES: {
        "model": "claude-5",
        "max_tokens": 100,
        "temperature": 0.5,
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {}}, {"name": "book", "input_schema": {}}],
        "output_config": {"format": FORMAT},
        "system": SYSTEM,
        "messages": [{"role": "user", "content": SAID}],
    },
}
LIST = {CHAT: "messages", RESPONSES: "input", MESSAGES: "messages"}
RESULT: Mapping[Dialect, dict[str, Any]] = {
    CHAT: {"role": "tool", "tool_call_id": "c", "content": SAID},
    RESPONSES: {"type": "function_call_output", "call_id": "c", "output": SAID},
    MESSAGES: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": SAID}]},
}
EACH = pytest.mark.parametrize("dialect", CALLS, ids=lambda one: one.endpoint)


def framed(dialect: Dialect, request: object, volatile: VolatileSpans = NOTHING) -> FramedCall:
    assert dialect.answer_codec is not None
    found = dialect.answer_codec.frame_call(dialect.load(body(request)), volatile)
    assert found is not None
    return found


def call(dialect: Dialect, **more: object) -> dict[str, Any]:
    return copy.deepcopy(CALLS[dialect]) | more


def saying(dialect: Dialect, *said: object, **more: object) -> dict[str, Any]:
    """The call with other messages behind its operator's."""
    first = [each for each in CALLS[dialect][LIST[dialect]] if each["role"] == "system"]
    return call(dialect, **{LIST[dialect]: [*first, *said]}, **more)


def user(content: object, **more: object) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def turned(value: Any) -> Any:
    """The value with the keys of all its objects the other way round."""
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        return {key: turned(known[key]) for key in reversed(list(known))}
    return [turned(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.spec("ANS-01", "ANS-04")
@EACH
@settings(max_examples=30)
@given(value=JSON, question=st.text(min_size=1, max_size=9), indent=st.sampled_from([None, 1]))
def test_a_digest_knows_neither_the_order_of_keys_nor_spaces_nor_what_was_said(
    dialect: Dialect, value: Any, question: str, indent: int | None
) -> None:
    request = call(dialect, unknown=value)
    assert dialect.answer_codec is not None
    read = dialect.load(json.dumps(turned(request), indent=indent).encode())
    again = dialect.answer_codec.frame_call(read, NOTHING)
    assert again is not None
    assert again.digest == framed(dialect, request).digest
    assert framed(dialect, saying(dialect, user(question), unknown=value)).digest == again.digest


@pytest.mark.spec("ANS-01", "ANS-04")
@EACH
@settings(max_examples=30)
@given(value=JSON, other=JSON)
def test_a_digest_moves_with_any_field_that_is_not_known_to_change_nothing(
    dialect: Dialect, value: Any, other: Any
) -> None:
    one, two = (framed(dialect, call(dialect, unknown=each)).digest for each in (value, other))
    assert (one == two) is (json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True))
    assert framed(dialect, CALLS[dialect]).digest not in (one, two)


def changes(dialect: Dialect) -> Sequence[dict[str, Any]]:
    request = call(dialect)
    tools: list[Any] = request["tools"]
    first = tools[0]
    other = {"function": {**first["function"], "description": "Looks away."}} if dialect is CHAT else {}
    system: dict[str, Any] = {
        CHAT: saying(CHAT, user(SAID)) | {"messages": [{"role": "system", "content": f"{SYSTEM} "}, user(SAID)]},
        RESPONSES: call(RESPONSES, instructions=f"{SYSTEM} "),
        MESSAGES: call(MESSAGES, system=f"{SYSTEM} "),
    }[dialect]
    return [
        call(dialect, model="another"),
        call(dialect, temperature=0.6),
        call(dialect, tools=[{**first, "description": "Looks away.", **other}, *tools[1:]]),
        call(dialect, tools=tools[::-1]),
        call(dialect, tools=tools[:1]),
        call(dialect, response_format={"type": "text"}, text={}, output_config={}),
        {key: value for key, value in request.items() if key != "tools"},
        call(dialect, tool_choice="none"),
        call(dialect, seed=1),
        call(dialect, max_tokens=7),
        system,
        saying(dialect, {"role": "system", "content": "Be short."}, user(SAID)),
    ]


@pytest.mark.spec("ANS-01", "ANS-04")
@EACH
def test_another_model_system_prompt_tool_or_setting_is_another_frame(dialect: Dialect) -> None:
    digests = [framed(dialect, each).digest for each in (CALLS[dialect], *changes(dialect))]
    assert len(set(digests)) == len(digests)


@pytest.mark.spec("ANS-01")
@pytest.mark.parametrize(
    ("dialect", "key"),
    [
        *((CHAT, key) for key in openai_chat.UNCHANGING),
        *((RESPONSES, key) for key in openai_responses.UNCHANGING),
        *((MESSAGES, key) for key in anthropic_messages.UNCHANGING),
    ],
)  # fmt: skip
def test_what_never_changes_an_answer_is_in_no_digest(dialect: Dialect, key: str) -> None:
    plain = call(dialect)
    plain.pop(key, None)
    assert framed(dialect, call(dialect, **{key: {"any": "thing"}})).digest == framed(dialect, plain).digest


@pytest.mark.spec("ANS-01")
@EACH
def test_a_system_prompt_is_the_same_as_a_text_and_in_parts_with_a_mark_of_a_cache(dialect: Dialect) -> None:
    parts = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    request = {
        CHAT: call(CHAT, messages=[{"role": "system", "content": parts}, user(SAID)]),
        RESPONSES: call(RESPONSES, instructions=parts),
        MESSAGES: call(MESSAGES, system=parts),
    }[dialect]
    tools = [{**each, "cache_control": {"type": "ephemeral"}} for each in CALLS[dialect]["tools"]]
    assert framed(dialect, request | {"tools": tools}).digest == framed(dialect, CALLS[dialect]).digest


SAYING: Mapping[Dialect, Mapping[str, object]] = {
    CHAT: {"prediction": {"type": "content", "content": SAID}, "user": SAID, "safety_identifier": SAID},
    RESPONSES: {"previous_response_id": SAID, "conversation": {"id": SAID}, "user": SAID},
    MESSAGES: {"thread": {"type": "continue", "previous_message_id": SAID}},
}


@pytest.mark.spec("ANS-01")
@EACH
@settings(max_examples=20)
@given(said=st.lists(st.sampled_from(["user", "assistant", "result", "file"]), max_size=5))
def test_a_frame_holds_nothing_of_what_was_said(dialect: Dialect, said: list[str]) -> None:
    items: list[object] = []
    for kind in said:
        file = {"type": "image_url", "image_url": {"url": SAID}}
        items.append(RESULT[dialect] if kind == "result" else {"role": kind, "content": SAID})
        if kind == "file":
            items[-1] = user([file, {"type": "text", "text": SAID}])
    frame = framed(dialect, saying(dialect, *items, metadata={"x": SAID}, **SAYING[dialect]))
    assert SAID not in frame.body
    kept = json.loads(frame.body)
    assert kept["model"] == CALLS[dialect]["model"]
    assert all(each["role"] == "system" or MARK in str(each["content"]) for each in kept[LIST[dialect]])


@pytest.mark.spec("ANS-01")
@EACH
def test_a_question_is_put_into_a_frame_as_the_one_user_turn(dialect: Dialect) -> None:
    request = saying(dialect, user("a"), {"role": "assistant", "content": "b"}, user("c"), stream=True)
    assert dialect.answer_codec is not None
    made = dialect.answer_codec.build_question_body(framed(dialect, request).body, "Which one?")
    wanted = saying(dialect, user("Which one?"))
    assert json.loads(made) == wanted
    again = framed(dialect, json.loads(made))
    assert (again.digest, again.question, again.servable) == (framed(dialect, request).digest, "Which one?", True)
    prompt = dialect.prompt(made)
    assert prompt is not None
    assert prompt.question == "Which one?"


@pytest.mark.spec("ANS-01")
def test_a_response_that_is_asked_ahead_is_never_kept_by_the_provider() -> None:
    assert RESPONSES.answer_codec is not None
    request = call(RESPONSES, store=True, background=True, previous_response_id="resp_1", input="a")
    made = json.loads(RESPONSES.answer_codec.build_question_body(framed(RESPONSES, request).body, "Which one?"))
    assert made == call(RESPONSES, input=[user("Which one?")])


@pytest.mark.spec("ANS-03")
@EACH
def test_a_question_in_words_is_plain_and_may_be_served(dialect: Dialect) -> None:
    parts: list[Any] = [{"type": "text", "text": "Who"}, {"type": "text", "text": "pays?", "cache_control": {}}]
    if dialect is RESPONSES:
        parts = [{"type": "input_text", "text": "Who"}, {"type": "input_text", "text": "pays?"}]
    for content in ("Who\npays?", parts):
        for before in ([], [user("a"), {"role": "assistant", "content": "b"}]):
            request = saying(dialect, *before, user(content))
            found = framed(dialect, request)
            assert (found.servable, found.why_not, found.plain, found.question) == (True, "", True, "Who\npays?")
            prompt = dialect.prompt(body(request))
            assert prompt is not None
            assert prompt.question == found.question
            chain = dialect.parse_request(body(request)).chain
            expected = dialect.parse_request(body(saying(dialect, *before))).chain[-1] if before else None
            assert found.conversation(chain) == expected


IMAGE = {
    CHAT: {"type": "image_url", "image_url": {"url": "x"}},
    RESPONSES: {"type": "input_image", "image_url": "x"},
    MESSAGES: {"type": "image", "source": {"type": "base64", "data": "x"}},
}


@pytest.mark.spec("ANS-03")
@EACH
def test_what_is_more_than_one_question_in_words_is_never_served(dialect: Dialect) -> None:
    words, model = user("Who pays?"), {"role": "assistant", "content": "b"}
    text = {"type": "input_text" if dialect is RESPONSES else "text", "text": "Who pays?"}
    for said in (
        [words, model, RESULT[dialect], words],
        [words, RESULT[dialect]],
        [words, model],
        [words, words],
        [user([text, IMAGE[dialect]])],
        [user([IMAGE[dialect]])],
        [user([RESULT[dialect], text])],
        [user(" ")],
        [user("Who pays?", name="bob")],
        [],
    ):
        found = framed(dialect, saying(dialect, *said))
        assert (found.servable, found.plain) == (False, False), said
        assert found.why_not
        assert found.body


@pytest.mark.spec("ANS-21")
@EACH
def test_what_a_program_adds_around_a_question_is_of_the_frame_and_stays_in_its_place(dialect: Dialect) -> None:
    assert dialect.answer_codec is not None
    kind = "input_text" if dialect is RESPONSES else "text"

    def parts(question: str) -> dict[str, Any]:
        texts = ("<system-reminder>Use tabs.</system-reminder>\n", question)
        return user([{"type": kind, "text": text} for text in texts])

    behind, environment = (
        {"role": "system", "content": "Be short."},
        user("<environment_context>\n<cwd>/work</cwd>\n</environment_context>"),
    )
    asked = [environment, parts("Who pays?"), behind]
    found = framed(dialect, saying(dialect, *asked))
    assert (found.question, found.servable, found.plain, found.behind) == ("Who pays?", True, True, 0)
    made = dialect.answer_codec.build_question_body(found.body, "Which one?")
    assert json.loads(made)[LIST[dialect]][-3:] == [environment, parts("Which one?"), behind]
    assert framed(dialect, json.loads(made)).digest == found.digest
    for other in ([parts("Who pays?"), behind], [environment, user("Who pays?"), behind], asked[:2]):
        assert framed(dialect, saying(dialect, *other)).digest != found.digest, "another frame"
    later = [*asked, {"role": "assistant", "content": "Bob."}, user("And who cooks?")]
    again = framed(dialect, saying(dialect, *later))
    assert (again.question, again.servable, again.digest) == ("And who cooks?", True, found.digest)
    mixed = user("Who <system-reminder>Use tabs.</system-reminder> pays?")
    assert not framed(dialect, saying(dialect, mixed)).servable


NEVER: Sequence[tuple[Dialect, dict[str, object], bool]] = [
    (CHAT, {"n": 2}, True),
    (CHAT, {"logprobs": True}, True),
    (CHAT, {"top_logprobs": 2}, True),
    (CHAT, {"prediction": {"type": "content", "content": "x"}}, True),
    (CHAT, {"moderation": {"model": "m"}}, True),
    (CHAT, {"store": True}, True),
    (CHAT, {"audio": {"voice": "x"}}, False),
    (CHAT, {"modalities": ["text", "audio"]}, False),
    (CHAT, {"tool_choice": "required"}, False),
    (CHAT, {"tool_choice": {"type": "function", "function": {"name": "look"}}}, False),
    (CHAT, {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}}, False),
    (CHAT, {"function_call": {"name": "look"}}, False),
    (RESPONSES, {"store": True}, True),
    (RESPONSES, {"store": None}, True),
    (RESPONSES, {"previous_response_id": "resp_1"}, True),
    (RESPONSES, {"conversation": {"id": "conv_1"}}, True),
    (RESPONSES, {"background": True}, True),
    (RESPONSES, {"top_logprobs": 2}, True),
    (RESPONSES, {"include": ["message.output_text.logprobs"]}, True),
    (RESPONSES, {"moderation": {"model": "m"}}, True),
    (RESPONSES, {"tool_choice": "required"}, False),
    (RESPONSES, {"tool_choice": {"type": "function", "name": "look"}}, False),
    (RESPONSES, {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}, False),
    (RESPONSES, {"prompt": {"id": "p", "variables": {"x": "y"}}}, False),
    (RESPONSES, {"tools": [{"type": "mcp", "server_url": "https://x", "authorization": "SECRET"}]}, False),
    (RESPONSES, {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, False),
    (RESPONSES, {"tools": [{"type": "shell", "environment": {"container_id": "cntr_1"}}]}, False),
    (MESSAGES, {"tool_choice": {"type": "any"}}, False),
    (MESSAGES, {"tool_choice": {"type": "tool", "name": "look"}}, False),
    (MESSAGES, {"mcp_servers": [{"url": "https://x", "authorization_token": "SECRET"}]}, False),
    (MESSAGES, {"container": "container_1"}, False),
    (MESSAGES, {"compaction": {}}, False),
    (MESSAGES, {"thread": {"type": "create"}}, True),
]


@pytest.mark.spec("ANS-03")
@pytest.mark.parametrize(("dialect", "more", "ahead"), NEVER)
def test_some_calls_are_never_served_and_some_not_even_asked_ahead(
    dialect: Dialect, more: dict[str, object], ahead: bool
) -> None:
    found = framed(dialect, call(dialect, **more))
    assert found.servable is False
    assert found.plain is True
    assert found.why_not
    assert bool(found.body) is ahead
    assert "SECRET" not in found.body
    assert dialect.answer_codec is not None
    if ahead:  # nobody asks ahead for what no answer can be served in
        assert not set(json.loads(dialect.answer_codec.build_question_body(found.body, "x"))) & (
            set(more) - {"store", "include"}
        )


@pytest.mark.spec("ANS-03")
@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        (CHAT, {"n": 1, "tool_choice": "auto", "logprobs": False, "modalities": ["text"], "audio": None}),
        (CHAT, {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
        (CHAT, {"tool_choice": "none", "stream": True, "stream_options": {"include_usage": True}, "store": False}),
        (RESPONSES, {"tool_choice": "auto", "background": False, "include": ["reasoning.encrypted_content"]}),
        (RESPONSES, {"prompt": {"id": "p"}, "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
        (MESSAGES, {"tool_choice": {"type": "auto"}, "mcp_servers": [], "thinking": {"type": "adaptive"}}),
    ],
)
def test_usual_settings_keep_no_answer_from_being_served(dialect: Dialect, more: dict[str, object]) -> None:
    found = framed(dialect, call(dialect, **more))
    assert (found.servable, found.why_not) == (True, "")
    assert found.body


@EACH
@settings(max_examples=30)
@given(junk=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_rubbish_is_no_call_and_no_answer(dialect: Dialect, junk: bytes) -> None:
    assert dialect.answer_codec is not None
    with contextlib.suppress(InvalidRequest):
        found = dialect.answer_codec.frame_call(dialect.load(junk), NOTHING)
        assert found is None or not found.servable
    assert dialect.answer_codec.parse_answer(junk) is None


@EACH
@pytest.mark.parametrize("depth", [200, 260, 1020, 5000])
def test_deep_nesting_is_framed_or_not_but_never_crashes(dialect: Dialect, depth: int) -> None:
    assert dialect.answer_codec is not None
    deep = b"[" * depth + b"]" * depth
    for request in (
        b'{"x":' + deep + b',"messages":[],"input":[]}',
        b'{"service_tier":' + deep + b',"messages":[],"input":[]}',
        b'{"messages":[{"role":"system","content":' + deep + b'}],"input":[{"role":"user","content":' + deep + b"}]}",
    ):
        with contextlib.suppress(InvalidRequest):
            dialect.answer_codec.frame_call(dialect.load(request), VolatileSpans(("dates",)))
        dialect.answer_codec.parse_answer(request)
