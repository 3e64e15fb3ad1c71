"""A mock provider that also speaks Google's API and calls free-form tools, as recorded programs use them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from circadia.testing.upstream import MockUpstream
from circadia.testing.upstream_script import (
    RecordedRequest,
    ResponseScript,
    ScriptedResponse,
    ScriptedToolCall,
    build_event_answer,
    build_json_answer,
    encode_event,
)

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class FreeFormToolCall:
    """The model's answer is a call of a tool that takes text."""

    name: str
    text: str


Answer = str | ScriptedToolCall | FreeFormToolCall


class ShapeProvider(MockUpstream):
    """Answers each call as `choose` says; the ids of its answers count the calls from 1."""

    def __init__(self, choose: Callable[[RecordedRequest], Answer], *, key: str | None = None) -> None:
        super().__init__(key=key)
        self._choose = choose
        self.answers: list[tuple[RecordedRequest, Answer]] = []

    def _answer(self, seen: RecordedRequest, script: ResponseScript) -> ScriptedResponse:
        if seen.method != "POST":
            return super()._answer(seen, script)
        answer = self._choose(seen)
        self.answers.append((seen, answer))
        seen = replace(seen, number=len(self.answers))
        if "enerateContent" in seen.path:
            return _answer_contents(seen, answer)
        if isinstance(answer, FreeFormToolCall):
            return _answer_free_form(seen, answer)
        return super()._answer(seen, script)

    def _compose_reply(self, asked: Json, script: ResponseScript) -> str | ScriptedToolCall:
        answer = self.answers[-1][1] if self.answers else ""
        return answer if isinstance(answer, str | ScriptedToolCall) else ""


def _answer_contents(seen: RecordedRequest, answer: Answer) -> ScriptedResponse:
    call = (
        {"functionCall": {"name": answer.name, "args": answer.arguments}} if isinstance(answer, ScriptedToolCall) else 0
    )
    content = {"role": "model", "parts": [call or {"text": str(answer)}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    document: Json = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage, "modelVersion": "gemini", "responseId": f"r{seen.number}",
    }  # fmt: skip
    return build_event_answer([encode_event(document)]) if "stream" in seen.path else build_json_answer(document)


def _answer_free_form(seen: RecordedRequest, answer: FreeFormToolCall) -> ScriptedResponse:
    item: Json = {
        "id": f"ctc_mock{seen.number}", "type": "custom_tool_call", "status": "completed",
        "call_id": f"call_mock{seen.number}", "name": answer.name, "input": answer.text,
    }  # fmt: skip
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    response: Json = {
        "id": f"resp_mock{seen.number}", "object": "response", "status": "completed", "store": False,
        "output": [item], "usage": usage,
    }  # fmt: skip
    events: list[tuple[str, Json]] = [
        ("response.created", {"response": {**response, "status": "in_progress", "output": [], "usage": None}}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": response}),
    ]
    return build_event_answer([encode_event({"type": name, **fields}, name) for name, fields in events])


def to_document(answer: Answer) -> Json:
    if isinstance(answer, str):
        return {"text": answer}
    if isinstance(answer, ScriptedToolCall):
        return {"tool": answer.name, "arguments": answer.arguments}
    return {"tool": answer.name, "input": answer.text}


def to_answer(document: Json) -> Answer:
    if "text" in document:
        return document["text"]
    if "input" in document:
        return FreeFormToolCall(name=document["tool"], text=document["input"])
    return ScriptedToolCall(name=document["tool"], arguments=json.loads(json.dumps(document["arguments"])))
