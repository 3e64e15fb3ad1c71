"""Which calls of real clients' shapes are one conversation."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.gateway.bound_agent import RESPONSES, bound, chat
from tests.interaction.live import KEY, Live, live

pytestmark = pytest.mark.spec("GATE-96")

Body = dict[str, Any]
CODEX = {"originator": "codex_cli_rs", "session-id": "s1", "thread-id": "t1"}
CLAUDE_CODE = {"x-claude-code-session-id": "s1", "x-app": "cli"}
OPENCODE = {"user-agent": "opencode/1.18.3", "x-session-id": "ses_1"}
PROMPT: list[Body] = [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>…"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>…"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Make the tests pass"}]},
]


def steps(number: int) -> Iterable[tuple[Body, list[Body]]]:
    """Return an answer's item of each kind, and what Codex sends in its place and after it in the next request."""
    call = f"call_{number}"
    action: Body = {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": None}
    output = {"type": "function_call_output", "call_id": call, "output": f"done {number}"}
    custom = {"type": "custom_tool_call", "call_id": call, "name": "apply_patch", "input": f"*** Begin {number}"}
    yield custom, [custom, {**output, "type": "custom_tool_call_output"}]
    search = {"type": "web_search_call", "action": {"type": "search", "query": "uv", "sources": [{"url": "u"}]}}
    yield search, [{**search, "action": {"type": "search", "query": "uv"}}]
    shell: Body = {"type": "local_shell_call", "call_id": call, "action": action}
    yield shell, [{**shell, "action": {"type": "exec", "command": ["ls"], "working_directory": None}}, output]
    mcp = {"type": "mcp_call", "name": "read", "server_label": "files", "arguments": "{}", "output": "x", "error": None}
    yield mcp, []
    tools: Body = {"type": "tool_search_call", "call_id": call, "execution": "client", "arguments": {"query": "q"}}
    yield tools, [tools, {"type": "tool_search_output", "call_id": call, "tools": [], "status": "completed"}]
    yield {"type": "code_interpreter_call", "code": "1", "container_id": "c", "outputs": None}, []
    yield {"type": "image_generation_call", "result": "aaaa"}, [{"type": "image_generation_call", "result": "aaaa"}]
    function = {"type": "function_call", "call_id": call, "name": "exec", "arguments": '{"cmd": "ls"}'}
    yield function, [{**function, "arguments": '{"cmd":"ls"}'}, output]
    patch = {
        "type": "apply_patch_call",
        "call_id": call,
        "operation": {"type": "update_file", "path": "a", "diff": "+"},
    }
    yield patch, [patch, {"type": "apply_patch_call_output", "call_id": call, "status": "completed", "output": None}]


def reply(at: MockUpstream, number: int, *items: Body) -> None:
    """Script the next answer of the Responses API, streamed as to Codex."""
    output: list[Body] = [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"e{number}"},
        *({**item, "id": f"it_{number}_{place}", "status": "completed"} for place, item in enumerate(items)),
        {
            "type": "message", "role": "assistant", "id": f"msg_{number}", "status": "completed",
            "content": [{"type": "output_text", "text": f"Step {number}", "annotations": [], "logprobs": []}],
        },
    ]  # fmt: skip
    response: Body = {"id": f"resp_{number}", "status": "completed", "output": output, "store": False}
    document = json.dumps({"type": "response.completed", "response": response})
    body = f"event: response.completed\ndata: {document}\n\n"
    at.next(body=body, path="/responses", headers={"content-type": "text/event-stream"})


async def ask(
    at: Live, token: str, path: str, body: Body, headers: Mapping[str, str] | None = None, *, upstream: str = "openai"
) -> bytes:
    async with at.call(token, path, body, headers=headers, upstream=upstream) as response:
        assert response.status == 200, await response.read()
        answer = await response.read()
    await at.server.journal.flush()
    return answer


async def conversations(at: Live) -> list[int]:
    """Return the number of calls of each conversation, in ascending order."""
    return sorted(line["calls"] for line in await at.usage("conversation"))


async def loop(at: Live, token: str, headers: Mapping[str, str] | None, calls: int = 30, **fields: object) -> None:
    """Make the calls of one Codex tool loop, with answers of each kind."""
    items: list[Body] = list(PROMPT)
    kinds = [step for number in range(-(-calls // 9)) for step in steps(number)][:calls]
    for number, (item, sent) in enumerate(kinds):
        reply(at.upstream, number, item)
        await ask(at, token, "/v1/responses", {"model": "gpt-5", "input": items, "stream": True, **fields}, headers)
        thought: Body = {"type": "reasoning", "summary": [], "encrypted_content": f"e{number}"}
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"Step {number}"}]}
        items = [*items, thought, *sent[:1], said, *sent[1:]]


@pytest.mark.parametrize("headers", [CODEX, None, {"originator": "codex_exec"}])
async def test_the_calls_of_a_codex_loop_are_one_conversation_whatever_its_items(
    tmp_path: Path, headers: Mapping[str, str] | None
) -> None:
    async with live(tmp_path) as at:
        await loop(at, await at.agent(), headers)
        assert await conversations(at) == [30]


@pytest.mark.parametrize("headers", [CODEX, None])
async def test_in_a_loop_the_context_stays_and_question_and_answers_are_one_conversation_in_the_bank(
    tmp_path: Path, headers: Mapping[str, str] | None
) -> None:
    async with bound(tmp_path) as ann:
        await ann.say(chat("The tests pass only with the red lamp"))
        custom = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin Patch"}
        items: list[Body] = list(PROMPT)
        contexts: list[str] = []
        for number in range(4):
            call, reference = {**custom, "call_id": f"c{number}"}, {"call_id": f"c{number}", "output": "done"}
            reply(ann.at.upstream, number, *([call] if number < 3 else []))
            await ann.say({"model": "gpt-5", "input": items, "stream": True}, path=RESPONSES, headers=headers)
            contexts.append(json.dumps(ann.sent["input"][2]))
            await ann.say(chat(f"The tests pass only with lamp {number} too"))
            said = {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": f"Step {number}"}],
            }
            items = [*items, call, said, {"type": "custom_tool_call_output", **reference}]
        assert "red lamp" in contexts[0]
        assert contexts == contexts[:1] * 4
        found = {each.text: each.conversation for each in await ann.episodes()}
    assert found["Make the tests pass"] == found["Step 3"]


async def test_every_kind_of_block_of_the_messages_api_leaves_a_conversation_what_it_is(tmp_path: Path) -> None:
    blocks: list[tuple[Body, Body | None]] = [
        ({"type": "thinking", "thinking": "hm", "signature": "s"}, None),
        ({"type": "redacted_thinking", "data": "d"}, None),
        ({"type": "text", "text": "So.", "citations": None}, {"type": "text", "text": "So."}),
        (
            {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "q"}, "caller": None},
            None,
        ),
        (
            {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": [{"title": "t", "page_age": None}]},
            None,
        ),
        ({"type": "web_fetch_tool_result", "tool_use_id": "srv1", "content": {"type": "web_fetch_result"}}, None),
        ({"type": "code_execution_tool_result", "tool_use_id": "srv1", "content": {"stdout": "1"}}, None),
        ({"type": "bash_code_execution_tool_result", "tool_use_id": "srv1", "content": {}}, None),
        ({"type": "tool_search_tool_result", "tool_use_id": "srv1", "content": {}}, None),
        ({"type": "mcp_tool_use", "id": "m1", "name": "read", "server_name": "files", "input": {}}, None),
        ({"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": []}, None),
        ({"type": "container_upload", "file_id": "f1"}, {"type": "container_upload", "file_id": "f1"}),
        ({"type": "compaction", "content": "What was said", "encrypted_content": None}, None),
        (
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}, "caller": {"type": "direct"}},
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
        ),
    ]
    async with live(tmp_path) as at:
        token = await at.agent()
        for keeps_all in (True, False):
            messages: list[Body] = [{"role": "user", "content": f"Find it; all is sent back: {keeps_all}"}]
            for number, (block, kept) in enumerate(blocks):
                content = [{"type": "text", "text": f"Step {number}."}, block]
                answer = {"id": "msg", "type": "message", "role": "assistant", "content": content, "model": "m"}
                at.upstream.next(body={**answer, "stop_reason": "end_turn", "usage": {"input_tokens": 1}})
                body = {"model": "claude", "max_tokens": 9, "messages": messages}
                await ask(at, token, "/v1/messages", body, upstream="anthropic")
                sent = content if keeps_all else [content[0], *([] if kept is None else [kept])]
                result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
                user = [
                    result,
                    {"type": "image", "source": {"type": "url", "url": "u"}},
                    {"type": "document", "id": "d"},
                ]
                messages = [*messages, {"role": "assistant", "content": sent}, {"role": "user", "content": user}]
        assert await conversations(at) == [len(blocks)] * 2


async def test_a_session_holds_together_what_its_history_does_not(tmp_path: Path) -> None:
    """Claude Code clears the results of old tools; nothing but its name and its beginning stays."""
    first = [{"type": "text", "text": "<system-reminder>…"}, {"type": "text", "text": "Find it"}]
    said: list[Body] = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]},
    ]
    body = {"model": "claude", "max_tokens": 9}
    async with live(tmp_path) as at:
        token = await at.agent()
        for result in ("a long file", "[Old tool result content cleared]"):
            answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result}]}
            messages = [*said, answer]
            await ask(at, token, "/v1/messages", {**body, "messages": messages}, CLAUDE_CODE, upstream="anthropic")
        assert await conversations(at) == [2]


@pytest.mark.parametrize(
    ("path", "headers", "agent"),
    [
        ("/v1/messages", CLAUDE_CODE, {"x-claude-code-agent-id": "a1"}),
        ("/v1/responses", CODEX, {"thread-id": "t2"}),
        ("/v1/chat/completions", OPENCODE, {"x-session-id": "ses_2"}),
    ],
)
async def test_subagents_and_titles_of_a_session_are_conversations_of_their_own(
    tmp_path: Path, path: str, headers: Mapping[str, str], agent: Mapping[str, str]
) -> None:
    field = "input" if path.endswith("responses") else "messages"
    upstream = "anthropic" if path.endswith("messages") else "openai"

    async def say(*texts: str, **more: str) -> None:
        said = [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]
        body = {"model": "m", "max_tokens": 9, field: said}
        await ask(at, token, path, body, {**headers, **more}, upstream=upstream)

    async with live(tmp_path) as at:
        token = await at.agent()
        await say("Mend the door")
        await say("<session>\nMend the door\n</session>\n\nWrite the title")
        await say("Look for doors")
        await say("Mend the door", "How?", "As you like")
        await say("Mend the door", **agent)
        await say("Mend the door", "How?", "As you like", "Done.", "Thanks")
        await say("Look for doors", "Two.", "Go on")
        assert await conversations(at) == [1, 1, 2, 3]


async def test_a_name_counts_only_within_its_agent_and_its_end_user(tmp_path: Path) -> None:
    body: Body = {"model": "gpt-5", "input": "Hello"}
    async with live(tmp_path) as at:
        ann, bob = await at.agent(), await at.agent("bob")
        for token, user in ((ann, ""), (bob, ""), (ann, "kim"), (ann, "lee"), (ann, "kim")):
            await ask(at, token, "/v1/responses", body, {**CODEX, **({"x-circadia-user": user} if user else {})})
        await ask(at, ann, "/v1/responses", body, {**CODEX, "session-id": "s2", "thread-id": "t2"})
        assert await conversations(at) == [1, 1, 1, 1, 2]


@pytest.mark.parametrize(("originator", "expected"), [("codex_exec", [1, 2]), ("other", [1, 1, 1])])
async def test_a_cache_key_names_a_conversation_of_codex_alone(
    tmp_path: Path, originator: str, expected: list[int]
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        for key in ("k1", "k2", "k1"):
            body = {"model": "gpt-5", "input": "Hello", "prompt_cache_key": key}
            await ask(at, token, "/v1/responses", body, {"originator": originator})
        assert await conversations(at) == expected


async def test_what_a_caller_names_itself_counts_before_its_programs_name(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        for session in ("s1", "s2"):
            headers = {**CLAUDE_CODE, "x-claude-code-session-id": session, "x-circadia-conversation": "desk"}
            await ask(at, token, "/v1/responses", {"model": "m", "input": session}, headers)
        assert [line["key"] for line in await at.usage("conversation")] == ["desk"]


async def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with MockUpstream(key=KEY) as provider:
        async with live(tmp_path, provider=provider) as at:
            token = await at.agent()
            await loop(at, token, CODEX, calls=3)
        async with live(tmp_path, provider=provider) as at:
            await loop(at, token, CODEX, calls=3)
            assert await conversations(at) == [6]
