"""Answers in a provider's place: the question and frame of a call, and the answer in the provider's shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from circadia.gateway.codecs.frame import VolatileSpans
from circadia.llm.usage import Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class FramedCall:
    """A call as ready answers see it: its question and everything else that determines the answer."""

    digest: str
    """Hash of everything that determines the answer, except the conversation and declared volatile spans."""
    body: str
    """The call with the operator's messages only, not streamed; empty if it must not be asked ahead."""
    question: str = ""
    """The user's question; empty if the last message is not the user's or is not text."""
    plain: bool = False
    """Whether only this question followed the model's last message: text, no files and no tool results."""
    behind: int = 0
    """Number of items in the request's chain from the question on; 0 if only the operator spoke before."""
    servable: bool
    """Whether a ready answer may be served; otherwise it is only a hint."""
    why_not: str = ""
    """The reason in words; empty if `servable`."""

    def conversation(self, chain: Sequence[str]) -> str | None:
        """Return the hash (`Meter.answer_hashes`) of everything before the question; None if there is nothing."""
        return chain[-self.behind - 1] if 0 < self.behind < len(chain) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedAnswer:
    text: str
    reasoning: str = ""
    called: bool = False
    """Whether it is more than text: a tool call, work of a provider's tool, or a refusal."""
    cut: bool = False
    """Whether a limit, a stop sequence or a filter cut it off."""
    usage: Usage


class AnswerCodec(Protocol):
    """Reads and writes calls and answers of one endpoint. Pure functions; no input makes them raise."""

    def frame_call(self, body: bytes, volatile: VolatileSpans) -> FramedCall | None:
        """Return the question and frame of a call; None if it is not a call of this endpoint."""
        ...

    def build_question_body(self, frame_body: str, question: str) -> bytes:
        """Return a body that asks only `question` in the frame of a `FramedCall.body`."""
        ...

    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        """Parse an answer that is not streamed; None if it is not an answer."""
        ...

    def build_answer(self, text: str, *, id: str, model: str, at: datetime) -> bytes:
        """Return the answer as the provider would send it, with zero usage. `id` gets the provider's prefix."""
        ...

    def build_events(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return an answer as the provider's stream, with usage if `usage`; None if it is not an answer."""
        ...
