"""Answering in a provider's place: what a call asks and in which frame, and the answer in the provider's shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from circadia.gateway.codecs.frame import VolatileSpans
from circadia.llm.usage import Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class FramedCall:
    """A call as ready answers see it: what it asks, and all else that an answer depends on."""

    digest: str
    """Of all that its answer depends on beside what was said in it, but for what is declared volatile."""
    body: str
    """The same call with the operator's messages only, not streamed; empty if it must not be asked ahead."""
    question: str = ""
    """What the user asks; empty if the last word is not the user's, or is not text."""
    plain: bool = False
    """Whether that is all that was said since the model last spoke: text, no files and no results of tools."""
    behind: int = 0
    """How many items of the request's chain stand from the question on; 0 if only the operator spoke before."""
    servable: bool
    """Whether a ready answer may be the answer; else it is a hint at most."""
    why_not: str = ""
    """Why it may not, in words; empty if it may."""

    def conversation(self, chain: Sequence[str]) -> str | None:
        """Return what stands for all that was said before the question, given the chain of the same request.

        It is the hash by which the answer before it was kept (`Meter.answer_hashes`). None if nothing was said.
        """
        return chain[-self.behind - 1] if 0 < self.behind < len(chain) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedAnswer:
    """What a provider's whole answer says."""

    text: str
    """Its words."""
    reasoning: str = ""
    """What the model told of how it came to it."""
    called: bool = False
    """Whether it is more than words: a call of a tool, the work of a tool of the provider's, or a refusal."""
    cut: bool = False
    """Whether it ends where a limit, a stop sequence or a filter cut it off."""
    usage: Usage
    """What it took."""


class AnswerCodec(Protocol):
    """One endpoint's way to be asked ahead and to be answered for. Pure functions; no input makes them raise."""

    def frame_call(self, body: bytes, volatile: VolatileSpans) -> FramedCall | None:
        """Return what the body of a call asks, and in which frame; none if it is no call of this endpoint."""
        ...

    def build_question_body(self, frame_body: str, question: str) -> bytes:
        """Return the body that asks `question`, and nothing else, in the frame of a `Framed.body`."""
        ...

    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        """Return what an answer that is not streamed says; none if it is none."""
        ...

    def build_answer(self, text: str, *, id: str, model: str, at: datetime) -> bytes:
        """Return the answer as the provider would send it, with no tokens used. `id` gets the provider's prefix."""
        ...

    def build_events(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return a whole answer as the provider's stream; none if it is none.

        `usage` says whether the call asked for usage in the stream.
        """
        ...
