"""Finds the ready answer to a question in a transaction (ANS-02, ANS-04, ANS-06).

The index in memory only proposes. Each answer is read, and its validity checked, in the caller's transaction: no write
of any process leaves a stale answer, and no answer of another scope is found.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from circadia.answers.freshness import AnswerFreshness, fetch_basis, fetch_layers
from circadia.answers.index import AnswerIndex
from circadia.answers.question_text import MAX_CHARACTERS
from circadia.answers.services import MISS, CheckedMatch, KnownVerdicts, LookupResult, Match, Validity, no_verdicts
from circadia.caches import Lru
from circadia.clock import Clock
from circadia.errors import UpstreamFailed
from circadia.ids import AnswerId, BankId
from circadia.memory import languages
from circadia.memory.context import Context
from circadia.memory.episodes import is_text
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.vectors import TextVectors
from circadia.records.answer import Answer, AnswerableQuestion, AnswerBasis, AnswerScope, LookupOutcome
from circadia.records.bank import Bank
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import AnswerChanges, Tx

_logger = logging.getLogger(__name__)

MAX_INDEX_BYTES: Final = 256 * 2**20
"""Memory for the indexes of all banks; the least recently used are evicted."""
_PHRASING_BYTES: Final = 1_800
_BANK_BYTES: Final = 2_000
_RETRIES: Final = 4
"""Matches with the same text to try: one with a void answer is skipped."""
INLINE_ADDITIONS: Final = 64
"""Changed answers indexed on the event loop; more go to a thread."""
CALL_WAIT_SECONDS: Final = 0.2
"""How long a call waits for an index to load before it is a miss (ANS-03)."""
_RELOAD_SECONDS: Final = 60.0
MIN_SIMILARITY: Final = 0.2
"""Cosine below which no judge is asked; few reworded questions are below (`python -m benchmarks answers_pairs`)."""
HINT_SHARED_LETTERS: Final = 0.2
"""Shared trigrams that a hint needs: in languages that the vectors hardly know, all cosines are high."""
_EXPLAIN_MATCHES: Final = 8
_Layers = Mapping[BankId, str]


class WordVectorSource(Protocol):
    async def word_vectors(self) -> TextVectors:
        """Return the loaded table. Raises UpstreamFailed: loading failed."""
        ...


@dataclass(kw_only=True, slots=True)
class _ScopeIndex:
    index: AnswerIndex | None = None
    ids: set[AnswerId] = field(default_factory=set[AnswerId])
    added: dict[AnswerId, AnswerableQuestion] = field(default_factory=dict[AnswerId, AnswerableQuestion])
    removed: set[AnswerId] = field(default_factory=set[AnswerId])
    loading: asyncio.Task[None] | None = None


@dataclass(kw_only=True, slots=True)
class _BankIndex:
    revision: int = 0
    scope_of: dict[AnswerId, tuple[AnswerScope, int]] = field(default_factory=dict[AnswerId, tuple[AnswerScope, int]])
    """The scope of each answer, with its number of phrasings."""
    phrasings: int = 0
    scopes: dict[AnswerScope, _ScopeIndex] = field(default_factory=dict[AnswerScope, _ScopeIndex])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Only one caller at a time applies changes."""

    @property
    def nbytes(self) -> int:
        return _BANK_BYTES + _PHRASING_BYTES * self.phrasings

    def apply(self, changes: AnswerChanges, revision: int) -> None:
        for answer_id in {*self.scope_of} - {answer.id for answer in changes.answers} if changes.whole else ():
            self.remove(answer_id)
        for entry in changes.answers:
            self.remove(entry.id)
            if not entry.dropped:
                self.scope_of[entry.id] = entry.scope, len(entry.phrasings)
                self.phrasings += len(entry.phrasings)
                scope = self.scopes.setdefault(entry.scope, _ScopeIndex())
                scope.ids.add(entry.id)
                scope.added[entry.id] = AnswerableQuestion(
                    id=entry.id, phrasings=entry.phrasings, confidence=entry.confidence,
                    conversation=entry.conversation,
                )  # fmt: skip
        self.revision = revision

    def remove(self, answer_id: AnswerId) -> None:
        known = self.scope_of.pop(answer_id, None)
        if known is not None:
            scope_key, phrasings = known
            self.phrasings -= phrasings
            scope = self.scopes[scope_key]
            scope.ids.discard(answer_id)
            scope.added.pop(answer_id, None)
            scope.removed.add(answer_id)
            if not scope.ids and scope.loading is None:
                del self.scopes[scope_key]


class AnswerLookup:
    """An `AnswerFinder` and `AnswerValidator` that caches the indexes of recently used banks."""

    def __init__(
        self, clock: Clock, retrieval: Retrieval, words: WordVectorSource, settings: AnswersSettings, *,
        max_bytes: int = MAX_INDEX_BYTES,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._retrieval = retrieval
        self._words = words
        self._hint_similarity = settings.hint_similarity
        self.indexes: Final[Lru[BankId, _BankIndex]] = Lru(max_bytes)
        self._freshness = AnswerFreshness(retrieval)
        self._loading: asyncio.Future[TextVectors] | None = None
        self._paused_until = 0.0

    def forget(self) -> None:
        """Drop all indexes, and what was found out about answers."""
        self.indexes.clear()
        self._freshness.forget()

    async def find(
        self, tx: Tx, bank: Bank, scope: AnswerScope, question: str, conversation: str | None = None,
        verdicts: KnownVerdicts = no_verdicts, others: Sequence[Bank] = (),
    ) -> LookupResult:  # fmt: skip
        if not bank.answers or not question.strip() or len(question) > MAX_CHARACTERS or not is_text(question):
            return MISS
        try:
            index = await self._index(tx, bank, scope, CALL_WAIT_SECONDS)
        except TimeoutError:
            return LookupResult(outcome=LookupOutcome.MISS, loading=True)
        except UpstreamFailed:
            return MISS
        if index is None:
            return MISS
        void, layers = set[AnswerId](), await fetch_layers(tx, others)
        exact = await self._find_exact(tx, bank, scope, index, question, conversation, void, layers)
        if exact is not None:
            return exact
        similar = index.find_similar(question, conversation, min_similarity=MIN_SIMILARITY, without=void)
        return await self._find_similar(tx, bank, scope, similar, verdicts, layers)

    async def _find_exact(
        self, tx: Tx, bank: Bank, scope: AnswerScope, index: AnswerIndex, question: str, conversation: str | None,
        seen: set[AnswerId], layers: _Layers,
    ) -> LookupResult | None:  # fmt: skip
        """Return the answer for the same text, preferably a certain one; rejected ids are added to `seen`."""
        uncertain: LookupResult | None = None
        for _ in range(_RETRIES):
            match = index.find_exact(question, conversation, without=seen)
            if match is None:
                break
            result = await self._check_served(tx, bank, scope, match, layers)
            if result is not None:
                if result.outcome is LookupOutcome.HIT:
                    return result
                uncertain = uncertain or result
            seen.add(match.answer)
        return uncertain

    async def _find_similar(
        self, tx: Tx, bank: Bank, scope: AnswerScope, matches: Sequence[Match], verdicts: KnownVerdicts,
        layers: _Layers,
    ) -> LookupResult:  # fmt: skip
        """Return the answer that a judge approved, or the nearest as a hint, with the candidates for a judge."""
        candidates: list[Match] = []
        possible = [match for match in matches if not match.conflict]
        for match, verdict in zip(possible, await verdicts(possible), strict=True):
            if verdict:
                if (result := await self._check_served(tx, bank, scope, match, layers)) is not None:
                    return result
            elif verdict is None:
                candidates.append(match)
        for match in candidates:
            if self.is_hint(match) and (result := await self._check_served(tx, bank, scope, match, layers)) is not None:
                return replace(result, outcome=LookupOutcome.HINT, candidates=candidates)
        return LookupResult(outcome=LookupOutcome.MISS, candidates=candidates)

    async def _check_served(
        self, tx: Tx, bank: Bank, scope: AnswerScope, match: Match, layers: _Layers
    ) -> LookupResult | None:
        """Return the answer of a match, as a hint while it is uncertain; none if it may not be given."""
        checked = await self._check(tx, bank, scope, match)
        if checked.answer is None or checked.validity.void:
            return None
        newer = checked.validity.newer
        is_certain = not newer and checked.answer.basis.layers == layers
        outcome = LookupOutcome.HIT if is_certain else LookupOutcome.HINT
        return LookupResult(outcome=outcome, answer=checked.answer, match=match, newer=newer)

    def is_hint(self, match: Match) -> bool:
        return match.similarity >= self._hint_similarity and match.shared_letters >= HINT_SHARED_LETTERS

    async def explain(
        self, tx: Tx, bank: Bank, scope: AnswerScope, question: str, conversation: str | None = None
    ) -> Sequence[CheckedMatch]:
        """Return all near matches with their answers' states; waits for loading. Raises UpstreamFailed."""
        index = await self._index(tx, bank, scope, None) if bank.answers else None
        if index is None or len(question) > MAX_CHARACTERS:
            return ()
        exact: dict[AnswerId, Match] = {}
        while len(exact) < _RETRIES and (match := index.find_exact(question, conversation, without=exact)) is not None:
            exact[match.answer] = match
        matches = (
            *exact.values(),
            *index.find_similar(question, conversation, min_similarity=-1.0, count=_EXPLAIN_MATCHES),
        )
        return [await self._check(tx, bank, scope, match) for match in matches]

    async def has_answer(self, tx: Tx, bank: Bank, scope: AnswerScope, question: str, where: str | None) -> bool:
        index = await self._index(tx, bank, scope, None) if bank.answers else None
        if index is None:
            return False
        return await self._find_exact(tx, bank, scope, index, question, where, set(), {}) is not None

    async def validity(self, tx: Tx, bank: Bank, answer: Answer) -> Validity:
        return await self._freshness.check(tx, bank, answer)

    async def fetch_basis(self, tx: Tx, bank: Bank, context: Context, others: Sequence[Bank] = ()) -> AnswerBasis:
        return await fetch_basis(tx, bank, (await self._retrieval.read_bank(tx, bank, None)).blocks, context, others)

    async def _check(self, tx: Tx, bank: Bank, scope: AnswerScope, match: Match) -> CheckedMatch:
        answer = await tx.answers.get(bank.id, match.answer)
        if answer is None or answer.dropped:
            cached = self.indexes.get(bank.id)
            if cached is not None and bank.answers >= cached.revision:
                cached.remove(match.answer)  # else the transaction is older than the answer
            why = "there is none" if answer is None else f"it was dropped: {answer.dropped}"
            return CheckedMatch(match=match, answer=None, validity=Validity(why))
        if answer.scope != scope or match.phrasing not in answer.phrasings:
            return CheckedMatch(match=match, answer=None, validity=Validity("it answers another question by now"))
        now = self._clock.now()
        if not answer.made_at <= now < answer.expires_at:
            why = f"it holds from {answer.made_at} to {answer.expires_at}, and now is {now}"
            return CheckedMatch(match=match, answer=answer, validity=Validity(why))
        return CheckedMatch(match=match, answer=answer, validity=await self._freshness.check(tx, bank, answer))

    async def _index(self, tx: Tx, bank: Bank, scope: AnswerScope, seconds: float | None) -> AnswerIndex | None:
        """Return the current index of a scope; none if it has no answer. Raises UpstreamFailed, TimeoutError."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        held = self.indexes.get(bank.id) or _BankIndex()
        self.indexes.put(bank.id, held, held.nbytes)
        if bank.answers > held.revision:
            async with held.lock:
                if bank.answers > held.revision:
                    held.apply(await tx.answers.find_changed(bank.id, after=held.revision), bank.answers)
            self.indexes.update_weight(bank.id, held, held.nbytes)
        while (own := held.scopes.get(scope)) is not None:
            if own.loading is None and own.index is not None and len(own.added) <= INLINE_ADDITIONS:
                if own.removed or own.added:
                    _update(own.index, own.added, own.removed)
                own.removed.clear()
                own.added.clear()
                return own.index
            loaded = await self._wait_for_vectors(None if end is None else end - loop.time())
            if loaded is None:
                raise TimeoutError
            loading = own.loading
            if loading is None:
                loading = own.loading = asyncio.create_task(_load_index(own, AnswerIndex(loaded)))
            _, late = await asyncio.wait((loading,), timeout=None if end is None else max(end - loop.time(), 0))
            if late:
                raise TimeoutError
        return None

    async def _wait_for_vectors(self, seconds: float | None) -> TextVectors | None:
        """Return what is loaded on first use; none after `seconds`. Raises UpstreamFailed."""
        if self._loading is None or (
            self._loading.done() and self._loading.exception() and self._clock.monotonic() >= self._paused_until
        ):
            self._loading = asyncio.ensure_future(self._load_words())
        if not self._loading.done():
            await asyncio.wait((self._loading,), timeout=None if seconds is None else max(seconds, 0))
        return self._loading.result() if self._loading.done() else None

    async def _load_words(self) -> TextVectors:
        self._paused_until = self._clock.monotonic() + _RELOAD_SECONDS
        try:
            return await self._words.word_vectors()
        except UpstreamFailed as error:
            _logger.warning("ready answers are unavailable for now: %s", error)
            raise


async def _load_index(scope: _ScopeIndex, empty: AnswerIndex) -> None:
    """Index additions in a thread; nobody else uses the index meanwhile."""
    index, added, removed = scope.index or empty, scope.added, scope.removed
    scope.added, scope.removed = {}, set()
    try:
        await asyncio.to_thread(_update, index, added, removed)
        scope.index = index
    finally:
        scope.loading = None


def _update(index: AnswerIndex, added: Mapping[AnswerId, AnswerableQuestion], removed: Collection[AnswerId]) -> None:
    languages.load()  # a match asks in which language it is
    index.remove(removed)
    index.add(added.values())
