"""Reads rows of a bank that a page's view does not hold, and caches them for the page."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from circadia.ids import EpisodeId
from circadia.memory.search.index import Question, ScoredRow
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.terms import question_words
from circadia.records.bank import Bank
from circadia.records.episode import Episode
from circadia.records.index_entry import Layer
from circadia.stores.base import Store

KNOWN: Final = 2_000
"""Episodes cached for a page, since several steps read them; above it only the page stays."""
BEYOND: Final = 4
"""Factor by which a search exceeds the wanted count, since results may be too new."""


class CachedBankReader:
    """Reads episodes of a bank in its own transactions, each once per page."""

    def __init__(self, store: Store, bank: Bank, retrieval: Retrieval | None, page: Sequence[Episode]) -> None:
        self._store = store
        self._bank = bank
        self._retrieval = retrieval
        self._page = page
        self._known = {episode.id: episode for episode in page}
        self._uses: dict[int, Mapping[int, datetime]] = {}

    @property
    def cached_episodes(self) -> Mapping[EpisodeId, Episode]:
        return self._known

    async def fetch_episodes(self, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        known = self._known
        missing = [episode_id for episode_id in ids if episode_id not in known]
        if missing:
            async with self._store.begin_read() as tx:
                known = {**known, **await tx.episodes.get_by_ids(self._bank.id, missing)}
            self._keep(known)
        return {episode_id: known[episode_id] for episode_id in ids if episode_id in known}

    async def search_related(self, texts: Sequence[str], *, before: int, limit: int) -> Sequence[Sequence[Episode]]:
        results: list[Sequence[ScoredRow]] = []
        async with self._store.begin_read() as tx:
            bank = await tx.banks.get(self._bank.id)
            if bank is None or self._retrieval is None:
                return [()] * len(texts)
            questions = (_build_word_question(text, limit * BEYOND) for text in texts)
            async for scored in self._retrieval.find_each(tx, bank, questions):
                results.append([row for row in scored if row.number < before][:limit])
                await asyncio.sleep(0)  # a search may block the event loop, which others need
            rows = await tx.episodes.get_by_numbers(bank.id, {row.number for some in results for row in some})
        self._keep({**self._known, **{episode.id: episode for episode in rows.values()}})
        return [[rows[row.number] for row in some if row.number in rows] for some in results]

    async def fetch_note_uses(self, first: int) -> Mapping[int, datetime]:
        """Return when notes were last used; cached, since all parts of a full pass need it."""
        if first not in self._uses:
            async with self._store.begin_read() as tx:
                self._uses[first] = await tx.notes.find_use_times(self._bank.id, first=first)
        return self._uses[first]

    def _keep(self, known: dict[EpisodeId, Episode]) -> None:
        """Cache the episodes, or only the page if they are too many; readers of the old mapping go on."""
        self._known = known if len(known) <= KNOWN else {episode.id: episode for episode in self._page}


def _build_word_question(text: str, limit: int) -> Question:
    """Return a question by words alone: vectors may be missing, and a repeated pass must ask the same."""
    terms, names = question_words(text)
    return Question(terms=terms, names=names, layers=(Layer.EPISODES,), limit=limit, explained=False)
