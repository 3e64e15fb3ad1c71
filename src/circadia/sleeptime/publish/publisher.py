"""Publishes and undoes what a pass proposes: the only writer of derived memory (SLEEP-30 … SLEEP-32).

One transaction applies each change that breaks no rule, records all changes with their results, moves the cursor, and
updates the pass's row and the bank's generation. So readers see all or nothing, and a failure can be retried.
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
from circadia.records.sleep_pass import Leftover, Pass
from circadia.sleeptime.grounding.change_rules import NOTE, UNKNOWN, source_ids_of
from circadia.sleeptime.proposals.block_edits import edit_key
from circadia.sleeptime.publish.effects import Effects, SourceRows, drop_note_ids
from circadia.stores.base import Tx

CEILING_SHARE: Final = 0.05
"""SLEEP-31: share of a bank's notes that one pass may retire."""
CEILING_NOTES: Final = 20
"""SLEEP-31: number of notes that one pass may retire."""
FREE_BELIEFS: Final = 6
"""Beliefs that one pass may retire besides: as many as one question judges. A false one stands first in the blocks, and
its loss takes no source: what it was drawn from stays, and its like can be drawn again."""
SHORTEST: Final = 0.5
"""SLEEP-31: a block that would keep less of its text than this waits for a person."""
WAITING: Final = 200
"""Proposals of a bank among which an edit that would wait for a person is looked for."""
FULL: Final = "full"
"""Count of a pass that has read the whole bank: once, however often it is interrupted."""
UNREAD: Final = "unread_characters"
"""Count of what no pass can read, since it was not stored (MEM-30)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BankWatermark:
    """How far a page has read, by the bank's counters at its start."""

    demotions: int
    edited_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PageProgress:
    upto: int
    leftovers: Sequence[Leftover]
    """All leftovers of the bank from now on."""
    watermark: BankWatermark | None = None
    """The processed demotions and edits; none to read them again."""
    full: bool = False
    unread: int = 0
    """Characters of the page's turns that were too long to be stored."""


class Publisher:
    def __init__(self, clock: Clock, effects: Effects) -> None:
        self._clock = clock
        self._effects = effects

    async def publish(
        self, tx: Tx, run: Pass, bank: Bank, changes: Sequence[Change], page: PageProgress, wrong: Sequence[str] = ()
    ) -> Pass:
        """Apply the changes that the rules and the bank allow; return the updated pass.

        `wrong` holds the rule violation of each change, empty without one; it may be empty as a whole.

        With `review` all changes are staged for a person; without it, those beyond a limit are. With `dry_run` only the
        proposal is stored. The cursor stays in a dry run, and if the pass runs only some of the operations.

        Raises:
            Conflict: The pass was taken over, cancelled or published by another process; nothing is changed.
        """
        present = await tx.passes.get(run.id)
        if present is None or replace(present, lease_until=run.lease_until) != run:
            raise Conflict(f"pass {run.id!r} was taken over or has ended")
        before = await _fetch_demotions(tx, bank)
        first = await tx.passes.last_change_number(run.id) + 1
        numbered = [replace(change, pass_id=run.id, number=first + at) for at, change in enumerate(changes)]
        retired = await tx.passes.find_changes(run.id, state=ChangeState.PUBLISHED, kind=ChangeKind.RETIRE_NOTE)
        removed = [change for change in retired if _is_removal(change)]
        ceiling = await self._retirement_limit(tx, bank)
        source_rows = await self._effects.fetch_source_rows(tx, numbered)
        waiting = await _find_waiting_edits(tx, bank, numbered)
        written: list[Change] = []
        for change, why_not in zip(numbered, wrong or ("",) * len(numbered), strict=True):
            await asyncio.sleep(0)  # others need the event loop too
            if _has_forgotten_source(change, source_rows):
                blank = replace(change, before=None, after=None)
                written.append(self._with_state(blank, ChangeState.REFUSED, FORGOTTEN))
                continue
            if why_not:
                written.append(self._with_state(change, ChangeState.REFUSED, why_not))
                continue
            change = drop_note_ids(change, _list_refused_notes(written)) or change
            if edit_key(change) in waiting:
                written.append(
                    self._with_state(change, ChangeState.REFUSED, "the same edit waits for a person already")
                )
                continue
            retires = _is_removal(change)
            exceeds = retires and _count_toward_ceiling([*removed, change]) > ceiling
            if run.dry_run or run.review or exceeds or _waits(change):
                written.append(self._with_state(change, ChangeState.STAGED, change.why))
                continue
            removed += [change] if retires else []
            written.append(await self._apply(tx, bank, change, source_rows))
        await self._effects.flush_notes(tx, bank, source_rows)
        await tx.passes.save_changes(written)
        return await self._save_progress(tx, run, bank, written, page, before=before)

    async def accept(
        self, tx: Tx, run: Pass, bank: Bank, numbers: Collection[int] = (), *, by: str
    ) -> Sequence[Change]:
        """Apply staged changes, all or these; return them with their results. Raises NotFound: one is not staged."""
        before = await _fetch_demotions(tx, bank)
        staged = await _fetch_staged(tx, run, numbers)
        source_rows = await self._effects.fetch_source_rows(tx, staged)
        done: list[Change] = []
        for change in staged:
            if _is_blank(change):
                done.append(self._with_state(change, ChangeState.REFUSED, change.why))
            else:
                applied = await self._apply(tx, bank, change, source_rows)
                done.append(_note_acceptance(applied, by) if applied.state is ChangeState.PUBLISHED else applied)
        await self._effects.flush_notes(tx, bank, source_rows)
        await tx.passes.save_changes(done)
        await _save_counts(tx, run, done)
        await _save_known_demotions(tx, bank, before)
        if any(change.state is ChangeState.PUBLISHED for change in done):
            await tx.banks.count_publication(bank.id)
        return done

    async def refuse(self, tx: Tx, run: Pass, numbers: Collection[int] = (), *, by: str) -> Sequence[Change]:
        """Refuse staged changes, all or these; return them. Raises NotFound: one is not staged."""
        done = [
            self._with_state(change, ChangeState.REFUSED, change.why if _is_blank(change) else f"refused by {by}")
            for change in await _fetch_staged(tx, run, numbers)
        ]
        await tx.passes.save_changes(done)
        await _save_counts(tx, run, done)
        return done

    async def undo(self, tx: Tx, run: Pass, bank: Bank, numbers: Collection[int] = (), *, by: str) -> Sequence[Change]:
        """Undo a pass's changes, the last first, all or these; return them with their results.

        Later changes by others stay.

        Raises:
            NotFound: One is not published. Conflict: Later changes of the pass rest on these, and are not among them.
        """
        before = await _fetch_demotions(tx, bank)
        published = await _fetch_published(tx, run, numbers)
        done: list[Change] = []
        for change in reversed(published):
            wrong = change.why if _is_blank(change) else await self._effects.undo(tx, bank, change)
            state = ChangeState.PUBLISHED if wrong else ChangeState.UNDONE
            done.append(self._with_state(change, state, f"not undone: {wrong}" if wrong else f"undone by {by}"))
        done.reverse()
        await tx.passes.save_changes(done)
        await _save_known_demotions(tx, bank, before)
        undone = [change for change in done if change.state is ChangeState.UNDONE]
        if undone:
            await tx.banks.count_publication(bank.id)
        if any(change.kind is ChangeKind.RETIRE_NOTE for change in undone):
            await tx.banks.bump_generation(bank.id)  # an index loaded meanwhile lacks them
        return done

    async def _apply(self, tx: Tx, bank: Bank, change: Change, source_rows: SourceRows) -> Change:
        done = await self._effects.apply(tx, bank, change, source_rows)
        if isinstance(done, str):
            return self._with_state(change, ChangeState.REFUSED, done)
        return self._with_state(done, ChangeState.PUBLISHED, done.why)

    async def _retirement_limit(self, tx: Tx, bank: Bank) -> int:
        """Return how many notes this pass may retire; more wait for a person."""
        note_count = await tx.notes.count(bank.id)
        return max(1, min(CEILING_NOTES, int(note_count * CEILING_SHARE)))

    async def _save_progress(
        self, tx: Tx, run: Pass, bank: Bank, written: Sequence[Change], page: PageProgress, *, before: int
    ) -> Pass:
        """Record the pass's progress; `before` counts the bank's demotions before those of the page."""
        counts = {**run.counts, FULL: 1} if page.full else dict(run.counts)
        for change in written:
            name = change.kind.value if change.state is ChangeState.PUBLISHED else change.state.value
            counts[name] = counts.get(name, 0) + 1
        if page.unread:
            counts[UNREAD] = counts.get(UNREAD, 0) + page.unread
        generation = run.generation_after
        if any(change.state is ChangeState.PUBLISHED for change in written):
            await tx.banks.count_publication(bank.id)
            after = await tx.banks.get(bank.id)
            generation = None if after is None else after.published
        now = replace(run, counts=counts, generation_after=generation, after=page.upto)
        if not (run.dry_run or run.operations):  # episodes that only some operations have read stay unread
            state = await tx.sleep_states.get(bank.id)
            mark = page.watermark or BankWatermark(demotions=state.demotions, edited_at=state.edited_at)
            await tx.sleep_states.put(
                replace(
                    state, cursor=max(state.cursor, page.upto), leftovers=tuple(page.leftovers),
                    demotions=await _known_demotions(tx, bank, mark.demotions, before), edited_at=mark.edited_at,
                    unstored_turns=0,
                )
            )  # fmt: skip
        if not await tx.passes.save(now, origin=run):
            raise Conflict(f"pass {run.id!r} was taken over or has ended")
        return now

    def _with_state(self, change: Change, state: ChangeState, why: str) -> Change:
        return replace(change, state=state, why=why, at=self._clock.now())


async def _fetch_staged(tx: Tx, run: Pass, numbers: Collection[int]) -> Sequence[Change]:
    """Return a pass's staged changes: all, or those with these numbers. Raises NotFound."""
    staged = await tx.passes.find_changes(run.id, state=ChangeState.STAGED)
    unknown = set(numbers).difference(change.number for change in staged)
    if unknown:
        raise NotFound(
            f"change {min(unknown)} of pass {run.id!r} does not wait; `circadia passes diff` shows what does"
        )
    return [change for change in staged if not numbers or change.number in numbers]


async def _fetch_published(tx: Tx, run: Pass, numbers: Collection[int]) -> Sequence[Change]:
    """Return a pass's published changes: all, or those with these numbers. Raises NotFound, Conflict."""
    published = await tx.passes.find_changes(run.id, state=ChangeState.PUBLISHED)
    unknown = set(numbers).difference(change.number for change in published)
    if unknown:
        raise NotFound(
            f"change {min(unknown)} of pass {run.id!r} is not published; `circadia passes diff` shows which are"
        )
    if not numbers:
        return published
    if dependent := _find_dependent(published, numbers):
        these = ", ".join(map(str, dependent))
        raise Conflict(f"later changes of pass {run.id!r} rest on these; undo them too, or first: {these}")
    return [change for change in published if change.number in numbers]


def _find_dependent(changes: Sequence[Change], numbers: Collection[int]) -> Sequence[int]:
    """Return the numbers of the later changes that rest on those with these numbers, and are not among them.

    A change rests on an earlier one of the same target, and on one that adds the note which replaces its target or
    shows it to be stale: without that note, the bank would lose what it says.
    """
    targets: set[str] = set()
    dependent: list[int] = []
    for change in changes:
        after = change.after or {}
        shown_by = after.get("instead") or (after.get("evidence") if change.kind is ChangeKind.DEMOTE_EPISODE else "")
        if change.number not in numbers:
            if change.target not in targets and not (str(shown_by).startswith(NOTE) and shown_by in targets):
                continue
            dependent.append(change.number)
        targets.add(change.target)
    return dependent


async def _save_counts(tx: Tx, run: Pass, done: Sequence[Change]) -> None:
    counts = Counter(run.counts)
    for change in done:
        counts[ChangeState.STAGED.value] -= 1
        counts[change.kind.value if change.state is ChangeState.PUBLISHED else change.state.value] += 1
    if done:
        await tx.passes.save(replace(run, counts=dict(+counts)), origin=run)


async def _fetch_demotions(tx: Tx, bank: Bank) -> int:
    present = await tx.banks.get(bank.id)
    return 0 if present is None else present.demotions


async def _known_demotions(tx: Tx, bank: Bank, watermark: int, before: int) -> int:
    """Return the number of known demotions: all if `watermark` equals `before`, since later ones are our own.

    Otherwise others demoted something in between, and everything after `watermark` is read again.
    """
    return await _fetch_demotions(tx, bank) if watermark == before else watermark


async def _save_known_demotions(tx: Tx, bank: Bank, before: int) -> None:
    """Keep the demotions of an earlier pass, or their undo, from triggering a pass."""
    state = await tx.sleep_states.get(bank.id)
    known = await _known_demotions(tx, bank, state.demotions, before)
    if known != state.demotions:
        await tx.sleep_states.put(replace(state, demotions=known))


def _note_acceptance(change: Change, by: str) -> Change:
    """Add to the reason of a change who has let it in."""
    return replace(change, why="; ".join(filter(None, (change.why, f"accepted by {by}"))))


def _is_blank(change: Change) -> bool:
    return FORGOTTEN in change.why


def _has_forgotten_source(change: Change, source_rows: SourceRows) -> bool:
    """Return whether a source was forgotten since the change was proposed; then its text must not be kept."""
    return any(
        source_id not in source_rows.bank_ids and not source_id.startswith(UNKNOWN)
        for source_id in source_ids_of(change)
    )


def _list_refused_notes(changes: Sequence[Change]) -> Collection[str]:
    return {
        change.target
        for change in changes
        if change.kind is ChangeKind.ADD_NOTE and change.state is ChangeState.REFUSED
    }


async def _find_waiting_edits(tx: Tx, bank: Bank, changes: Sequence[Change]) -> Collection[tuple[str, str, str]]:
    """Return the edits of blocks that wait for a person, if one of these changes would."""
    if not any((change.after or {}).get("waits") for change in changes):
        return ()
    staged = await tx.passes.find_staged(bank_id=bank.id, limit=WAITING)
    return [key for _, change in staged if (key := edit_key(change))]


def _is_removal(change: Change) -> bool:
    """Return whether a note is retired without a replacement."""
    return change.kind is ChangeKind.RETIRE_NOTE and not (change.after or {}).get("instead")


def _count_toward_ceiling(removed: Sequence[Change]) -> int:
    beliefs = sum(bool((change.before or {}).get("belief")) for change in removed)
    return len(removed) - min(beliefs, FREE_BELIEFS)


def _waits(change: Change) -> bool:
    """Return whether a person must accept a block: it would lose much, or rests on no person's and no agent's word."""
    if change.kind is not ChangeKind.WRITE_BLOCK:
        return False
    if (change.after or {}).get("waits"):
        return True
    before, after = str((change.before or {}).get("value", "")), str((change.after or {}).get("value", ""))
    return len(after) < len(before) * SHORTEST
