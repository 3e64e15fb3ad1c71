"""What a page of a pass reads of its bank beyond what its view holds, each thing once."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from circadia.ids import EpisodeId
from circadia.memory.search.question import Question, ScoredRow
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.terms import question_words
from circadia.records.bank import Bank
from circadia.records.episode import Episode
from circadia.records.index_entry import Layer
from circadia.stores.base import Store

KNOWN: Final = 2_000
"""Episodes that are kept while a page is worked through, since several steps read them; beyond it the page alone is."""
BEYOND: Final = 4
"""How many times more is searched for than is wanted, since what is found may be new."""


class CachedBankReader:
    """Reads episodes of a bank, in transactions of its own, each once for a page."""

    def __init__(self, store: Store, bank: Bank, retrieval: Retrieval | None, page: Sequence[Episode]) -> None:
        self._store = store
        self._bank = bank
        self._retrieval = retrieval
        self._page = page
        self._known = {each.id: each for each in page}
        self._uses: dict[int, Mapping[int, datetime]] = {}

    @property
    def cached_episodes(self) -> Mapping[EpisodeId, Episode]:
        """Return what was read already."""
        return self._known

    async def fetch_episodes(self, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        """Return these, as `BankReader` tells."""
        known = self._known
        strangers = [each for each in ids if each not in known]
        if strangers:
            async with self._store.begin_read() as tx:
                known = {**known, **await tx.episodes.get_by_ids(self._bank.id, strangers)}
            self._keep(known)
        return {each: known[each] for each in ids if each in known}

    async def search_related(self, texts: Sequence[str], *, before: int, limit: int) -> Sequence[Sequence[Episode]]:
        """Return what is about each text, as `BankReader` tells; nothing without searches."""
        found: list[Sequence[ScoredRow]] = []
        async with self._store.begin_read() as tx:
            bank = await tx.banks.get(self._bank.id)
            if bank is None or self._retrieval is None:
                return [()] * len(texts)
            questions = (_build_word_question(each, limit * BEYOND) for each in texts)
            async for scored in self._retrieval.find_each(tx, bank, questions):
                found.append([each for each in scored if each.number < before][:limit])
                await asyncio.sleep(0)  # a search may be done in the event loop, and others want it, too
            rows = await tx.episodes.get_by_numbers(bank.id, {each.number for some in found for each in some})
        self._keep({**self._known, **{each.id: each for each in rows.values()}})
        return [[rows[each.number] for each in some if each.number in rows] for some in found]

    async def fetch_note_uses(self, first: int) -> Mapping[int, datetime]:
        """Return when notes were last used; read once, since the parts of a full pass ask the same."""
        if first not in self._uses:
            async with self._store.begin_read() as tx:
                self._uses[first] = await tx.notes.find_use_times(self._bank.id, first=first)
        return self._uses[first]

    def _keep(self, known: dict[EpisodeId, Episode]) -> None:
        """Keep what is known, or only the page if that is too much; who reads what there was meanwhile goes on."""
        self._known = known if len(known) <= KNOWN else {each.id: each for each in self._page}


def _build_word_question(text: str, limit: int) -> Question:
    """Return a question by words alone: vectors come when they come, and a pass that is run again asks the same."""
    terms, names = question_words(text)
    return Question(terms=terms, names=names, layers=(Layer.EPISODES,), limit=limit, explained=False)
