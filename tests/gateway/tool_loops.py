"""A client that works with tools and sends its whole history with each call, and what its provider gets."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, BoundAgentServer, chat
from tests.interaction.live import ADMIN

FACTS = (
    "Grandma grows tea near the town of Porto",
    "My boat is called Nora and lies in Riga",
    "The piano of my aunt is from Leipzig",
)
QUESTIONS = ("Who grows tea near Porto?", "Where does my boat Nora lie?", "Whence is the piano of my aunt?")
STEPS = 8
"""Tool calls of each turn."""


class Conversation:
    """A client that sends its whole history with each call, in the shape of an API."""

    def __init__(self, ann: BoundAgentServer, path: str) -> None:
        self.ann = ann
        self.path = path
        self.items: list[dict[str, Any]] = []
        self.marks = False
        """Whether it marks its newest message for the cache, and sends older ones of one text as strings."""
        self.number = 0
        """Of calls so far."""
        self.headers: Mapping[str, str] = {}

    @property
    def body(self) -> dict[str, Any]:
        if self.path == RESPONSES:
            return {"model": "m", "instructions": "Be brief.", "input": self.items, "store": False}
        if self.path == MESSAGES:
            items = self._marked() if self.marks else self.items
            return {"model": "m", "max_tokens": 99, "system": "Be brief.", "messages": items}
        return {"model": "m", "messages": [{"role": "system", "content": "Be brief."}, *self.items]}

    def _marked(self) -> list[dict[str, Any]]:
        *older, newest = self.items
        *parts, last = newest["content"]
        strings = [
            {**item, "content": item["content"][0]["text"]}
            if [part["type"] for part in item["content"]] == ["text"]
            else item
            for item in older
        ]
        return [*strings, {**newest, "content": [*parts, {**last, "cache_control": {"type": "ephemeral"}}]}]

    def ask(self, text: str) -> None:
        content: Any = [{"type": "input_text", "text": text}] if self.path == RESPONSES else text
        if self.path == MESSAGES:
            content = [{"type": "text", "text": text}]
        self.items.append({"role": "user", "content": content})

    async def work(self, result: str) -> None:
        """Let the model call a tool, and give it the result."""
        self.number += 1
        key, arguments = f"call_{self.number}", '{"step":' + str(self.number) + "}"
        if self.path == CHAT:
            function = {"name": "look", "arguments": arguments}
            said = {"role": "assistant", "content": None, "tool_calls": [
                {"id": key, "type": "function", "function": function}
            ]}  # fmt: skip
            await self._call({"choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]})
            self.items += [said, {"role": "tool", "tool_call_id": key, "content": result}]
        elif self.path == RESPONSES:
            call = {"type": "function_call", "id": f"fc_{key}", "call_id": key, "name": "look", "arguments": arguments}
            await self._call({"id": f"resp_{key}", "object": "response", "status": "completed", "output": [call]})
            self.items += [call, {"type": "function_call_output", "call_id": key, "output": result}]
        else:
            use: dict[str, Any] = {"type": "tool_use", "id": key, "name": "look", "input": {"step": self.number}}
            said = {"role": "assistant", "content": [use]}
            await self._call({"id": key, "type": "message", **said, "stop_reason": "tool_use"})
            back: dict[str, Any] = {"type": "tool_result", "tool_use_id": key, "content": result}
            self.items += [said, {"role": "user", "content": [back]}]

    async def end(self, text: str) -> None:
        """Let the model give its answer."""
        if self.path == CHAT:
            said: dict[str, Any] = {"role": "assistant", "content": text}
            await self._call({"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]})
        elif self.path == RESPONSES:
            content: Any = [{"type": "output_text", "text": text, "annotations": []}]
            said = {"type": "message", "id": f"msg_{len(self.items)}", "role": "assistant", "content": content}
            await self._call(
                {"id": f"r_{len(self.items)}", "object": "response", "status": "completed", "output": [said]}
            )
        else:
            said = {"role": "assistant", "content": [{"type": "text", "text": text}]}
            await self._call({"id": f"m_{len(self.items)}", "type": "message", **said, "stop_reason": "end_turn"})
        self.items.append(said)

    async def turn(self, text: str, steps: int = STEPS) -> None:
        self.ask(text)
        for step in range(steps):
            await self.work(f"nothing to be seen at {step}")
        await self.end(f"That is {text}")

    async def _call(self, answer: dict[str, Any]) -> None:
        self.ann.at.upstream.next(body=answer)
        await self.ann.say(self.body, path=self.path, headers=self.headers)


def listed(body: dict[str, Any]) -> list[Any]:
    """Return the items of a request as they came upstream, the system side first."""
    return [body.get("system"), body.get("instructions"), *(body["input"] if "input" in body else body["messages"])]


def sent(ann: BoundAgentServer) -> list[list[Any]]:
    return [listed(seen.json()) for seen in ann.at.upstream.requests]


def assert_prefixes(calls: Sequence[list[Any]]) -> None:
    """Assert that each call begins as the whole one before it."""
    for before, after in pairwise(calls):
        assert after[: len(before)] == before


async def learn(ann: BoundAgentServer) -> None:
    await ann.make(block="Ann likes tea.")
    for fact in FACTS:
        ann.at.upstream.next(text="I see.")
        await ann.say(chat(fact))
    ann.at.upstream.requests.clear()


async def breaks(ann: BoundAgentServer) -> dict[str, tuple[int, int]]:
    """Return how often the prefix broke and by how many bytes, by reason."""
    async with ann.at.http.get(f"{ann.at.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as response:
        lines = (await response.text()).splitlines()
    name, found = "circadia_prefix_break_bytes", dict[str, tuple[int, int]]()
    for line in lines:
        if line.startswith((f"{name}_count{{", f"{name}_sum{{")):
            reason, number = line.split('"')[1], int(float(line.split()[-1]))
            found[reason] = (found[reason][0], number) if line.startswith(f"{name}_sum") else (number, 0)
    return found
