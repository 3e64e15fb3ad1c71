"""The interface to a judge, which decides whether two different texts ask the same (ANS-02)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from circadia.records.agent import Agent


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeVerdict:
    same: bool
    confidence: float | None = None
    """From 0 to 1, if the judge states one."""


class Judge(Protocol):
    """Decides whether questions ask the same.

    An implementation answers for all candidates in one call, never raises for a question that it cannot judge, and does
    not block the event loop.
    """

    name: str
    """Names the model, its settings and the version of its prompt: verdicts of another one are not used."""
    waits: bool
    """Whether a call is slow or costs money, so that few calls may wait for it."""

    async def judge(self, agent: Agent, asked: str, candidates: Sequence[str]) -> Sequence[JudgeVerdict] | None:
        """Return a verdict per candidate, in order, or none. Raises TimeoutError: the judge took too long."""
        ...
