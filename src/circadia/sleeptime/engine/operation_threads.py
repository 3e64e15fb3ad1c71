"""Runs steps of passes in their own threads; their questions and look-ups run in the event loop (SLEEP-43).

Each step has its own event loop, since a user's operation may await anything, and holds its thread while its question
is open. These threads are separate from the process's shared ones: many steps at once would otherwise leave none for
the work that their questions wait for.

A step reads rows that its page's view does not hold through a reader that caches them for the page.
"""

import asyncio
import contextvars
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, Final, TypeVar

from circadia.ids import EpisodeId
from circadia.llm.chat_model import Prompt
from circadia.memory import languages
from circadia.memory.relative_dates import in_zone
from circadia.memory.search.question import Question, ScoredRow
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.terms import question_words
from circadia.records.bank import Bank
from circadia.records.change import Change
from circadia.records.episode import Episode, cut_passage, merge_parts
from circadia.records.index_entry import Layer
from circadia.sleeptime.budget.model_calls import PassPreempted
from circadia.sleeptime.grounding.change_rules import Rule, check_changes
from circadia.sleeptime.proposals.operation import BankReader, ModelQueryFunction, Operation, PageContext, Step, T
from circadia.stores.base import Store

V = TypeVar("V")
KNOWN: Final = 2_000
"""Episodes cached for a page, since several steps read them; above it only the page stays."""
BEYOND: Final = 4
"""Factor by which a search exceeds the wanted count, since results may be too new."""


class OperationThreads:
    """Calls operations in the threads of an executor that nothing else uses."""

    def __init__(self, threads: Executor | None = None) -> None:
        self._threads = threads

    async def plan_steps(self, operation: Operation, view: PageContext) -> Sequence[Step]:
        return await self._run_in_thread(lambda: operation.plan(view))

    async def propose_changes(
        self, operation: Operation, step: Step, view: PageContext, ask: ModelQueryFunction
    ) -> Sequence[Change]:
        """Return the changes that a step proposes. Cancellation also cancels the step's questions."""
        here = _EventLoopBridge()
        there = replace(view, look=_ThreadBankReader(here, view.look))
        try:
            return await self._run_in_thread(
                lambda: _propose_in_own_loop(operation, step, there, _ThreadAsk(here, ask))
            )
        finally:
            here.close()

    async def find_violations(
        self, changes: Sequence[Change], rows: Mapping[EpisodeId, Episode], rules: Sequence[Rule]
    ) -> Sequence[str]:
        """Return the violations of each change, whose sources are `rows`."""
        return await self._run_in_thread(lambda: check_changes(changes, rows, rules))

    async def _run_in_thread(self, work: Callable[[], V]) -> V:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work))


def _propose_in_own_loop(
    operation: Operation, step: Step, view: PageContext, ask: ModelQueryFunction
) -> Sequence[Change]:
    """Return a step's changes; a step that is cancelled before its thread starts creates no coroutine."""

    async def propose_step() -> Sequence[Change]:
        return await operation.propose(step, view, ask)

    return asyncio.run(propose_step())


class _EventLoopBridge:
    """The event loop for a step's thread, until the step is over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = False
        self._under_way: set[asyncio.Task[Any]] = set()

    async def run_in_loop(self, work: Coroutine[Any, Any, V]) -> V:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._track(work), self._loop))

    def close(self) -> None:
        """Refuse further work, and cancel what is under way."""
        self._over = True
        for task in self._under_way:
            task.cancel()

    async def _track(self, work: Coroutine[Any, Any, V]) -> V:
        if self._over:
            work.close()
            raise PassPreempted
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            return await work
        finally:
            self._under_way.discard(task)


class _ThreadAsk:
    def __init__(self, here: _EventLoopBridge, ask: ModelQueryFunction) -> None:
        self._here = here
        self._ask = ask

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
        return await self._here.run_in_loop(self._ask(prompt, output, most_tokens=most_tokens))


class _ThreadBankReader:
    def __init__(self, here: _EventLoopBridge, reader: BankReader) -> None:
        self._here = here
        self._reader = reader

    @property
    def cached_episodes(self) -> Mapping[EpisodeId, Episode]:
        return self._reader.cached_episodes

    async def fetch_episodes(self, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        known = self.cached_episodes
        if all(episode_id in known for episode_id in ids):
            return {episode_id: known[episode_id] for episode_id in ids}
        return await self._here.run_in_loop(self._reader.fetch_episodes(ids))

    async def search_related(self, texts: Sequence[str], *, before: int, limit: int) -> Sequence[Sequence[Episode]]:
        return (
            await self._here.run_in_loop(self._reader.search_related(texts, before=before, limit=limit))
            if texts
            else []
        )

    async def fetch_note_uses(self, first: int) -> Mapping[int, datetime]:
        return await self._here.run_in_loop(self._reader.fetch_note_uses(first))


class CachedBankReader:
    """Reads episodes of a bank in its own transactions, each once per page."""

    def __init__(
        self, store: Store, bank: Bank, retrieval: Retrieval | None, page: Sequence[Episode],
        zone: tzinfo | None = None,
    ) -> None:  # fmt: skip
        """Times are those of `zone`, where the speaker's own is not known."""
        self._store = store
        self._bank = bank
        self._retrieval = retrieval
        self._page = page
        self._zone = zone
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
                found = await tx.episodes.get_by_ids(self._bank.id, missing)
            known = {**known, **{key: in_zone(episode, self._zone) for key, episode in found.items()}}
            self._keep(known)
        return {episode_id: known[episode_id] for episode_id in ids if episode_id in known}

    async def search_related(self, texts: Sequence[str], *, before: int, limit: int) -> Sequence[Sequence[Episode]]:
        results: list[Sequence[ScoredRow]] = []
        await languages.ensure_loaded()
        async with self._store.begin_read() as tx:
            bank = await tx.banks.get(self._bank.id)
            if bank is None or self._retrieval is None:
                return [()] * len(texts)
            questions = (_build_word_question(text, limit * BEYOND) for text in texts)
            async for scored in self._retrieval.find_each(tx, bank, questions):
                results.append([row for row in scored if row.number < before][:limit])
                await asyncio.sleep(0)  # a search may block the event loop, which others need
            found = await tx.episodes.get_by_numbers(bank.id, {row.number for some in results for row in some})
        rows = {number: in_zone(episode, self._zone) for number, episode in found.items()}
        self._keep({**self._known, **{episode.id: episode for episode in rows.values()}})
        return [_found_parts(some, rows) for some in results]

    async def fetch_note_uses(self, first: int) -> Mapping[int, datetime]:
        """Return when notes were last used; cached, since all parts of a full pass need it."""
        if first not in self._uses:
            async with self._store.begin_read() as tx:
                self._uses[first] = await tx.notes.find_use_times(self._bank.id, first=first)
        return self._uses[first]

    def _keep(self, known: dict[EpisodeId, Episode]) -> None:
        """Cache the episodes, or only the page if they are too many; readers of the old mapping go on."""
        self._known = known if len(known) <= KNOWN else {episode.id: episode for episode in self._page}


def _found_parts(scored: Sequence[ScoredRow], rows: Mapping[int, Episode]) -> Sequence[Episode]:
    """Return the episodes that were found, each once, with what was found of it."""
    parts: dict[int, Episode] = {}
    for number, passage in ((row.number, row.passage) for row in scored if row.number in rows):
        part = cut_passage(rows[number], passage)
        parts[number] = merge_parts(parts[number], part) if number in parts else part
    return list(parts.values())


def _build_word_question(text: str, limit: int) -> Question:
    """Return a question by words alone: vectors may be missing, and a repeated pass must ask the same."""
    terms, names = question_words(text)
    return Question(terms=terms, names=names, layers=(Layer.EPISODES,), limit=limit, explained=False)
