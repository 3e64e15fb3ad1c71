"""Ready answers at hand: what a question finds among those of its bank and scope, if it stands in this transaction.

What is held is a copy of the phrasings of the database, which can be dropped at any time. It only proposes: each answer
is read, with its text, in the caller's transaction, and what it rests on is compared there. So nothing that another
process wrote makes an answer stale (ANS-04), and an answer of another scope cannot be found (ANS-06).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from circadia.clock import Clock
from circadia.errors import UpstreamFailed
from circadia.ids import AnswerId, BankId
from circadia.memory.answers.likeness import Likeness
from circadia.memory.answers.lookup import OPEN, Bars, Match, Outcome, ReadyAnswers
from circadia.memory.answers.meaning import Meanings, WordVectors
from circadia.memory.answers.normal import LONGEST
from circadia.memory.answers.standing import Standing, Validity, rests_of
from circadia.memory.context import Context
from circadia.memory.lru import Lru
from circadia.memory.retrieval import Retrieval
from circadia.records.answer import Answer, AnswerScope, Expected, Rests
from circadia.records.bank import Bank
from circadia.settings.answers import AnswersSettings
from circadia.stores.answers import Changes
from circadia.stores.base import Tx

TRIES: Final = 4
"""Matches of a question that are confirmed at most: one that does not stand is passed over."""
HELD_BYTES: Final = 256 * 2**20
"""Memory for answers that are at hand; of more, the banks go that were asked longest ago."""
PHRASING_BYTES: Final = 7_000
"""What a phrasing takes."""
SHELF_BYTES: Final = 2_000
"""What a bank takes beside its answers."""
FEW: Final = 32
"""Answers that are taken in within the event loop."""
QUICK_SECONDS: Final = 0.2
"""How long a call waits in all until more of them, and the word vectors, are loaded; it goes on without them."""
REST_SECONDS: Final = 60.0
"""So long nobody tries again to load word vectors that cannot be loaded."""
ROWS: Final = 192
"""Texts of rows that a call reads to see whether they touch an answer; if there are more, it does not stand yet."""

_logger = logging.getLogger(__name__)


class Words(Protocol):
    """Makes vectors of single words; `BundledEmbedder` does."""

    @property
    def name(self) -> str:
        """The name under which rows have vectors of the same kind."""
        ...

    async def word_vectors(self) -> WordVectors:
        """Return what makes them, once it is loaded. Raises UpstreamFailed: it cannot be."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """What a question finds."""

    outcome: Outcome
    """Whether the answer may be served, shown, or there is none."""
    answer: Answer | None = None
    """Whole, as the transaction shows it; none with a miss, unless a check may make it a hit."""
    match: Match | None = None
    """What was taken for the question; none where there is no answer."""
    loading: bool = False
    """Whether there may be one among answers that are still being loaded."""


MISS: Final = Ready(outcome=Outcome.MISS)
LOADING: Final = replace(MISS, loading=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """One phrasing that was compared with a question."""

    match: Match
    """How sure it is, and what speaks against it."""
    answer: Answer | None
    """Its answer; none if the transaction shows none."""
    why_not: str
    """Why the answer is none any more, in words; empty if it stands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """What a question finds, and what else is near."""

    outcome: Outcome
    """What `find` comes to, if it finds all loaded."""
    alone: bool
    """Whether the question can be understood without what was said before."""
    compared: Sequence[Compared]
    """All that was compared, the best first."""


@dataclass(kw_only=True, slots=True)
class _Scope:
    """Answers of one scope."""

    ready: ReadyAnswers | None = None
    ids: set[AnswerId] = field(default_factory=set[AnswerId])
    new: dict[AnswerId, Expected] = field(default_factory=dict[AnswerId, Expected])
    """What `ready` lacks yet."""
    gone: set[AnswerId] = field(default_factory=set[AnswerId])
    """What it has, and must not."""
    filling: asyncio.Task[None] | None = None


@dataclass(kw_only=True, slots=True)
class _Shelf:
    """Answers of one bank."""

    revision: int = 0
    scope_of: dict[AnswerId, tuple[AnswerScope, int]] = field(default_factory=dict[AnswerId, tuple[AnswerScope, int]])
    """Of each answer, with the number of its phrasings."""
    phrasings: int = 0
    scopes: dict[AnswerScope, _Scope] = field(default_factory=dict[AnswerScope, _Scope])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One caller at a time brings it up to date."""

    @property
    def nbytes(self) -> int:
        """Return about how much memory it takes, in bytes."""
        return SHELF_BYTES + PHRASING_BYTES * self.phrasings

    def take(self, changes: Changes, revision: int) -> None:
        """Take in what has changed up to a revision of the bank."""
        for answer_id in {*self.scope_of} - {each.id for each in changes.answers} if changes.whole else ():
            self.drop(answer_id)
        for entry in changes.answers:
            self.drop(entry.id)
            if not entry.dropped:
                self.scope_of[entry.id] = entry.scope, len(entry.phrasings)
                self.phrasings += len(entry.phrasings)
                scope = self.scopes.setdefault(entry.scope, _Scope())
                scope.ids.add(entry.id)
                scope.new[entry.id] = Expected(
                    id=entry.id, phrasings=entry.phrasings, confidence=entry.confidence
                )  # fmt: skip
        self.revision = revision

    def drop(self, answer_id: AnswerId) -> None:
        known = self.scope_of.pop(answer_id, None)
        if known is not None:
            of, phrasings = known
            self.phrasings -= phrasings
            scope = self.scopes[of]
            scope.ids.discard(answer_id)
            scope.new.pop(answer_id, None)
            scope.gone.add(answer_id)
            if not scope.ids and scope.filling is None:
                del self.scopes[of]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tools:
    """What is loaded on first use."""

    vectors: WordVectors
    likeness: Likeness
    meanings: Meanings
    standing: Standing


class Shelves:
    """Finds ready answers. One shelf for each bank that was asked lately."""

    def __init__(
        self, clock: Clock, retrieval: Retrieval, words: Words, likeness: Callable[[], Likeness],
        settings: AnswersSettings, *, max_bytes: int = HELD_BYTES,
    ) -> None:  # fmt: skip
        """`likeness` returns the model that tells whether two questions ask for the same; it reads a file."""
        self._clock = clock
        self._retrieval = retrieval
        self._words = words
        self._likeness = likeness
        self._bars = Bars(
            hit=settings.serve_confidence, hint=settings.hint_confidence, entry=settings.entry_confidence,
            check=OPEN if settings.check == "local" else None,
        )  # fmt: skip
        self.loaded: Final[Lru[BankId, _Shelf]] = Lru(max_bytes)
        self._loading: asyncio.Future[_Tools] | None = None
        self._rests_until = 0.0

    async def find(
        self, tx: Tx, bank: Bank, scope: AnswerScope, question: str, conversation: str | None = None
    ) -> Ready:
        """Return what the question finds in a reading transaction, `bank` being read in it.

        A call does not wait for what takes long to load; until then it is a miss, which says so.
        """
        if not bank.answers or not question.strip() or len(question) > LONGEST:
            return MISS
        without: set[AnswerId] = set()
        hint = MISS
        for _ in range(TRIES):
            try:
                ready = await self._filled(tx, bank, scope, QUICK_SECONDS)
            except TimeoutError:
                return LOADING
            except UpstreamFailed:
                break
            found = None if ready is None else ready.find(question, conversation, without=without)
            if found is None or found.match is None or (found.outcome is Outcome.MISS and not found.match.open):
                break
            answer, validity = await self._confirmed(tx, bank, scope, found.match, most=ROWS)
            if answer is not None and not validity.why_not:
                ready = Ready(outcome=found.outcome, answer=answer, match=found.match)
                return hint if ready.outcome is not Outcome.HIT and hint is not MISS else ready
            if answer is not None and not validity.void and hint is MISS and found.outcome is not Outcome.MISS:
                hint = Ready(outcome=Outcome.HINT, answer=answer, match=replace(found.match, open=False))
            without.add(found.match.answer)
        return hint

    async def explain(
        self, tx: Tx, bank: Bank, scope: AnswerScope, question: str, conversation: str | None = None
    ) -> Explained:
        """Return all that is near the question, with what speaks against each; it waits until all is loaded.

        Raises:
            UpstreamFailed: the word vectors cannot be loaded.
        """
        ready = await self._filled(tx, bank, scope, None) if bank.answers else None
        found = (ready or self._empty(await self._tools())).explain(question, conversation)
        compared: list[Compared] = []
        outcomes: list[Outcome] = []
        for match in (found.match, *found.others):
            if match is not None:
                answer, validity = await self._confirmed(tx, bank, scope, match, most=None)
                compared.append(Compared(match=match, answer=answer, why_not=validity.why_not))
                if not validity.void:
                    outcomes.append(Outcome.HINT if validity.doubt and match.outcome is Outcome.HIT else match.outcome)
        outcome = next((each for each in Outcome if each in outcomes), Outcome.MISS)
        return Explained(outcome=outcome, alone=found.alone, compared=compared)

    async def standing(self, tx: Tx, bank: Bank, answer: Answer) -> str:
        """Return why what the answer rests on is not as it was, in words; empty if it is.

        Whether it was dropped, or is over, is not asked. Raises UpstreamFailed: the word vectors cannot be loaded.
        """
        return (await self.validity(tx, bank, answer)).why_not

    async def validity(self, tx: Tx, bank: Bank, answer: Answer) -> Validity:
        """Return the same with the later rows that put it in doubt. Raises UpstreamFailed, too."""
        return await (await self._tools()).standing.validity(tx, bank, answer, most=None)

    async def rests(self, tx: Tx, bank: Bank, context: Context) -> Rests:
        """Return the state of the bank for an answer with this context, which was made in this very transaction."""
        return await rests_of(tx, bank, (await self._retrieval.look(tx, bank, None)).blocks, context)

    async def compares(self) -> tuple[WordVectors, Likeness]:
        """Return what questions are compared by, once it is loaded. Raises UpstreamFailed: it cannot be."""
        tools = await self._tools()
        return tools.vectors, tools.likeness

    async def _confirmed(
        self, tx: Tx, bank: Bank, scope: AnswerScope, match: Match, *, most: int | None
    ) -> tuple[Answer | None, Validity]:
        """Return the answer as the transaction shows it, and whether it is valid."""
        answer = await tx.answers.get(bank.id, match.answer)
        if answer is None or answer.dropped:
            shelf = self.loaded.get(bank.id)
            if shelf is not None and bank.answers >= shelf.revision:
                shelf.drop(match.answer)  # else the transaction is older, and it is there by now
            return None, Validity("there is none" if answer is None else f"it was dropped: {answer.dropped}")
        if answer.scope != scope or match.phrasing not in answer.phrasings:
            return None, Validity("it is of another scope, or answers another question by now")
        now = self._clock.now()
        if not answer.made_at <= now < answer.expires_at:
            return answer, Validity(f"it holds from {answer.made_at} to {answer.expires_at}, and now is {now}")
        return answer, await (await self._tools()).standing.validity(tx, bank, answer, most=most)

    async def _filled(self, tx: Tx, bank: Bank, scope: AnswerScope, seconds: float | None) -> ReadyAnswers | None:
        """Return the scope's answers as the bank has them; none if it has none.

        Raises:
            UpstreamFailed: the word vectors cannot be loaded. TimeoutError: it takes more than `seconds` to load them.
        """
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        shelf = self.loaded.get(bank.id) or _Shelf()
        self.loaded.put(bank.id, shelf, shelf.nbytes)
        if bank.answers > shelf.revision:
            async with shelf.lock:
                if bank.answers > shelf.revision:
                    shelf.take(await tx.answers.changed(bank.id, after=shelf.revision), bank.answers)
            self.loaded.weigh(bank.id, shelf, shelf.nbytes)
        while (held := shelf.scopes.get(scope)) is not None:
            if held.filling is None and held.ready is not None and len(held.new) <= FEW:
                if held.gone or held.new:
                    _take_in(held.ready, held.new, held.gone)
                held.gone.clear()
                held.new.clear()
                return held.ready
            if (tools := await self._loaded(None if end is None else end - loop.time())) is None:
                raise TimeoutError
            filling = held.filling
            if filling is None:
                filling = held.filling = asyncio.create_task(_fill(held, self._empty(tools)))
            await asyncio.wait((filling,), timeout=None if end is None else max(end - loop.time(), 0))
            if held.filling is not None:
                raise TimeoutError
        return None

    def _empty(self, tools: _Tools) -> ReadyAnswers:
        return ReadyAnswers(tools.vectors, tools.likeness, self._bars, tools.meanings)

    async def _loaded(self, seconds: float | None) -> _Tools | None:
        """Return what is loaded on first use; none if it is not yet. Raises UpstreamFailed: it cannot be."""
        if self._loading is None or (
            self._loading.done() and self._loading.exception() and self._clock.monotonic() >= self._rests_until
        ):
            self._loading = asyncio.ensure_future(self._load())
        if not self._loading.done():
            await asyncio.wait((self._loading,), timeout=None if seconds is None else max(seconds, 0))
        return self._loading.result() if self._loading.done() else None

    async def _tools(self) -> _Tools:
        """Return them, however long it takes. Raises UpstreamFailed."""
        while (found := await self._loaded(None)) is None:
            pass
        return found

    async def _load(self) -> _Tools:
        self._rests_until = self._clock.monotonic() + REST_SECONDS
        try:
            vectors = await self._words.word_vectors()
        except UpstreamFailed as error:
            _logger.warning("no ready answer is found for now: %s", error)
            raise
        likeness = await asyncio.to_thread(self._likeness)
        standing = Standing(self._retrieval, vectors, self._words.name)
        return _Tools(vectors=vectors, likeness=likeness, meanings=Meanings(vectors), standing=standing)


async def _fill(held: _Scope, empty: ReadyAnswers) -> None:
    """Take in what is new, out of the event loop; meanwhile nobody looks for anything there."""
    ready, new, gone = held.ready or empty, held.new, held.gone
    held.new, held.gone = {}, set()
    try:
        await asyncio.to_thread(_take_in, ready, new, gone)
        held.ready = ready
    finally:
        held.filling = None


def _take_in(ready: ReadyAnswers, new: Mapping[AnswerId, Expected], gone: Collection[AnswerId]) -> None:
    ready.remove(gone)
    ready.add(new.values())
