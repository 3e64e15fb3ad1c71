"""One run of a pass: page after page of its input, each worked through by every operation and published as one.

    leftovers, then pages of new episodes:  view -> steps -> proposed changes -> publish, cursor

A run keeps nothing in memory that matters: killed, pre-empted or taken over, it is simply begun again where the cursor
stands, and what was asked of the model for the page that was cut short is found in the journal (`ask.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from opentelemetry.trace import Span

from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.ids import EpisodeId
from circadia.llm.mind import Mind, Prompt, Unusable
from circadia.memory.index import Question
from circadia.memory.retrieval import Retrieval
from circadia.memory.terms import asked_terms, words
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.records.index_entry import Layer
from circadia.records.sleep_pass import Pass, PassStatus
from circadia.records.sleep_state import Leftover
from circadia.sleeptime.ahead import Readying
from circadia.sleeptime.ask import Asking, OverBudget, Yielded
from circadia.sleeptime.effects import BY
from circadia.sleeptime.operation import Ask, Closing, Ground, Look, Operation, Step, T, View
from circadia.sleeptime.operations.dedupe import repeated
from circadia.sleeptime.publish import Page, Publisher, Rule, Seen
from circadia.stores.base import Store
from circadia.telemetry.traces import Traces, failed

V = TypeVar("V")

PAGE: Final = 500
"""Episodes that are read and published together."""
NOTES: Final = 5_000
"""Notes that a page is worked through with, the newest."""
BEYOND: Final = 4
"""How many times more is searched for than is wanted, since what is found may be new."""


NOT_DONE: Final = ("refused", "staged")
"""Counts of a pass that change nothing."""
KEPT_UP: Final = ("vectors", "views", "answers", "answers_dropped", "answers_judged")
"""Counts of a pass that only keep up with what is remembered."""
PATIENCE: Final = 3
"""Passes that may fail in a row since the provider does; then a step that gets no answer is set apart, if others do."""


class _Away(Exception):
    """The provider is at fault: the pass ends here, and its input waits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a run has ended."""

    run: Pass
    """The pass as it stands."""
    status: PassStatus
    """Where it is to stand."""
    detail: str
    """Why, in words."""


class Running:
    """Runs one pass. `go_on` returns if the next step may begin, and raises Yielded if somebody waits."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        publisher: Publisher,
        operations: Sequence[Operation],
        rules: Sequence[Rule],
        asking: Asking | None,
        go_on: Callable[[], Awaitable[None]],
        retrieval: Retrieval | None = None,
        embed: Callable[[], Awaitable[None]] | None = None,
        traces: Traces | None = None,
        readying: Readying | None = None,
    ) -> None:
        """`retrieval` finds what was said earlier about the same; without it operations see new episodes only.

        `embed` makes vectors that lack; without `readying` no answer is made ready.
        """
        self._clock = clock
        self._store = store
        self._publisher = publisher
        self._operations = operations
        self._rules = rules
        self._asking = asking
        self._go_on = go_on
        self._retrieval = retrieval
        self._embed = embed
        self._readying = readying
        self._away = False
        self._traces = traces or Traces()
        self._failed: list[str] = []
        self._patient = True
        self._answered = 0
        self._silent = ""

    async def work(self, run: Pass, bank: Bank) -> Outcome:
        """Work through what was left over and what is new, up to where the pass was to go.

        Raises:
            Yielded: it is to go on later. Conflict: it is no longer ours. StorageUnavailable: likewise.
        """
        async with self._store.read() as tx:
            state = await tx.sleep_states.get(bank.id)
        self._patient = state.failures < PATIENCE
        try:
            for leftover in state.leftovers:
                if not leftover.quarantined:
                    run = await self._tried_again(run, bank, leftover)
            worked = any(not each.quarantined for each in state.leftovers)
            if run.full:  # of the whole bank first; what is new is looked at as always
                worked = True
                run = await self._page(run, bank, (), replace_from=None, upto=run.after, full=True)
            while run.after < run.upto or not worked:  # what was asked for is done though nothing is new
                worked = True
                page = await self._episodes(bank, run.after, run.upto)
                upto = page[-1].number if len(page) == PAGE else run.upto
                run = await self._page(run, bank, page, replace_from=None, upto=upto)
        except _Away as error:
            self._failed.append(str(error))
            self._away = True
        return self._outcome(await self._closed(run, bank))

    async def _closed(self, run: Pass, bank: Bank) -> Pass:
        """Bring what is derived from the bank up with what was published, and write down how much that was."""
        if run.dry_run or self._retrieval is None:
            return run
        ground = Ground(
            store=self._store, retrieval=self._retrieval, now=self._clock.now(), go_on=self._go_on,
            embed=self._embed, run=run, readying=self._readying,
        )  # fmt: skip
        silent = self._asking is None or self._away
        counts = dict(run.counts)
        for operation in self._operations:
            if isinstance(operation, Closing):
                ask = None if silent else _Bound(self._asking, operation.name)
                for name, number in (await operation.close(bank, replace(ground, ask=ask))).items():
                    counts[name] = counts.get(name, 0) + number
        now = replace(run, counts=counts)
        if now != run:
            async with self._store.write() as tx:
                present = await tx.passes.get(run.id)  # its lease was renewed meanwhile
                ours = present is not None and replace(present, lease_until=run.lease_until) == run
                if not ours or not await tx.passes.save(now, origin=run):
                    raise Conflict(f"pass {run.id!r} is no longer this process'")
        return now

    async def _tried_again(self, run: Pass, bank: Bank, leftover: Leftover) -> Pass:
        """Work through what failed before, in halves: so one poisonous episode is found and the rest is not lost."""
        episodes = await self._episodes(bank, leftover.first - 1, leftover.last)
        middle = len(episodes) // 2
        halves, left = [episodes], leftover
        if leftover.failures and middle:
            halves, left = [episodes[:middle], episodes[middle:]], replace(leftover, failures=0)
        for half in halves:
            run = await self._page(run, bank, half, replace_from=left, upto=run.after)
            left = replace(left, first=half[-1].number + 1) if half else left
        return run

    async def _episodes(self, bank: Bank, after: int, upto: int) -> list[Episode]:
        async with self._store.read() as tx:
            found = await tx.episodes.every(bank.id, after=after, limit=PAGE)
        return [each for each in found if each.number <= upto]

    async def _page(
        self, run: Pass, bank: Bank, page: Sequence[Episode], *, replace_from: Leftover | None, upto: int,
        full: bool = False,
    ) -> Pass:  # fmt: skip
        """Propose and publish for one page; what fails of it is left over."""
        view, seen = await self._viewed(run, bank, page, full=full)
        failed_before = len(self._failed)
        left: list[Leftover] = []
        for operation in self._operations:
            for step in await asyncio.to_thread(operation.plan, view):
                await self._go_on()
                with self._traces.step(operation.name, len(step.episodes)) as span:
                    changes, again = await self._step(operation, step, view, replace_from, span)
                    span.set_attribute("circadia.step.changes", len(changes))
                left += again
                view = replace(view, proposed=(*view.proposed, *changes))
        await self._go_on()
        if self._silent and not self._answered and replace_from is None:  # not this step: nobody answers
            raise _Away(self._silent)
        async with self._store.write() as tx:
            state = await tx.sleep_states.get(bank.id)
            place = None if replace_from is None else (replace_from.first, replace_from.last)
            kept = [each for each in state.leftovers if (each.first, each.last) != place]
            if replace_from is not None and page and page[-1].number < replace_from.last:
                kept.append(replace(replace_from, first=page[-1].number + 1))
            leftovers = sorted({(each.first, each.last): each for each in (*kept, *left)}.values(), key=_first)
            whole = len(self._failed) == failed_before  # else what others did since the last pass is looked at again
            done = Page(upto=upto, leftovers=leftovers, seen=seen if whole else None)
            return await self._publisher.publish(tx, run, bank, view.proposed, done, self._rules)

    async def _viewed(self, run: Pass, bank: Bank, page: Sequence[Episode], *, full: bool) -> tuple[View, Seen]:
        """Return the bank as it stands, with what others did to it since the last pass, and how far that goes."""
        async with self._store.read() as tx:
            notes = await tx.notes.newest(bank.id, NOTES)
            blocks = await tx.blocks.every(bank.id)
            state, present = await tx.sleep_states.get(bank.id), await tx.banks.get(bank.id) or bank
            stale = await tx.sleep_states.stale(bank.id, 0 if full else state.demotions)
        now = page[-1].stored_at if page else run.created_at  # the same whenever the page is worked through
        view = View(
            bank=bank, now=now, page=page, notes=notes, blocks=blocks, instructions=run.instructions, full=full,
            look=_Looking(self._store, bank, self._retrieval),
            stale=frozenset(key for key, reasons in stale.items() if not all(map(repeated, reasons))),
            edited=() if present.edited_at == state.edited_at else _edited(blocks, state.edited_at),
        )  # fmt: skip
        return view, Seen(demotions=present.demotions, edited_at=present.edited_at)

    async def _step(
        self, operation: Operation, step: Step, view: View, before: Leftover | None, span: Span
    ) -> tuple[Sequence[Change], Sequence[Leftover]]:
        failures = 0 if before is None else before.failures
        try:
            changes = await self._apart(operation, step, view)
            self._answered += operation.asks
            return changes, ()
        except Unusable as error:
            cause = error.cause
            failed(span, "unusable")
            if error.passing and self._patient:
                raise _Away(_about(operation, step, cause)) from error
            self._silent = self._silent or (_about(operation, step, cause) if error.passing else "")
            failures += 1
        except OverBudget as error:
            cause = str(error)
            failed(span, "over_budget")
            failures += error.alone
        self._failed.append(_about(operation, step, cause))
        if not step.episodes:
            return (), ()
        first, last = step.episodes[0].number, step.episodes[-1].number
        return (), (Leftover(first=first, last=last, failures=failures, cause=cause),)

    async def _apart(self, operation: Operation, step: Step, view: View) -> Sequence[Change]:
        """Work a step out in a thread: it takes the processor, which calls that somebody waits for share (SLEEP-43).

        What it asks and looks up is done here.
        """
        here = _Here()
        there = replace(view, look=_LookThere(here, view.look))
        ask = _AskThere(here, _Bound(self._asking, operation.name))
        try:
            return await asyncio.to_thread(_worked_out, operation, step, there, ask)
        finally:
            here.over = True

    def _outcome(self, run: Pass) -> Outcome:
        done = sum(number for kind, number in run.counts.items() if kind not in (*NOT_DONE, *KEPT_UP))
        if self._failed:
            status = PassStatus.PARTIAL if done else PassStatus.FAILED
            return Outcome(run=run, status=status, detail="; ".join(self._failed[:5]))
        if done:
            return Outcome(run=run, status=PassStatus.SUCCEEDED, detail="")
        kept_up = ", ".join(f"{name} {number}" for name in KEPT_UP if (number := run.counts.get(name, 0)))
        detail = f" (made anew: {kept_up})" if kept_up else ""
        return Outcome(run=run, status=PassStatus.NO_CHANGE, detail=f"there was nothing to change{detail}")


def _worked_out(operation: Operation, step: Step, view: View, ask: Ask) -> Sequence[Change]:
    """Return what a step proposes; a step that is cancelled before its thread begins makes no coroutine."""

    async def proposed() -> Sequence[Change]:
        return await operation.propose(step, view, ask)

    return asyncio.run(proposed())


class _Here:
    """The event loop that a step's thread asks, until the step is over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.over = False

    async def done(self, work: Coroutine[Any, Any, V]) -> V:
        """Return, in the thread, what comes of the work in the event loop."""
        if self.over:
            work.close()
            raise Yielded
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class _AskThere:
    """Asks from a step's thread."""

    def __init__(self, here: _Here, ask: "_Bound") -> None:
        self._here = here
        self._ask = ask

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
        return await self._here.done(self._ask(prompt, output, most_tokens=most_tokens))


class _LookThere:
    """Looks from a step's thread."""

    def __init__(self, here: _Here, look: Look) -> None:
        self._here = here
        self._look = look

    async def episodes(self, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        return await self._here.done(self._look.episodes(ids))

    async def about(self, text: str, *, before: int, limit: int) -> Sequence[Episode]:
        return await self._here.done(self._look.about(text, before=before, limit=limit))


def _edited(blocks: Sequence[Block], since: datetime | None) -> frozenset[str]:
    """Return the labels of what was written since then, and not by a pass."""
    return frozenset(
        each.label for each in blocks if (since is None or each.at > since) and not each.by.startswith(f"{BY} ")
    )


def _about(operation: Operation, step: Step, cause: str) -> str:
    """Return what failed, without what was said: a step's name may hold it."""
    if not step.episodes:
        return f"{operation.name}: {cause}"
    return f"{operation.name}: episodes {step.episodes[0].number} to {step.episodes[-1].number}: {cause}"


class _Looking:
    """Reads episodes of a bank, in transactions of its own."""

    def __init__(self, store: Store, bank: Bank, retrieval: Retrieval | None) -> None:
        self._store = store
        self._bank = bank
        self._retrieval = retrieval

    async def episodes(self, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        async with self._store.read() as tx:
            found = await tx.episodes.identified(self._bank.id, ids)
        return {each: found[each] for each in ids if each in found}

    async def about(self, text: str, *, before: int, limit: int) -> Sequence[Episode]:
        if self._retrieval is None:
            return ()
        # By words alone: vectors come when they come, and a pass that is run again must ask the same.
        question = Question(
            terms=asked_terms(text), names=frozenset(words(text)), layers=(Layer.EPISODES,), limit=limit * BEYOND
        )
        async with self._store.read() as tx:
            bank = await tx.banks.get(self._bank.id)
            found = () if bank is None else await self._retrieval.find(tx, bank, question)
        rows = [each.item for each in found]
        return [each for each in rows if isinstance(each, Episode) and each.number < before][:limit]


class _Bound:
    """Asks for one operation."""

    def __init__(self, asking: Asking | None, operation: str) -> None:
        self._asking = asking
        self._operation = operation

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int, mind: Mind | None = None) -> T:
        if self._asking is None:
            raise Unusable("there is no model")
        return await self._asking.ask(self._operation, prompt, output, most_tokens=most_tokens, mind=mind)


def _first(leftover: Leftover) -> int:
    return leftover.first
