"""Who decides whether two questions ask the same, where they are not the same text (ANS-02)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from circadia.records.agent import Agent


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeVerdict:
    """What a judge says about one candidate."""

    same: bool
    confidence: float | None = None
    """From 0 to 1, if the judge tells one."""


class Judge(Protocol):
    """Tells whether questions ask the same.

    An implementation answers all candidates in one call, never raises for a question that it cannot judge, and leaves
    the event loop free while it works.
    """

    waits: bool
    """Whether it takes long or costs something, so that few calls may wait for it."""

    async def judge(self, agent: Agent, asked: str, candidates: Sequence[str]) -> Sequence[JudgeVerdict] | None:
        """Return a verdict for each candidate, in order; none if nobody could tell.

        Raises:
            TimeoutError: it took too long.
        """
        ...
