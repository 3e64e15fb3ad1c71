"""Asks, while the caller waits, whether two questions ask for the same: a model, or an encoder here (ANS-02)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from pydantic import BaseModel

from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.gateway.journal import Journal
from circadia.ids import AgentId, CallId, IdSource
from circadia.llm.mind import Mind, Unusable
from circadia.llm.usage import Usage
from circadia.records.agent import Agent
from circadia.records.call import Call, CallStatus
from circadia.sleeptime.ask import ENDPOINT
from circadia.sleeptime.prompts import fixed

_logger = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 2.0
"""How long a caller waits for it; then the answer is shown as a hint."""
MOST_TOKENS: Final = 200
"""Of the model's answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a check says of two questions."""

    same: bool
    """Whether they ask for the same."""
    confidence: float | None = None
    """How sure it is that they do, 0 to 1; none if nobody could tell."""


class Check(Protocol):
    """Tells whether two questions ask for the same."""

    async def same(self, agent: Agent, asked: str, known: str) -> bool:
        """Return whether they do; not, if nobody can tell within `TIMEOUT_SECONDS`. It never raises an error."""
        ...

    async def tried(self, agent: Agent, asked: str, known: str) -> Verdict | None:
        """Return what `same` would come to; none if a model would have to be asked, which is not done."""
        ...


class Look(Protocol):
    """Tells by itself how sure it is that two questions ask for the same; `SecondLook` does."""

    def confidence(self, asked: str, known: str) -> float:
        """Return it, 0 to 1. It takes some hundredths of a second, and runs in a thread."""
        ...


class LocalCheck:
    """Looks a second time, in a thread of the server. It costs no tokens, so it is no line of the ledger."""

    def __init__(self, load: Callable[[], Awaitable[Look]], bar: float) -> None:
        """`load` is awaited at the first check; what is surer than `bar` is the same."""
        self._load = load
        self._bar = bar
        self._loading: asyncio.Future[Look] | None = None
        self._turn = asyncio.Lock()
        """One looks at a time: a look takes a core, which calls need too."""

    async def same(self, agent: Agent, asked: str, known: str) -> bool:
        """Return whether they do."""
        return (await self.tried(agent, asked, known)).same

    async def tried(self, agent: Agent, asked: str, known: str) -> Verdict:
        """Return what it says, which costs nothing but time."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS), self._turn:
                if self._loading is None or (self._loading.done() and self._loading.exception()):
                    self._loading = asyncio.ensure_future(self._load())
                look = await asyncio.shield(self._loading)
                confidence = await asyncio.to_thread(look.confidence, asked, known)
                return Verdict(same=confidence >= self._bar, confidence=confidence)
        except (CircadiaError, TimeoutError) as error:
            _logger.warning("a ready answer for %r is not checked: %s", agent.reference, str(error) or "too slow")
        except Exception:  # the boundary of a check: the call goes upstream, with a hint
            _logger.exception("a ready answer for %r is not checked", agent.reference)
        return Verdict(same=False)


class Same(BaseModel):
    """What the model says."""

    same: bool


class NoCheck:
    """Stands where a check is wanted and there is no model: nobody can tell."""

    async def same(self, agent: Agent, asked: str, known: str) -> bool:
        """Return that they do not."""
        return False

    async def tried(self, agent: Agent, asked: str, known: str) -> Verdict:
        """Return that they do not."""
        return Verdict(same=False)


class MindCheck:
    """Asks the tier's model. Each asking is a line of the usage ledger, as those of passes are."""

    def __init__(self, clock: Clock, ids: IdSource, journal: Journal, mind: Mind) -> None:
        self._clock = clock
        self._ids = ids
        self._journal = journal
        self._mind = mind

    async def same(self, agent: Agent, asked: str, known: str) -> bool:
        """Return whether they do."""
        line = Call(
            id=CallId(self._ids.new("call")), at=self._clock.now(), agent_id=AgentId(""), session="",
            agent=agent.policy.bank or "", tier="sleep", upstream=self._mind.upstream,
            endpoint=ENDPOINT, model=self._mind.name,
            status=CallStatus.FAILED,
        )  # fmt: skip
        began, used, same = self._clock.monotonic(), None, False
        prompt = fixed("same_question", f"first: {asked}\nsecond: {known}")
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                told, used = await self._mind.ask(prompt, Same, most_tokens=MOST_TOKENS)
            line, same = replace(line, status=CallStatus.DONE), told.same
        except Unusable as error:
            used = error.used
            _logger.warning("a ready answer for %r is not checked: %s", agent.reference, error.cause)
        except (CircadiaError, TimeoutError) as error:
            _logger.warning("a ready answer for %r is not checked: %s", agent.reference, str(error) or "too slow")
        except Exception:  # the boundary of a check: the call goes upstream, with a hint
            _logger.exception("a ready answer for %r is not checked", agent.reference)
        finally:  # who hangs up has been asked for all the same
            self._journal.put(self._ended(line, used, self._clock.monotonic() - began))
        return same

    async def tried(self, agent: Agent, asked: str, known: str) -> None:
        """Return nothing: the model is not asked."""

    def _ended(self, line: Call, used: Usage | None, seconds: float) -> Call:
        if used is None:
            return replace(line, total_seconds=seconds)
        return replace(
            line, total_seconds=seconds, input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens, reasoning_tokens=used.reasoning_tokens,
            cost_nanousd=self._mind.price(used),
        )  # fmt: skip
