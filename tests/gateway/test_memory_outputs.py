"""Answers that a program asks for as the call of a tool, as Pydantic AI, Instructor and LangChain do."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, bound

BOAT = '{"boat":"Nora"}'
ASKED = "Which boat goes to Lund?"


def offered(path: str, name: str) -> dict[str, Any]:
    """Return a tool as the path's API has it."""
    if path == CHAT:
        return {"type": "function", "function": {"name": name}}
    return {"type": "function", "name": name} if path == RESPONSES else {"name": name, "input_schema": {}}


def asked(path: str, *tools: str, choice: str | None = None) -> dict[str, Any]:
    """Return a request that offers these tools, and perhaps names one as its choice."""
    body: dict[str, Any] = {"model": "mock-1", "max_tokens": 50}
    body["input" if path == RESPONSES else "messages"] = [{"role": "user", "content": ASKED}]
    body["tools"] = [offered(path, name) for name in tools]
    if choice is not None:
        body["tool_choice"] = {"type": "tool", "name": choice} if path == MESSAGES else offered(path, choice)
    return body


def called(path: str, *tools: str) -> dict[str, Any]:
    """Return an answer that calls these tools."""
    if path == CHAT:
        calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": BOAT}} for name in tools]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        return {"model": "mock-1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    if path == RESPONSES:
        items = [{"type": "function_call", "call_id": name, "name": name, "arguments": BOAT} for name in tools]
        return {"id": "resp_1", "object": "response", "status": "completed", "model": "mock-1", "output": items}
    uses = [{"type": "tool_use", "id": name, "name": name, "input": json.loads(BOAT)} for name in tools]
    return {
        "type": "message", "id": "msg_1", "role": "assistant", "model": "mock-1", "content": uses,
        "stop_reason": "tool_use",
    }  # fmt: skip


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize(
    ("tools", "choice", "calls"),
    [
        (("Boat",), "Boat", ("Boat",)),
        (("look_up", "final_result"), None, ("final_result",)),
        (("look_up", "final_result_Boat", "final_result_Ferry"), None, ("final_result_Boat",)),
    ],
)
async def test_an_answer_in_the_form_of_a_tools_call_is_kept(
    tmp_path: Path, path: str, tools: tuple[str, ...], choice: str | None, calls: tuple[str, ...]
) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(body=called(path, *calls))
        await ann.say(asked(path, *tools, choice=choice), path=path)
        assert await ann.texts() == [("user", ASKED), ("ann", BOAT)]


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize(
    ("tools", "choice", "calls"),
    [
        (("look_up",), None, ("look_up",)),
        (("look_up", "sail"), "look_up", ("look_up",)),
        (("look_up", "final_result"), None, ("look_up", "final_result")),
    ],
)
async def test_any_other_call_of_a_tool_is_no_answer(
    tmp_path: Path, path: str, tools: tuple[str, ...], choice: str | None, calls: tuple[str, ...]
) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(body=called(path, *calls))
        await ann.say(asked(path, *tools, choice=choice), path=path)
        assert await ann.texts() == [("user", ASKED)]
