"""Publishes what a pass proposes, and takes it back: the only writer of derived memory (SLEEP-30 … SLEEP-32).

One transaction: each change that breaks no rule is applied, all are written down with what came of them, the cursor
moves, and the pass' row and the bank's generation count. So a reader sees all or nothing, and what failed can be tried
again.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from circadia.clock import Clock
from circadia.errors import Conflict, NotFound
from circadia.records.bank import Bank
from circadia.records.change import FORGOTTEN, Change, ChangeKind, ChangeState
from circadia.records.sleep_pass import Pass
from circadia.records.sleep_state import Leftover
from circadia.sleeptime.grounding.change_rules import source_ids_of
from circadia.sleeptime.publish.effects import Effects, SourceRows
from circadia.stores.base import Tx

CEILING_SHARE: Final = 0.05
"""SLEEP-31: of a bank's notes, that one pass may retire."""
CEILING_NOTES: Final = 20
"""SLEEP-31: the same as a number."""
SHORTEST: Final = 0.5
"""SLEEP-31: a block that loses more of its text than this in one pass waits for a person."""
FULL: Final = "full"
"""Count of a pass that has looked at the whole bank, which it does once however often it is cut short."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BankWatermark:
    """How far a page has looked, as its bank counted when it began."""

    demotions: int
    """`Bank.demotions`."""
    edited_at: datetime | None
    """`Bank.edited_at`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageProgress:
    """What a part of a pass has worked through."""

    upto: int
    """Number of the last episode."""
    leftovers: Sequence[Leftover]
    """What of the bank is to be tried again from now on."""
    seen: BankWatermark | None = None
    """What of the bank's demotions and edits it has taken in; none if it is to look at them again."""
    full: bool = False
    """Whether it was the look at the whole bank."""


class Publisher:
    """Publishes and takes back."""

    def __init__(self, clock: Clock, effects: Effects) -> None:
        self._clock = clock
        self._effects = effects

    async def publish(
        self, tx: Tx, run: Pass, bank: Bank, changes: Sequence[Change], page: PageProgress, wrong: Sequence[str] = ()
    ) -> Pass:
        """Do what is proposed, as far as the rules and the bank let it; return the pass as it stands then.

        `wrong` is what the rules find wrong with each change, empty for nothing; nothing with any if it is empty.

        With `review` all waits for a person, and so does what is beyond a ceiling; with `dry_run` nothing is kept but
        the proposal, and the cursor stays. It stays too if the pass does only some of the operations.

        Raises:
            Conflict: the pass was taken over, cancelled or published by somebody else meanwhile; nothing is done.
        """
        present = await tx.passes.get(run.id)
        if present is None or replace(present, lease_until=run.lease_until) != run:
            raise Conflict(f"pass {run.id!r} is no longer this process'")
        before = await _fetch_demotions(tx, bank)
        first = await tx.passes.last_change_number(run.id) + 1
        numbered = [replace(each, pass_id=run.id, number=first + at) for at, each in enumerate(changes)]
        retired = await tx.passes.find_changes(run.id, state=ChangeState.PUBLISHED, kind=ChangeKind.RETIRE_NOTE)
        removed = sum(map(_is_removal, retired))
        ceiling = await self._retirement_limit(tx, bank)
        footing = await self._effects.fetch_source_rows(tx, numbered)
        written: list[Change] = []
        for change, why_not in zip(numbered, wrong or ("",) * len(numbered), strict=True):
            await asyncio.sleep(0)  # others want the event loop, too
            if _has_forgotten_source(change, footing):
                blank = replace(change, before=None, after=None)
                written.append(self._with_state(blank, ChangeState.REFUSED, FORGOTTEN))
                continue
            if why_not:
                written.append(self._with_state(change, ChangeState.REFUSED, why_not))
                continue
            retires = _is_removal(change)
            if run.dry_run or run.review or _is_shrinking(change) or (retires and removed >= ceiling):
                written.append(self._with_state(change, ChangeState.STAGED, change.why))
                continue
            removed += retires
            written.append(await self._apply(tx, bank, change, footing))
        await self._effects.flush_notes(tx, bank, footing)
        await tx.passes.save_changes(written)
        return await self._save_progress(tx, run, bank, written, page, before=before)

    async def accept(self, tx: Tx, run: Pass, bank: Bank, numbers: Collection[int] = ()) -> Sequence[Change]:
        """Do what waits for a person, all of it or these changes; return it with what came of it.

        Raises:
            NotFound: one of these does not wait.
        """
        before = await _fetch_demotions(tx, bank)
        staged = await _fetch_staged(tx, run, numbers)
        footing = await self._effects.fetch_source_rows(tx, staged)
        done: list[Change] = []
        for change in staged:
            if _is_blank(change):
                done.append(self._with_state(change, ChangeState.REFUSED, change.why))
            else:
                done.append(await self._apply(tx, bank, change, footing))
        await self._effects.flush_notes(tx, bank, footing)
        await tx.passes.save_changes(done)
        await _save_counts(tx, run, done)
        await _save_known_demotions(tx, bank, before)
        if any(each.state is ChangeState.PUBLISHED for each in done):
            await tx.banks.count_publication(bank.id)
        return done

    async def refuse(self, tx: Tx, run: Pass, numbers: Collection[int] = (), *, by: str) -> Sequence[Change]:
        """Let nothing of what waits for a person come about, all of it or these changes; return it as it stands.

        Raises:
            NotFound: one of these does not wait.
        """
        done = [
            self._with_state(each, ChangeState.REFUSED, each.why if _is_blank(each) else f"refused by {by}")
            for each in await _fetch_staged(tx, run, numbers)
        ]
        await tx.passes.save_changes(done)
        await _save_counts(tx, run, done)
        return done

    async def undo(self, tx: Tx, run: Pass, bank: Bank, *, by: str) -> Sequence[Change]:
        """Take back all that the pass did, the last first; return it with what came of it.

        What was changed by others since stays as they left it.
        """
        before = await _fetch_demotions(tx, bank)
        published = await tx.passes.find_changes(run.id, state=ChangeState.PUBLISHED)
        done: list[Change] = []
        for change in reversed(published):
            wrong = change.why if _is_blank(change) else await self._effects.undo(tx, bank, change)
            state = ChangeState.PUBLISHED if wrong else ChangeState.UNDONE
            done.append(self._with_state(change, state, f"not undone: {wrong}" if wrong else f"undone by {by}"))
        done.reverse()
        await tx.passes.save_changes(done)
        await _save_known_demotions(tx, bank, before)
        undone = [each for each in done if each.state is ChangeState.UNDONE]
        if undone:
            await tx.banks.count_publication(bank.id)
        if any(each.kind is ChangeKind.RETIRE_NOTE for each in undone):
            await tx.banks.bump_generation(bank.id)  # an index that was loaded meanwhile lacks them
        return done

    async def _apply(self, tx: Tx, bank: Bank, change: Change, footing: SourceRows) -> Change:
        done = await self._effects.apply(tx, bank, change, footing)
        if done.why_not:
            return self._with_state(done.change, ChangeState.REFUSED, done.why_not)
        return self._with_state(done.change, ChangeState.PUBLISHED, done.change.why)

    async def _retirement_limit(self, tx: Tx, bank: Bank) -> int:
        """Return how many notes this pass may retire; what is more waits for a person."""
        there = await tx.notes.count(bank.id)
        return max(1, min(CEILING_NOTES, int(there * CEILING_SHARE)))

    async def _save_progress(
        self, tx: Tx, run: Pass, bank: Bank, written: Sequence[Change], page: PageProgress, *, before: int
    ) -> Pass:
        """Write how far the pass is; the bank had so many demotions before those of the page."""
        counts = {**run.counts, FULL: 1} if page.full else dict(run.counts)
        for change in written:
            name = change.kind.value if change.state is ChangeState.PUBLISHED else change.state.value
            counts[name] = counts.get(name, 0) + 1
        generation = run.generation_after
        if any(each.state is ChangeState.PUBLISHED for each in written):
            await tx.banks.count_publication(bank.id)
            after = await tx.banks.get(bank.id)
            generation = None if after is None else after.published
        now = replace(run, counts=counts, generation_after=generation, after=page.upto)
        if not (run.dry_run or run.operations):  # what only some operations have read stays for all of them
            state = await tx.sleep_states.get(bank.id)
            seen = page.seen or BankWatermark(demotions=state.demotions, edited_at=state.edited_at)
            await tx.sleep_states.put(
                replace(
                    state, cursor=max(state.cursor, page.upto), leftovers=tuple(page.leftovers),
                    demotions=await _known_demotions(tx, bank, seen.demotions, before), edited_at=seen.edited_at,
                )
            )  # fmt: skip
        if not await tx.passes.save(now, origin=run):
            raise Conflict(f"pass {run.id!r} is no longer this process'")
        return now

    def _with_state(self, change: Change, state: ChangeState, why: str) -> Change:
        return replace(change, state=state, why=why, at=self._clock.now())


async def _fetch_staged(tx: Tx, run: Pass, numbers: Collection[int]) -> Sequence[Change]:
    """Return what of a pass waits for a person: all of it, or the changes of these numbers. Raises NotFound."""
    staged = await tx.passes.find_changes(run.id, state=ChangeState.STAGED)
    unknown = set(numbers).difference(each.number for each in staged)
    if unknown:
        raise NotFound(
            f"change {min(unknown)} of pass {run.id!r} does not wait; `circadia sleeptime diff` shows what does"
        )
    return [each for each in staged if not numbers or each.number in numbers]


async def _save_counts(tx: Tx, run: Pass, done: Sequence[Change]) -> None:
    """Write into the record of a pass what became of changes that waited."""
    counts = Counter(run.counts)
    for each in done:
        counts[ChangeState.STAGED.value] -= 1
        counts[each.kind.value if each.state is ChangeState.PUBLISHED else each.state.value] += 1
    if done:
        await tx.passes.save(replace(run, counts=dict(+counts)), origin=run)


async def _fetch_demotions(tx: Tx, bank: Bank) -> int:
    found = await tx.banks.get(bank.id)
    return 0 if found is None else found.demotions


async def _known_demotions(tx: Tx, bank: Bank, seen: int, before: int) -> int:
    """Return up to which demotion all are known, of so many that were `seen`: also to those since `before`, our own.

    If others have demoted something in between, which nobody has seen, all from there on is looked at.
    """
    return await _fetch_demotions(tx, bank) if seen == before else seen


async def _save_known_demotions(tx: Tx, bank: Bank, before: int) -> None:
    """Let no pass begin for what an earlier one did, or was taken back of it."""
    state = await tx.sleep_states.get(bank.id)
    known = await _known_demotions(tx, bank, state.demotions, before)
    if known != state.demotions:
        await tx.sleep_states.put(replace(state, demotions=known))


def _is_blank(change: Change) -> bool:
    return FORGOTTEN in change.why


def _has_forgotten_source(change: Change, footing: SourceRows) -> bool:
    """Return whether a source was forgotten since the change was proposed; its text must not be kept."""
    return any(each.startswith("epi_") and each not in footing.homes for each in source_ids_of(change))


def _is_removal(change: Change) -> bool:
    """Return whether something goes and nothing takes its place."""
    return change.kind is ChangeKind.RETIRE_NOTE and not (change.after or {}).get("instead")


def _is_shrinking(change: Change) -> bool:
    if change.kind is not ChangeKind.WRITE_BLOCK:
        return False
    before, after = str((change.before or {}).get("value", "")), str((change.after or {}).get("value", ""))
    return len(after) < len(before) * SHORTEST
