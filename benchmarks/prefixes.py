"""What a provider could cache of a conversation: how much of each request is the beginning of the next."""

import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from aiohttp import ClientSession, web

from benchmarks.requests import TEXT

PATH: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"
RECORDER: Final = "recorder"
"""The upstream's name; with `-messages` that of Anthropic's API."""
SYSTEM: Final = {"role": "system", "content": "You are one of a team. Answer in one line."}
STEPS: Final = 8
"""Calls of tools in each turn of an agent that works with them."""
TURNS: Final = 4
"""Turns of such an agent: their additions fit in what all turns may have together, whatever they are."""
_FENCE: Final = "<circadia-memory "
_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_PARAMETERS: Final = {"type": "object", "properties": {"command": {"type": "string"}}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How a client sends its conversation."""

    name: str
    path: str
    steps: int = STEPS


SHAPES: Final = (
    Shape(name="plain turns, chat", path=PATH, steps=0),
    Shape(name="tool loops, chat", path=PATH),
    Shape(name="tool loops as Codex has them, Responses", path=RESPONSES),
    Shape(name="tool loops as Claude Code has them, Messages", path=MESSAGES),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefixes:
    """Bytes of each request that the next one begins with, as a provider reads them, and bytes of the requests."""

    without: Sequence[int]
    requests_without: Sequence[int]
    with_: Sequence[int]
    requests_with: Sequence[int]
    steps: Sequence[bool]
    """Whether the next request has less of what was added: all turns had more than they may have together."""

    @property
    def lacking(self) -> int:
        """By how much the worst prefix is shorter than without Circadia plus what was added, but for those steps."""
        rows = zip(self.without, self.requests_without, self.with_, self.requests_with, self.steps, strict=False)
        return max(a + (longer - shorter) - b for a, shorter, b, longer, is_step in rows if not is_step)

    @property
    def breaks(self) -> int:
        return sum(self.steps)


@contextlib.asynccontextmanager
async def recorder() -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Run an upstream that keeps what comes; yield its port and the bodies.

    The model calls a tool while its answer to the newest question lacks steps, whose number is in the question's model.
    """
    heard: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(await request.read())
        body = json.loads(heard[-1])
        works = len(_results(body)) < int(body["model"].rpartition("-")[2])
        return web.json_response(_answer(request.path, len(heard), works=works))

    application = web.Application(client_max_size=2**26)
    for path in (PATH, RESPONSES, MESSAGES):
        application.router.add_post(path, answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1], heard
    finally:
        await runner.cleanup()


async def prefixes(
    port: int, tokens: tuple[str, str], shape: Shape, questions: Sequence[str], heard: list[bytes]
) -> Prefixes:
    """Hold the same conversation as an agent without and as one with memory, the whole of it in each request."""
    took: list[list[bytes]] = []
    for token in tokens:
        heard.clear()
        await _converse(port, token, shape, questions)
        took.append(list(map(_as_read, heard)))
    without, with_ = took
    return Prefixes(
        without=_shared(without),
        requests_without=[len(each) for each in without],
        with_=_shared(with_),
        requests_with=[len(each) for each in with_],
        steps=[after.count(_FENCE.encode()) < before.count(_FENCE.encode()) for before, after in pairwise(with_)],
    )


def _answer(path: str, number: int, *, works: bool) -> dict[str, Any]:
    none: list[object] = []
    key, text, command = f"call_{number}", f"{TEXT}({number})", json.dumps({"command": f"sed -n {number}p notes"})
    if path == PATH:
        function = {"id": key, "type": "function", "function": {"name": "shell", "arguments": command}}
        said = {"content": None, "tool_calls": [function]} if works else {"content": text}
        message, finish = {"role": "assistant", **said}, "tool_calls" if works else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choices = [{"index": 0, "message": message, "finish_reason": finish}]
        return {
            "id": key, "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage
        }  # fmt: skip
    if path == RESPONSES:
        call = {"type": "function_call", "id": f"fc_{key}", "call_id": key, "name": "shell", "arguments": command}
        content = [{"type": "output_text", "text": text, "annotations": none}]
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": none, "encrypted_content": key * 20}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        output = [thought, call if works else message]
        return {"id": f"resp_{number}", "object": "response", "status": "completed", "output": output, "usage": usage}
    use = {"type": "tool_use", "id": key, "name": "Bash", "input": json.loads(command)}
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m",
        "content": [use if works else {"type": "text", "text": text}],
        "stop_reason": "tool_use" if works else "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def _results(body: dict[str, Any]) -> list[Any]:
    """Return the results of tools since the newest question."""
    found: list[Any] = []
    for item in reversed(body["input"] if "input" in body else body["messages"]):
        is_result = item.get("role") == "tool" or item.get("type") == "function_call_output"
        is_result |= '"tool_result"' in json.dumps(item.get("content"))
        if is_result:
            found.append(item)
        elif item.get("role") == "user":
            break
    return found


async def _converse(port: int, token: str, shape: Shape, questions: Sequence[str]) -> None:
    items: list[dict[str, Any]] = []
    if shape.path == RESPONSES:
        texts = [
            ("developer", "<permissions instructions>Ask."),
            ("user", "<environment_context>x</environment_context>"),
        ]
        items += [{"type": "message", "role": role, "content": [_part(text, "input_text")]} for role, text in texts]
    async with ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        for place, question in enumerate(questions):
            items.append(_question(shape, question, place))
            answered = False
            while not answered:
                upstream = f"{RECORDER}-messages" if shape.path == MESSAGES else RECORDER
                address = f"http://127.0.0.1:{port}/llm/{upstream}{shape.path}"
                async with http.post(address, json=_request(shape, items)) as response:
                    answer = await response.json()
                new = _items(shape, answer, len(items))
                items += new
                answered = new[-1].get("role") == "assistant"


def _question(shape: Shape, text: str, place: int) -> dict[str, Any]:
    if shape.path == PATH:
        return {"role": "user", "content": text}
    if shape.path == RESPONSES:
        return {"type": "message", "role": "user", "content": [_part(text, "input_text")]}
    reminder = f"<system-reminder>Turn {place}: the list of tasks is empty.</system-reminder>"
    return {"role": "user", "content": [_part(reminder), _part(text)] if place % 2 else text}


def _part(text: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": text}


def _request(shape: Shape, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a request in the members' order of the client."""
    model, system = f"gpt-4o-mini-{shape.steps}", SYSTEM["content"]
    if shape.path == PATH:
        return {"model": model, "messages": [SYSTEM, *items]}
    if shape.path == RESPONSES:
        tool = {"type": "function", "name": "shell", "parameters": _PARAMETERS, "strict": False}
        return {
            "model": model, "instructions": system, "input": items, "tools": [tool], "tool_choice": "auto",
            "parallel_tool_calls": False, "store": False, "include": ["reasoning.encrypted_content"],
        }  # fmt: skip
    *older, newest = items
    content = [_part(newest["content"])] if isinstance(newest["content"], str) else newest["content"]
    marked = {**newest, "content": [*content[:-1], {**content[-1], **_MARK}]}
    return {
        "model": model, "messages": [*older, marked], "system": [{**_part(system), **_MARK}],
        "tools": [{"name": "Bash", "input_schema": _PARAMETERS}], "max_tokens": 32_000,
    }  # fmt: skip


def _items(shape: Shape, answer: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return what the client adds for an answer: its items, and the result of the tool that it calls."""
    result = f"{number}: {TEXT * 4}"
    if shape.path == PATH:
        message = answer["choices"][0]["message"]
        calls = message.get("tool_calls", ())
        return [message, *({"role": "tool", "tool_call_id": call["id"], "content": result} for call in calls)]
    if shape.path == RESPONSES:
        calls = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
        results = ({"type": "function_call_output", "call_id": key, "output": result} for key in calls)
        return [*answer["output"], *results]
    said = {"role": "assistant", "content": answer["content"]}
    results = [
        {"type": "tool_result", "tool_use_id": part["id"], "content": result}
        for part in answer["content"]
        if part["type"] == "tool_use"
    ]
    return [said, *([{"role": "user", "content": results}] if results else [])]


def _as_read(body: bytes) -> bytes:
    """Return a request in the order in which a provider reads it, without marks for its cache."""
    request = json.loads(body)
    items = request["input"] if "input" in request else request["messages"]
    parts = [request.get("tools"), request.get("system"), request.get("instructions"), *map(_read_item, items)]
    return "\n".join(json.dumps(part).replace(f", {json.dumps(_MARK)[1:-1]}", "") for part in parts).encode()


def _read_item(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    is_string = isinstance(content, str) and item["role"] in ("user", "assistant")
    return {**item, "content": [_part(content)]} if is_string and content is not None else item


def _shared(bodies: Sequence[bytes]) -> list[int]:
    """Return how many bytes each body but the last has in common with the beginning of the next."""
    return [
        next((at for at, (a, b) in enumerate(zip(*pair, strict=False)) if a != b), min(map(len, pair)))
        for pair in pairwise(bodies)
    ]
