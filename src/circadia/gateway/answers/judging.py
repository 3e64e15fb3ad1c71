"""Judges of ready answers during a call: the sleep tier's model, and the limits of any judge (ANS-13)."""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Final, Protocol

from pydantic import BaseModel, Field

from circadia.answers.question_text import normalize
from circadia.answers.services import Match
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.gateway.accounting.journal import Journal
from circadia.ids import AgentId, CallId, IdSource
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.llm.usage import Usage
from circadia.memory.banks import may_keep_question
from circadia.memory.redaction import redact
from circadia.records.agent import Agent
from circadia.records.answer import SameQuestionVerdict
from circadia.records.bank import Bank
from circadia.records.call import Call, CallStatus
from circadia.records.schedule import load_zone
from circadia.sleeptime.budget.model_calls import ENDPOINT
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals.prompts import build_file_prompt, prompt_version
from circadia.stores.base import Store, Tx

_logger = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 2.0
"""Maximum wait of a call for a judge (ANS-13); after that the answer is shown as a hint."""
MAX_OUTPUT_TOKENS: Final = 200
_BUDGET_ID: Final = AgentId("answer-check")
"""Agent id of the judge's calls, of all servers, in the ledger."""
_BUDGET_WINDOW: Final = timedelta(hours=1)
_BREAKER_TIMEOUTS: Final = 3
_BREAKER_SECONDS: Final = 60.0
_RECENT_LOOKUPS: Final = 100
_MAX_WAITS: Final = 10
"""Maximum waits among an agent's recent lookups: one in ten (ANS-13)."""
_CACHED_VERDICTS: Final = 20_000
"""About 400 bytes each."""
_PROMPT: Final = "same_question"
_KEPT_AGENTS: Final = 2_000
_NO_SECONDS: Final = 3600.0
"""Validity of a negative verdict (ANS-13)."""


class SameQuestions(BaseModel):
    same: list[int] = Field(description="Numbers of the questions that ask the same.", max_length=20)


class Judge(Protocol):
    """Decides whether questions ask the same.

    An implementation answers for all candidates in one call, never raises for a question that it cannot judge, and does
    not block the event loop.
    """

    name: str
    """Names the model, its settings and the version of its prompt: verdicts of another one are not used."""

    async def judge(self, agent: Agent, bank: Bank, asked: str, candidates: Sequence[str]) -> Sequence[bool] | None:
        """Return whether each candidate asks the same, in order, or none. Raises TimeoutError: it took too long."""
        ...


class ModelJudge:
    """Asks the sleep tier's model. Each call is first reserved in the ledger, in one budget for all servers."""

    def __init__(
        self, clock: Clock, ids: IdSource, store: Store, journal: Journal, model: ChatModel, *, calls_per_hour: int
    ) -> None:
        self.name = f"{model.upstream} {model.name}, {_PROMPT} {prompt_version(_PROMPT)}"
        self._clock = clock
        self._ids = ids
        self._store = store
        self._journal = journal
        self._model = model
        self._calls_per_hour = calls_per_hour

    async def judge(self, agent: Agent, bank: Bank, asked: str, candidates: Sequence[str]) -> Sequence[bool] | None:
        """Return whether each candidate asks the same; None if the budget is spent or the model did not answer."""
        began, call = self._clock.monotonic(), await self._reserve(agent)
        if call is None:
            return None
        today = self._clock.now().astimezone(load_zone(agent.coordination.zone)).date()
        prompt = judge_prompt(asked, candidates, today, mission=bank.policy.mission)
        used: Usage | None = None
        try:
            room = MAX_OUTPUT_TOKENS + self._model.thinking_tokens
            answer, used = await self._model.ask(prompt, SameQuestions, most_tokens=room)
            call = replace(call, status=CallStatus.DONE)
            return [number in answer.same for number in range(1, len(candidates) + 1)]
        except ModelAnswerError as error:
            used = error.used
            _logger.warning("a ready answer for %r is not checked: %s", agent.reference, error.cause)
            return None
        finally:  # an abandoned call must be paid for all the same
            self._journal.put(self._settle(call, used, self._clock.monotonic() - began))

    async def _reserve(self, agent: Agent) -> Call | None:
        """Record the call in the ledger; None if the hour's budget is spent."""
        now = self._clock.now()
        call = Call(
            id=CallId(self._ids.new("call")), at=now, agent_id=_BUDGET_ID, session="", agent=agent.policy.bank or "",
            tier="sleep", upstream=self._model.upstream, endpoint=ENDPOINT, model=self._model.name,
            status=CallStatus.RESERVED,
        )  # fmt: skip
        async with self._store.begin_write() as tx:
            if await tx.calls.count_since(_BUDGET_ID, now - _BUDGET_WINDOW) >= self._calls_per_hour:
                return None
            await tx.calls.add([call])
        return call

    def _settle(self, call: Call, used: Usage | None, seconds: float) -> Call:
        status = CallStatus.FAILED if call.status is CallStatus.RESERVED else call.status
        ended = replace(call, status=status, total_seconds=seconds)
        if used is None:
            return ended
        return replace(
            ended, input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens, reasoning_tokens=used.reasoning_tokens,
            cost_nanousd=self._model.price(used),
        )  # fmt: skip


def judge_prompt(asked: str, candidates: Sequence[str], today: date, *, mission: str = "") -> Prompt:
    lines = [f"{number}. {one_line(text)}" for number, text in enumerate(candidates, 1)]
    data = "\n".join([f"question: {one_line(asked)}", *lines])
    return build_file_prompt(_PROMPT, data, mission=mission, today=today)


@dataclass(frozen=True, slots=True)
class _LookupEntry:
    similarity: float
    waited: bool


@dataclass(kw_only=True, slots=True)
class _AgentLookups:
    recent: deque[_LookupEntry] = field(default_factory=lambda: deque[_LookupEntry](maxlen=_RECENT_LOOKUPS))

    @property
    def required_similarity(self) -> float:
        """Return the similarity of the best tenth of the lookups, required for a wait; 0 until there are enough."""
        if len(self.recent) < _RECENT_LOOKUPS:
            return 0.0
        return sorted(lookup.similarity for lookup in self.recent)[-_MAX_WAITS]

    @property
    def waits(self) -> int:
        return sum(lookup.waited for lookup in self.recent)


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeStats:
    lookups: int
    """At most 100."""
    waits: int
    bar: float
    """Minimum similarity for the next wait."""
    breaker_open: bool
    """Whether the judge is paused after three time-outs in a row."""


class JudgeLimits:
    """Asks a judge within the limits of ANS-13 and keeps its verdicts.

    A verdict is about one answer: it is deleted with it, and the answer that replaces it has another id.
    """

    def __init__(self, clock: Clock, judge: Judge, store_later: Callable[[SameQuestionVerdict], None]) -> None:
        """`store_later` queues a verdict for the database; it gets none where no question may be kept."""
        self._clock = clock
        self._judge = judge
        self._store_later = store_later
        self._verdicts: BoundedDict[str, SameQuestionVerdict] = BoundedDict(_CACHED_VERDICTS)
        self._agents: BoundedDict[AgentId, _AgentLookups] = BoundedDict(_KEPT_AGENTS)
        self._timeouts = 0
        self._open_until = 0.0

    async def find_verdicts(self, tx: Tx, bank: Bank, asked: str, matches: Sequence[Match]) -> Sequence[bool | None]:
        """Return for each match whether it asks the same; None without a verdict or if a negative one has expired."""
        ids = [self._verdict_id(bank, asked, match) for match in matches]
        if unknown := [key for key in ids if self._cached(key) is None]:
            self._verdicts.update(
                (verdict.id, verdict) for verdict in await tx.answer_uses.find_verdicts(bank.id, unknown)
            )
        return [self._cached(key) for key in ids]

    def _cached(self, verdict_id: str) -> bool | None:
        known = self._verdicts.get(verdict_id)
        if known is None or (not known.same and (self._clock.now() - known.at).total_seconds() >= _NO_SECONDS):
            return None
        return known.same

    def admit(self, agent: AgentId, similarity: float | None) -> bool:
        """Count a lookup and return whether it may wait for the judge; `similarity` is None if it needs none."""
        lookups = self._agents.get(agent) or _AgentLookups()
        self._agents[agent] = lookups
        admitted = (
            similarity is not None
            and not self._breaker_open()
            and lookups.waits < _MAX_WAITS
            and similarity >= lookups.required_similarity
        )
        lookups.recent.append(_LookupEntry(similarity or 0.0, admitted))
        return admitted

    async def ask(self, agent: Agent, bank: Bank, asked: str, matches: Sequence[Match]) -> bool:
        """Ask about all matches in one call and cache the verdicts; return whether any asks the same."""
        verdicts = await self._ask(agent, bank, asked, [match.phrasing for match in matches])
        now, stored = self._clock.now(), may_keep_question(bank, agent) and redact(asked) == asked
        for match, same in zip(matches, verdicts, strict=True) if verdicts is not None else ():
            new = SameQuestionVerdict(
                id=self._verdict_id(bank, asked, match), bank_id=bank.id, answer_id=match.answer, same=same,
                at=now,
            )  # fmt: skip
            self._verdicts[new.id] = new
            if stored:
                self._store_later(new)
        return any(verdicts or ())

    def _verdict_id(self, bank: Bank, asked: str, match: Match) -> str:
        parts = (
            self._judge.name,
            bank.id,
            str(bank.generation),
            bank.policy.mission,
            match.answer,
            *normalize(asked),
            *normalize(match.phrasing),
        )
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def stats(self, agent: AgentId) -> JudgeStats:
        lookups = self._agents.get(agent) or _AgentLookups()
        return JudgeStats(
            lookups=len(lookups.recent),
            waits=lookups.waits,
            bar=lookups.required_similarity,
            breaker_open=self._breaker_open(),
        )

    def _breaker_open(self) -> bool:
        return self._clock.monotonic() < self._open_until

    async def _ask(self, agent: Agent, bank: Bank, asked: str, phrasings: Sequence[str]) -> Sequence[bool] | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                verdicts = await self._judge.judge(agent, bank, asked, phrasings)
        except TimeoutError:
            self._timeouts += 1
            if self._timeouts >= _BREAKER_TIMEOUTS:
                self._timeouts, self._open_until = 0, self._clock.monotonic() + _BREAKER_SECONDS
            _logger.warning("a ready answer for %r is not checked: the judge is too slow", agent.reference)
            return None
        except CircadiaError as error:
            _logger.warning("a ready answer for %r is not checked: %s", agent.reference, error)
            return None
        except Exception:  # the boundary of a judge: the call goes upstream, with a hint
            _logger.exception("a ready answer for %r is not checked", agent.reference)
            return None
        self._timeouts = 0
        return verdicts
