"""Runs steps of passes in their own threads; their questions and look-ups run in the event loop (SLEEP-43).

Each step has its own event loop, since a user's operation may await anything, and holds its thread while its question
is open. These threads are separate from the process's shared ones: many steps at once would otherwise leave none for
the work that their questions wait for.
"""

import asyncio
import contextvars
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from circadia.ids import EpisodeId
from circadia.llm.chat_model import Prompt
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.sleeptime.budget.model_calls import PassPreempted
from circadia.sleeptime.grounding.change_rules import Rule, check_changes
from circadia.sleeptime.proposals.operation import BankReader, ModelQueryFunction, Operation, PageContext, Step, T

V = TypeVar("V")


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
    def __init__(self, here: _EventLoopBridge, look: BankReader) -> None:
        self._here = here
        self._look = look

    @property
    def cached_episodes(self) -> Mapping[EpisodeId, Episode]:
        return self._look.cached_episodes

    async def fetch_episodes(self, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        known = self.cached_episodes
        if all(episode_id in known for episode_id in ids):
            return {episode_id: known[episode_id] for episode_id in ids}
        return await self._here.run_in_loop(self._look.fetch_episodes(ids))

    async def search_related(self, texts: Sequence[str], *, before: int, limit: int) -> Sequence[Sequence[Episode]]:
        return (
            await self._here.run_in_loop(self._look.search_related(texts, before=before, limit=limit)) if texts else []
        )

    async def fetch_note_uses(self, first: int) -> Mapping[int, datetime]:
        return await self._here.run_in_loop(self._look.fetch_note_uses(first))
