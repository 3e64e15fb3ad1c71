"""Reindex: completes vectors and refreshes views of frequent questions at the end of a pass (SLEEP-26).

Background work makes missing and outdated vectors (MEM-08); here a pass waits for it. Statistics need no work: recency
is computed at the search, importance and weight are written with rows and demotions, and the index counts words as it
takes rows in.

If the policy asks for it, the importance threshold for turns is tuned (MEM-18).

Views hold row numbers and the exact bank state that they belong to. A search uses a view of that state only, so a view
is never wrong, only useless until the next pass. It proposes nothing and needs no undo.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final

import orjson

from circadia.errors import UpstreamFailed
from circadia.ids import BankId
from circadia.memory.search.question_counter import (
    OFTEN,
    WINDOW,
    BankQuestion,
    QuestionCounter,
    count_recent_askings,
    has_secret,
    load_filters,
    may_keep_question,
    notes_stamp,
    question_key,
)
from circadia.records.bank import Bank
from circadia.records.change import Change
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteKind
from circadia.records.ready_view import ReadyView, ViewHit, ViewKind
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.budget.model_calls import PassPreempted
from circadia.sleeptime.grounding.source_check import CALENDAR, find_names
from circadia.sleeptime.operations.importance_tuning import tune_importance
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, PassContext, Step
from circadia.stores.base import Store, Tx
from circadia.stores.locks import bank_key

CANDIDATES: Final = 256
"""Most frequent questions that the database counts for a bank, at least; else four times as many as are kept ready."""
ASKINGS_SECONDS: Final = 60.0
"""Interval between writes of what was asked."""
EMBED_SECONDS: Final = 30.0
"""Maximum wait of a pass for vectors, which may be those of another bank."""
LOOK_SECONDS: Final = 0.5
"""Interval between checks for waiting calls during that wait."""
FEWEST: Final = 2
CACHED_TEXTS: Final = 8_000
"""Note texts whose names are cached: each pass reads the same ones."""
NOTES_PER_SUBJECT: Final = 20
"""Notes in the view of a subject, beliefs first, then the newest."""

_logger = logging.getLogger(__name__)


class Reindex:
    name = "reindex"
    asks = False

    def __init__(self, *, views: int) -> None:
        """`views` is the number of questions, and of subjects, that are kept ready."""
        self._views = views

    def plan(self, view: PageContext) -> Sequence[Step]:
        return []

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        return []

    async def close(self, bank: Bank, ground: PassContext) -> Mapping[str, int]:
        """Wait for vectors, then refresh outdated views; the rest waits for another pass."""
        counts: dict[str, int] = {}
        with suppress(PassPreempted):
            whole = await _wait_for_vectors(bank, ground, counts)
            if self._views:
                await write_askings(ground.store, ground.retrieval.askings, _no_policy, only=bank.id)
                if whole:  # else they would be outdated at once
                    await self._refresh_question_views(bank, ground, counts)
                await self._refresh_subject_views(bank, ground, counts)
            await ground.go_on()
            counts["thresholds"] = int(await tune_importance(bank, ground))
        return {name: number for name, number in counts.items() if number}

    async def _refresh_question_views(self, bank: Bank, ground: PassContext, counts: dict[str, int]) -> None:
        async with ground.store.begin_read() as tx:
            every = [view for view in await tx.views.find_all(bank.id) if view.kind is ViewKind.QUESTION]
        most = sorted(every, key=lambda view: (-count_recent_askings(view, ground.now), view.key))[: self._views]
        chosen = {view.key for view in most if count_recent_askings(view, ground.now) >= OFTEN}
        saved = [replace(view, stamp=None, depth=0, hits=()) for view in every if view.stamp and view.key not in chosen]
        dropped = len(saved)
        try:
            for view in (view for view in every if view.key in chosen):
                await ground.go_on()
                anew = await _refresh_view(view, ground)
                saved += [] if anew is None else [anew]
        finally:
            if saved:
                async with ground.store.begin_write() as tx:
                    for view in saved:
                        await tx.views.save_hits(view)
            counts["views"] = len(saved) - dropped

    async def _refresh_subject_views(self, bank: Bank, ground: PassContext, counts: dict[str, int]) -> None:
        await ground.go_on()
        async with ground.store.begin_read() as tx:
            present = await tx.banks.get(bank.id)
            if present is None:
                return
            stamp = notes_stamp(present, await tx.views.fetch_heads(bank.id))
            every = [view for view in await tx.views.find_all(bank.id) if view.kind is ViewKind.SUBJECT]
            if every and all(view.stamp == stamp for view in every):
                return
            notes = await ground.notebook.fetch_newest(tx, present)
        subjects = await asyncio.to_thread(find_subjects, notes, self._views)
        async with ground.store.begin_write() as tx:
            now = await tx.banks.get(bank.id)
            if now is None or now.generation != present.generation or not (subjects or every):
                return  # something was forgotten meanwhile
            await tx.views.drop(bank.id, ViewKind.SUBJECT)
            for subject, about in subjects.items():
                hits = [ViewHit(Layer.NOTES, note.number, 0.0, {}) for note in about]
                await tx.views.put(
                    ReadyView(
                        bank_id=bank.id, kind=ViewKind.SUBJECT, key=subject.casefold(), asked={"text": subject},
                        stamp=stamp, depth=NOTES_PER_SUBJECT, hits=hits, made_at=ground.now,
                    )
                )  # fmt: skip
        counts["views"] = counts.get("views", 0) + len(subjects)


async def _wait_for_vectors(bank: Bank, ground: PassContext, counts: dict[str, int]) -> bool:
    """Wait until all rows of the bank have vectors; return whether they do."""
    if ground.embed is None:
        return True
    before = await _count_vectors(bank, ground)
    work = asyncio.ensure_future(ground.embed())
    try:
        async with asyncio.timeout(EMBED_SECONDS):
            while not work.done():
                await asyncio.wait((work,), timeout=LOOK_SECONDS)
                if not work.done():
                    await ground.go_on()
            await work
    except (TimeoutError, UpstreamFailed) as error:  # the background work reports it, and goes on
        _logger.debug("views of bank %r wait for vectors: %s", bank.name, error)
        return False
    finally:
        work.cancel()
        counts["vectors"] = await _count_vectors(bank, ground) - before
    return True


async def _count_vectors(bank: Bank, ground: PassContext) -> int:
    async with ground.store.begin_read() as tx:
        present = await tx.banks.get(bank.id)
    return 0 if present is None else present.vectors


async def _refresh_view(view: ReadyView, ground: PassContext) -> ReadyView | None:
    """Return the refreshed view; none if it is current, or cannot be made now."""
    retrieval = ground.retrieval
    async with ground.store.begin_read() as tx:
        bank = await tx.banks.get(view.bank_id)
        if bank is None or (view.depth >= view.limit and view.stamp == await retrieval.stamp(tx, bank)):
            return None
    question = replace(
        await retrieval.prepare_question(str(view.asked["text"])), limit=view.limit, **load_filters(view.asked)
    )
    async with ground.store.begin_read() as tx:
        bank = await tx.banks.get(view.bank_id)
        result = None if bank is None else await retrieval.find_for_view(tx, bank, question)
    if result is None:
        return None
    stamp, scored = result
    hits = [ViewHit(*row) for row in scored]
    return replace(view, stamp=stamp, depth=view.limit, hits=hits, made_at=ground.now)


async def write_askings(
    store: Store,
    askings: QuestionCounter,
    policy: Callable[[Bank], SleepPolicySettings | None],
    *,
    only: BankId | None = None,
) -> None:
    """Store what was asked often since the last time, in one transaction, for banks whose policy has views."""
    by_bank: dict[BankId, list[tuple[BankQuestion, int]]] = defaultdict(list)
    for question in askings.pending_questions(only):
        by_bank[question.bank_id].append((question, question.pending))
        question.pending = 0  # now, since another task may write them at the same time
    if not by_bank:
        return
    try:
        async with store.begin_write(*map(bank_key, by_bank)) as tx:
            for bank_id, some in by_bank.items():
                bank = await tx.banks.get(bank_id)
                if bank is not None:
                    await _write_bank_askings(tx, bank, some, policy(bank))
    except BaseException:
        for question, number in (one for some in by_bank.values() for one in some):
            question.pending += number
        raise


async def forget_askings(store: Store, policy: Callable[[Bank], SleepPolicySettings | None]) -> None:
    """Delete questions of banks that may keep none."""
    async with store.begin_read() as tx:
        homes = await tx.views.find_bank_ids()
    for bank_id in homes:
        async with store.begin_read() as tx:
            bank = await tx.banks.get(bank_id)
        if bank is not None and not _may_keep_views(bank, policy(bank)):
            async with store.begin_write() as tx:
                await _drop_views(tx, bank, policy(bank))


async def _write_bank_askings(
    tx: Tx, bank: Bank, some: Sequence[tuple[BankQuestion, int]], policy: SleepPolicySettings | None
) -> None:
    if not _may_keep_views(bank, policy):
        await _drop_views(tx, bank, policy)
        return
    for question, number in some:
        if question.generation == bank.generation and not has_secret(question.asked):
            view = await tx.views.get(bank.id, ViewKind.QUESTION, question_key(question.asked))
            await tx.views.put(_add_askings(view or _new_view(question), question, number))
    newest = max(question.at for question, _ in some)
    keep = None if policy is None else max(CANDIDATES, 4 * policy.views)
    await tx.views.trim_questions(bank.id, before=newest - WINDOW, keep=keep)


def find_subjects(notes: Sequence[Note], most: int) -> Mapping[str, Sequence[Note]]:
    """Return the names that notes mention most, with the notes: beliefs first, then the newest.

    A word at the beginning of a sentence is a name if it is capitalized elsewhere too.
    """
    about: dict[str, list[Note]] = defaultdict(list)
    called: dict[str, Counter[str]] = defaultdict(Counter)
    relevant = [note for note in notes if note.kind is not NoteKind.SUMMARY]
    known = {name.casefold() for note in relevant for name in _names_in(note.text)} - CALENDAR
    for note in relevant:
        named = [name for name in _names_in(note.text, initial=True) if name.casefold() in known]
        for name in named:
            called[name.casefold()][name] += 1
        for key in {name.casefold() for name in named}:
            about[key].append(note)
    chosen = sorted(about, key=lambda key: (-len(about[key]), key))[:most]
    return {
        called[key].most_common(1)[0][0]: sorted(
            about[key], key=lambda note: (note.kind is not NoteKind.BELIEF, -note.number)
        )[:NOTES_PER_SUBJECT]
        for key in chosen
        if len(about[key]) >= FEWEST
    }


@lru_cache(maxsize=CACHED_TEXTS)
def _names_in(text: str, *, initial: bool = False) -> frozenset[str]:
    return frozenset(name.removesuffix("'s").removesuffix("’s") for name in find_names(text, initial=initial))


def _no_policy(_: Bank) -> None:
    """Force views: a pass that runs this operation wants them, even if the policy keeps none on its own."""


def _has_views(policy: SleepPolicySettings | None) -> bool:
    return policy is None or (policy.enabled and policy.is_operation_enabled("reindex") and policy.views > 0)


def _may_keep_views(bank: Bank, policy: SleepPolicySettings | None) -> bool:
    return may_keep_question(bank, None) and _has_views(policy)


async def _drop_views(tx: Tx, bank: Bank, policy: SleepPolicySettings | None) -> None:
    """Delete what a bank may not keep; views by subject stay where only questions are forbidden."""
    await tx.views.drop(bank.id, ViewKind.QUESTION if _has_views(policy) else None)


def _new_view(asking: BankQuestion) -> ReadyView:
    return ReadyView(
        bank_id=asking.bank_id, kind=ViewKind.QUESTION, key=question_key(asking.asked), asked=orjson.loads(asking.asked)
    )


def _add_askings(view: ReadyView, asking: BankQuestion, number: int) -> ReadyView:
    """Return the view with the askings added, without those outside the window."""
    first = (asking.at - WINDOW).date().isoformat()
    days = Counter({day: number for day, number in view.days.items() if day >= first})
    days[asking.at.date().isoformat()] += number
    return replace(view, days=dict(days), asked_at=asking.at, limit=max(view.limit, asking.limit))
