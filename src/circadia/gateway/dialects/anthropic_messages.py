"""Anthropic's messages, and the counting of their tokens."""

from collections.abc import Sequence
from typing import cast

from circadia.errors import InvalidRequest
from circadia.gateway.dialects import chain, errors, fields
from circadia.gateway.dialects.base import Meter, ModelRequest, Usage
from circadia.gateway.dialects.meters import MAX_TEXT_CHARS, BufferedMeter, StreamedMeter
from circadia.gateway.dialects.turn import add_line, ends_in_user
from circadia.gateway.dialects.usage import messages_usage


class Messages:
    """`POST …/messages`."""

    endpoint = "messages"

    def read(self, body: bytes) -> ModelRequest:
        """Return what the body says."""
        request = fields.load(body)
        messages = fields.objects(request, "messages")
        container = _container(request)
        return ModelRequest(
            model=fields.text(request, "model"),
            streamed=fields.flag(request, "stream"),
            input_estimate=fields.input_estimate(body),
            output_limit=fields.count(request, "max_tokens"),
            turn=_is_turn(messages),
            end_user=_end_user(request),
            foreign_ids=(container,) if container else (),
            chain=chain.steps(_seed(request), map(_normal, messages)),
        )

    def error(self, status: int, code: str, message: str) -> bytes:
        """Return Anthropic's error body."""
        return errors.anthropic_error(status, code, message)

    def error_event(self, status: int, code: str, message: str) -> bytes:
        """Return the event that the SDKs raise as an APIError."""
        return errors.anthropic_error_event(status, code, message)

    def with_line(self, body: bytes, line: str) -> bytes:
        """Return the body with `line` at the end of the last user message, after tool results and cache marks."""
        return add_line(body, "messages", "text", line)

    def with_usage(self, body: bytes) -> bytes | None:
        """Return none: Anthropic's streams tell their usage unasked."""
        return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str]) -> Meter:
        """Return a watcher for the answer; there is never an event to take out."""
        return StreamedMessage(chain) if streamed else BufferedMessage(chain)


class CountTokens(Messages):
    """`POST …/messages/count_tokens`: the same request, which generates nothing."""

    endpoint = "count_tokens"

    def read(self, body: bytes) -> ModelRequest:
        """Return what the body says; it writes nothing and is no turn."""
        request = fields.load(body)
        fields.objects(request, "messages")
        return ModelRequest(
            model=fields.text(request, "model"),
            input_estimate=fields.input_estimate(body),
            output_limit=0,
            end_user=_end_user(request),
        )

    def with_line(self, body: bytes, line: str) -> bytes:
        """Return the body: what is counted is what was sent."""
        return body

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str]) -> Meter:
        """Return a watcher that finds no usage: counting uses no tokens."""
        return CountedTokens(())


class CountedTokens(BufferedMeter):
    """Reads an answer of `count_tokens`."""

    def answer(self, answer: dict[str, object]) -> None:
        """Note that it is whole."""
        self.complete = "input_tokens" in answer


class BufferedMessage(BufferedMeter):
    """Reads a message."""

    def answer(self, answer: dict[str, object]) -> None:
        """Take model, usage, container and the message's hash."""
        self.model = fields.as_text(answer.get("model"))
        self.usage = messages_usage(answer.get("usage")) or Usage()
        self.complete = answer.get("type") == "message"
        self.ids.extend(_container_id(answer.get("container")))
        if self.complete:
            self._continue_chain(("assistant", chain.content(answer.get("content"))))


class StreamedMessage(StreamedMeter):
    """Reads the events of a streamed message."""

    def __init__(self, hashes: Sequence[str]) -> None:
        super().__init__(hashes)
        self._counts: dict[str, object] = {}
        self._blocks: dict[object, dict[str, object]] = {}
        self._pieces: dict[object, list[str]] = {}
        self._chars_left = MAX_TEXT_CHARS if hashes else -1

    def frame(self, frame: dict[str, object]) -> bool:
        """Take what an event adds; none is ever taken out."""
        match frame.get("type"):
            case "content_block_delta":
                self._delta(frame)
            case "content_block_start":
                if self._chars_left >= 0:
                    index = fields.as_count(frame.get("index"))
                    self._blocks[index] = dict(fields.as_object(frame.get("content_block")))
            case "message_start":
                message = fields.as_object(frame.get("message"))
                self.model = fields.as_text(message.get("model"))
                self._count(message.get("usage"))
                self._own(message.get("container"))
            case "message_delta":
                self._count(frame.get("usage"))
                self._own(fields.as_object(frame.get("delta")).get("container"))
            case "message_stop":
                self.complete = True
            case "error":
                self.complete = False
                self._chars_left = -1
            case _:
                pass
        return False

    def finish(self) -> None:
        """Hash what the message said."""
        if self._chars_left < 0 or not self.complete:
            return
        content: list[object] = []
        for index, block in self._blocks.items():
            piece = "".join(self._pieces.get(index, ()))
            if block.get("type") == "text":
                block["text"] = f"{fields.as_text(block.get('text')) or ''}{piece}"
            elif piece:
                block["input"] = chain.arguments(piece)
            content.append(block)
        self._continue_chain(("assistant", chain.content(content)))

    def _delta(self, frame: dict[str, object]) -> None:
        if self._chars_left < 0:
            return
        delta = fields.as_object(frame.get("delta"))
        piece = delta.get("text") or delta.get("partial_json")
        if isinstance(piece, str):
            self._pieces.setdefault(fields.as_count(frame.get("index")), []).append(piece)
            self._chars_left -= len(piece) + 1
            if self._chars_left < 0:
                self._blocks.clear()
                self._pieces.clear()

    def _count(self, usage: object) -> None:
        """Lay new counts over earlier ones: those of `message_delta` are totals, and those it omits still hold."""
        told = {key: value for key, value in fields.as_object(usage).items() if value is not None}
        if told:
            self._counts |= told
            self.usage = messages_usage(self._counts) or Usage()

    def _own(self, container: object) -> None:
        self.ids.extend(name for name in _container_id(container) if name not in self.ids)


def _seed(request: dict[str, object]) -> str:
    system = request.get("system")
    return "" if system is None else chain.step("", ("system", chain.content(system)))


def _normal(message: dict[str, object]) -> object:
    role = message.get("role")
    if not isinstance(role, str):
        raise InvalidRequest(f"a message's `role` is {fields.kind(role)}; send a string")
    return (role, chain.content(message.get("content")))


def _is_turn(messages: list[dict[str, object]]) -> bool:
    """Return whether the last message is the user's and says more than results of tools."""
    if not ends_in_user(messages):
        return False
    said = [message.get("content") for message in messages if message.get("role") == "user"]
    parts = fields.as_list(said[-1]) if said else []
    return not parts or any(fields.as_object(part).get("type") != "tool_result" for part in parts)


def _end_user(request: dict[str, object]) -> str | None:
    metadata = request.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise InvalidRequest(f"`metadata` is {fields.kind(metadata)}; send an object")
    return fields.text(cast("dict[str, object]", metadata), "user_id")


def _container(request: dict[str, object]) -> str | None:
    container = request.get("container")
    if isinstance(container, dict):
        return fields.text(cast("dict[str, object]", container), "id")
    return fields.text(request, "container")


def _container_id(container: object) -> tuple[str, ...]:
    name = fields.as_text(fields.as_object(container).get("id"))
    return (name,) if name else ()
