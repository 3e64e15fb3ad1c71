"""Where memory stands in a request of each API, and that every other byte stays as it was."""

import json
from typing import Any

import pytest

from circadia.gateway.dialects.anthropic_messages import AnthropicMessages
from circadia.gateway.dialects.openai_chat import ChatCompletions
from circadia.gateway.dialects.openai_completions import Completions
from circadia.gateway.dialects.openai_responses import Responses
from circadia.gateway.payload.prompt import RequestPrompt

CHAT, RESPONSES, MESSAGES = ChatCompletions(), Responses(), AnthropicMessages()
MARK = {"cache_control": {"type": "ephemeral"}}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}


def raw(**body: object) -> bytes:
    """Return a body as a client might write it, with spaces, escapes and numbers that no reader may touch."""
    text = json.dumps(body, indent=1, ensure_ascii=True)
    return text[:-1].encode() + b', "temperature": 1.0e-1, "seed": 12345678901234567890 , "\\u00fc": "\xc3\xbc"\n}\n'


def prompt(dialect: ChatCompletions | Responses | AnthropicMessages, body: bytes) -> RequestPrompt:
    found = dialect.prompt(body)
    assert found is not None
    return found


def added(dialect: ChatCompletions | Responses | AnthropicMessages, body: bytes) -> dict[str, Any]:
    """Return the body with `S` and `F` in it, once it is clear that nothing was lost or moved."""
    out = prompt(dialect, body).with_context("S“\n", "F")
    rest = iter(out)
    assert all(byte in rest for byte in body), "a byte was lost"
    assert b"1.0e-1" in out
    assert b"12345678901234567890 " in out
    return json.loads(out)


@pytest.mark.spec("MEM-15", "MEM-13")
@pytest.mark.parametrize(
    ("given", "leading"),
    [
        ([], [{"role": "system", "content": "S“\n"}]),
        ([{"role": "system", "content": "be kind"}], [{"role": "system", "content": "be kind\n\nS“\n"}]),
        ([{"role": "system", "content": ""}], [{"role": "system", "content": "S“\n"}]),
        (
            [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}],
            [{"role": "system", "content": "a"}, {"role": "developer", "content": "b\n\nS“\n"}],
        ),
        (
            [{"role": "system", "content": [{"type": "text", "text": "a", **MARK}]}],
            [{"role": "system", "content": [{"type": "text", "text": "a", **MARK}, {"type": "text", "text": "S“\n"}]}],
        ),
    ],
)
def test_in_a_chat_blocks_stand_at_the_end_of_the_leading_system_side(given: list[Any], leading: list[Any]) -> None:
    later = [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "later"},
        {"role": "user", "content": "?"},
    ]
    made = added(CHAT, raw(model="m", messages=[*given, *later]))
    has_marks = "cache_control" in json.dumps(given)
    last = [{"type": "text", "text": "?"}, {"type": "text", "text": "F"}] if has_marks else "?\n\nF"
    assert made["messages"] == [*leading, *later[:2], {"role": "user", "content": last}]


@pytest.mark.spec("MEM-15")
@pytest.mark.parametrize(
    ("given", "made"),
    [
        (None, "S“\n"),
        ("be kind", "be kind\n\nS“\n"),
        (
            [{"type": "text", "text": "a", **MARK}],
            [{"type": "text", "text": "a", **MARK}, {"type": "text", "text": "S“\n"}],
        ),
        ([], [{"type": "text", "text": "S“\n"}]),
    ],
)
def test_in_anthropics_messages_blocks_stand_behind_the_system_prompt_and_its_cache_marks(
    given: object, made: object
) -> None:
    body = raw(messages=[{"role": "user", "content": "hi"}], **({} if given is None else {"system": given}))
    assert added(MESSAGES, body)["system"] == made


@pytest.mark.spec("MEM-15")
@pytest.mark.parametrize("given", [None, "be kind"])
def test_in_responses_blocks_stand_at_the_end_of_the_instructions(given: str | None) -> None:
    body = raw(input="hi", **({} if given is None else {"instructions": given}))
    made = added(RESPONSES, body)
    assert made["instructions"] == ("S“\n" if given is None else "be kind\n\nS“\n")
    assert made["input"] == "hi\n\nF"


def test_a_null_system_prompt_gives_way_to_the_blocks() -> None:
    assert (
        json.loads(prompt(RESPONSES, raw(input="hi", instructions=None)).with_context("S", ""))["instructions"] == "S"
    )
    body = raw(messages=[{"role": "user", "content": "hi"}], system=None)
    assert json.loads(prompt(MESSAGES, body).with_context("S", ""))["system"] == "S"


@pytest.mark.spec("MEM-15", "MEM-13")
def test_what_fits_the_question_is_the_last_part_of_the_last_user_turn_behind_its_cache_mark() -> None:
    asked: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "hi", **MARK}]}
    before = {"role": "user", "content": [{"type": "text", "text": "old", **MARK}]}
    said = {"role": "assistant", "content": "ok"}
    for dialect in (CHAT, MESSAGES):
        messages = added(dialect, raw(messages=[before, said, asked]))["messages"]
        assert messages[-1]["content"] == [*asked["content"], {"type": "text", "text": "F"}]
        assert messages[-3] == before
    asked = {
        "role": "user",
        "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "u"}],
    }
    made = added(RESPONSES, raw(input=[{"role": "user", "content": "old"}, said, asked]))["input"]
    assert made == [
        {"role": "user", "content": "old"}, said,
        {"role": "user", "content": [*asked["content"], {"type": "input_text", "text": "F"}]},
    ]  # fmt: skip


@pytest.mark.spec("MEM-15")
def test_while_the_model_works_with_tools_it_stays_in_the_users_turn_and_never_between_call_and_result() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "found"}
    made = added(CHAT, raw(messages=[{"role": "user", "content": "hi"}, CALL, result]))
    assert made["messages"][1:] == [{"role": "user", "content": "hi\n\nF"}, CALL, result]

    use: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}],
    }
    back: dict[str, Any] = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}],
    }
    made = added(MESSAGES, raw(messages=[{"role": "user", "content": "hi"}, use, back]))
    apart = [{"type": "text", "text": "hi"}, {"type": "text", "text": "F"}]
    assert made["messages"] == [{"role": "user", "content": apart}, use, back]

    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "found"}
    made = added(RESPONSES, raw(input=[{"role": "user", "content": "hi"}, call, output]))
    assert made["input"] == [{"role": "user", "content": "hi\n\nF"}, call, output]


def test_a_user_message_that_follows_a_result_in_anthropics_messages_is_added_to_at_its_end() -> None:
    use: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}],
    }
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "found"}]}
    back: dict[str, Any] = {"role": "user", "content": [result, {"type": "text", "text": "and now?"}]}
    body = raw(messages=[{"role": "user", "content": "hi"}, use, back])
    made = added(MESSAGES, body)
    assert made["messages"][-1]["content"] == [*back["content"], {"type": "text", "text": "F"}]
    heard = prompt(MESSAGES, body).heard
    assert {(each.text, each.tool) for each in heard} == {("found", True), ("and now?", False)}


@pytest.mark.spec("MEM-14")
def test_what_is_new_is_what_stands_behind_the_models_last_words() -> None:
    messages = [{"role": "user", "content": "old"}, {"role": "assistant", "content": "ok"}]
    messages += [
        {"role": "user", "content": "one"},
        {"role": "system", "content": "x"},
        {"role": "user", "content": "two"},
    ]
    found = prompt(CHAT, raw(messages=messages))
    assert [(each.text, each.back) for each in found.heard] == [("one", 3), ("two", 1)]
    assert found.continues
    assert found.question == "two"
    reasoned: list[dict[str, Any]] = [{"type": "reasoning", "summary": []}, {"role": "user", "content": "two"}]
    assert [each.text for each in prompt(RESPONSES, raw(input=[messages[0], *reasoned])).heard] == ["two"]


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
def test_what_is_asked_is_new_also_where_the_answer_is_begun_for_the_model(
    dialect: ChatCompletions | AnthropicMessages,
) -> None:
    asked, begun = {"role": "user", "content": "name it"}, {"role": "assistant", "content": '{"name": "'}
    alone = prompt(dialect, raw(messages=[asked, begun]))
    assert ([(each.text, each.back) for each in alone.heard], alone.continues) == ([("name it", 2)], False)
    later = prompt(dialect, raw(messages=[asked, begun, asked, begun]))
    assert ([(each.text, each.back) for each in later.heard], later.continues) == ([("name it", 2)], True)
    assert added(dialect, raw(messages=[asked, begun]))["messages"][-1] == begun


@pytest.mark.spec("MEM-14")
def test_a_system_message_among_anthropics_messages_does_not_hide_what_the_user_says() -> None:
    messages = [{"role": "user", "content": "one"}, {"role": "system", "content": "be kind"}]
    assert [each.text for each in prompt(MESSAGES, raw(messages=messages)).heard] == ["one"]


def test_without_words_of_the_user_there_is_no_place_for_what_would_fit_them() -> None:
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    body = raw(messages=[picture])
    assert prompt(CHAT, body).with_context("", "F") == body


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"messages": 1}', b'{"messages": [', b"\xff", b'{"messages":[{}]}']
)
def test_what_is_no_request_is_left_alone(body: bytes) -> None:
    for dialect in (CHAT, MESSAGES, RESPONSES):
        found = dialect.prompt(body)
        assert found is None or found.with_context("", "F") == body


def test_endpoints_without_turns_have_no_prompt() -> None:
    assert Completions().prompt(raw(prompt="hi")) is None


REMINDER = "<system-reminder>\nToday is Sunday.\n</system-reminder>\n"
CONTEXT = "<environment_context>\n  <cwd>/home</cwd>\n</environment_context>"


@pytest.mark.spec("MEM-14", "MEM-15")
def test_what_claude_code_adds_to_a_turn_is_neither_heard_nor_asked() -> None:
    first = {"role": "user", "content": [{"type": "text", "text": REMINDER}, {"type": "text", "text": "Where is it?"}]}
    after = {"role": "system", "content": "Available agents: none"}
    found = prompt(MESSAGES, raw(messages=[first, after]))
    assert found.question == "Where is it?"
    assert [each.text for each in found.heard] == ["Where is it?"]
    called: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}],
    }
    result = {"type": "tool_result", "tool_use_id": "t", "content": "a.py"}
    then = {"role": "user", "content": [result, {"type": "text", "text": REMINDER}]}
    found = prompt(MESSAGES, raw(messages=[first, called, then]))
    assert found.question == "Where is it?", "a reminder behind a tool's result asks nothing new"
    assert [(each.text, each.tool) for each in found.heard] == [("a.py", True)]


@pytest.mark.spec("MEM-14", "MEM-15")
def test_what_codex_sends_before_a_turn_is_neither_heard_nor_asked() -> None:
    parts = [[{"type": "input_text", "text": text}] for text in (CONTEXT, "Where is it?")]
    said = [{"type": "message", "role": "user", "content": part} for part in parts]
    found = prompt(RESPONSES, raw(input=said))
    assert found.question == "Where is it?"
    assert [each.text for each in found.heard] == ["Where is it?"]
