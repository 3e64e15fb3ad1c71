"""Applies and undoes each kind of change to a bank. Both return the reason for a refusal.

Keys of a change's `after`, by kind:
    add_note        id, kind, text, evidence (episode ids), importance, trust, at, ended (ids that it says are over),
                    context (id of the row that has it, for each name or number that the evidence lacks)
    retire_note     instead (id of the note that takes its place)
    demote_episode  reason, evidence, weight
    write_block     value, spans [[start, end, [episode ids]]], version (of the written block; set when it is)
and of its `before`:
    retire_note     text, evidence, belief (whether a pass has drawn it from what stays)
    write_block     value, spans, version (of the block that the pass has read; 0 for none)
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from circadia.clock import Clock
from circadia.errors import CircadiaError, Conflict
from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.memory.services import MemoryServices
from circadia.records.bank import Bank, Trust
from circadia.records.block import BlockSpan
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.change_rules import NOTE, source_ids_of
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.block_edits import EDIT, apply_edit
from circadia.sleeptime.publish.merge import merge_lines
from circadia.stores.base import Tx

K = TypeVar("K", bound=str)

BY: Final = "pass"
"""Writer of a pass's rows, before the pass id."""
READ_AT_ONCE: Final = 200
"""Ids that are read between two turns of the event loop."""
WRITTEN_AT_ONCE: Final = 20
"""Notes that are written between two turns."""


EffectResult = Change | str
"""The change as it was applied, or why it was not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRows:
    """The sources of one publication's changes, read once for all of them."""

    bank_ids: Mapping[EpisodeId, BankId]
    """The bank of each existing source."""
    existing_note_ids: set[NoteId]
    """Ids of notes to add that exist already; it grows with each added note."""
    new: dict[NoteId, Note]
    """Added notes that are not written yet."""


class Effects:
    def __init__(self, clock: Clock, memory: MemoryServices) -> None:
        self._clock = clock
        self._memory = memory
        self._apply: Mapping[ChangeKind, Callable[[Tx, Bank, Change, SourceRows], Awaitable[EffectResult]]] = {
            ChangeKind.ADD_NOTE: self._add_note,
            ChangeKind.RETIRE_NOTE: self._retire_note,
            ChangeKind.DEMOTE_EPISODE: self._demote_episode,
            ChangeKind.WRITE_BLOCK: self._write_block,
            ChangeKind.FLAG: self._add_flag,
        }
        self._undo: Mapping[ChangeKind, Callable[[Tx, Bank, Change], Awaitable[str]]] = {
            ChangeKind.ADD_NOTE: self._drop_note,
            ChangeKind.RETIRE_NOTE: self._restore_note,
            ChangeKind.DEMOTE_EPISODE: self._restore_episode,
            ChangeKind.WRITE_BLOCK: self._undo_block,
            ChangeKind.FLAG: self._remove_flag,
        }

    async def fetch_source_rows(self, tx: Tx, changes: Sequence[Change]) -> SourceRows:
        bank_ids: dict[EpisodeId, BankId] = {}
        for part in _split_batches(list(dict.fromkeys(key for change in changes for key in source_ids_of(change)))):
            bank_ids |= await tx.episodes.find_bank_ids(part)
            await asyncio.sleep(0)  # a writer may block the event loop, which others need
        existing_note_ids: set[NoteId] = set()
        for part in _split_batches([NoteId(change.target) for change in changes if change.kind is ChangeKind.ADD_NOTE]):
            existing_note_ids |= (await tx.notes.find_bank_ids(part)).keys()
            await asyncio.sleep(0)
        return SourceRows(bank_ids=bank_ids, existing_note_ids=existing_note_ids, new={})

    async def apply(self, tx: Tx, bank: Bank, change: Change, source_rows: SourceRows) -> EffectResult:
        """Apply a change if the bank still allows it; `flush_notes` completes the added notes."""
        return await self._apply[change.kind](tx, bank, change, source_rows)

    async def flush_notes(self, tx: Tx, bank: Bank, source_rows: SourceRows) -> None:
        new = list(source_rows.new.values())
        source_rows.new.clear()
        for at in range(0, len(new), WRITTEN_AT_ONCE):
            await tx.notes.add_all(new[at : at + WRITTEN_AT_ONCE])
            await asyncio.sleep(0)
        if new:
            await self._memory.episodes.touch(tx, bank)

    async def undo(self, tx: Tx, bank: Bank, change: Change) -> str:
        """Undo a change; return why that fails, empty if it does not."""
        return await self._undo[change.kind](tx, bank, change)

    async def _add_note(self, tx: Tx, bank: Bank, change: Change, source_rows: SourceRows) -> EffectResult:
        after = _after(change)
        evidence = tuple(source_ids_of(change))
        unknown_ids = [episode_id for episode_id in evidence if source_rows.bank_ids.get(episode_id) != bank.id]
        if unknown_ids:
            return f"{len(unknown_ids)} of its sources are not in this bank any more"
        if NoteId(change.target) in source_rows.existing_note_ids:
            return "there is this note already"
        at = datetime.fromisoformat(str(after["at"]))
        note = Note(
            id=NoteId(str(after["id"])),
            number=0,
            bank_id=bank.id,
            kind=NoteKind(str(after["kind"])),
            text=str(after["text"]),
            evidence=evidence,
            trust=Trust(str(after["trust"])),
            at=at,
            importance=cast("float | None", after.get("importance")),
            pass_id=change.pass_id,
            operation=change.operation,
            created_at=self._clock.now(),
            terms=projected_notes.note_terms(str(after["text"])),
        )
        source_rows.existing_note_ids.add(note.id)
        source_rows.new[note.id] = note
        return change

    async def _drop_note(self, tx: Tx, bank: Bank, change: Change) -> str:
        """Retire the note: changes of later passes may name it."""
        await tx.notes.retire(NoteId(change.target), self._clock.now())
        return ""

    async def _retire_note(self, tx: Tx, bank: Bank, change: Change, source_rows: SourceRows) -> EffectResult:
        if change.target in source_rows.new:
            await self.flush_notes(tx, bank, source_rows)
        note = await tx.notes.get(bank.id, NoteId(change.target))
        if note is None or note.retired_at is not None:
            return "there is no such note any more"
        if not await _is_note_present(tx, bank, str(_after(change).get("instead", "")), source_rows):
            return "its replacement does not exist"
        ends = await _find_time(tx, bank, str(_after(change).get("instead", "")), source_rows)
        now = self._clock.now()
        await tx.notes.retire(note.id, now, valid_to=max(ends or now, note.at))
        return change

    async def _restore_note(self, tx: Tx, bank: Bank, change: Change) -> str:
        if await tx.notes.get(bank.id, NoteId(change.target)) is None:
            return "the note was forgotten"
        of_it = await tx.passes.find_changes_of(bank.id, change.target)
        if any(change.kind is ChangeKind.ADD_NOTE and change.state is ChangeState.UNDONE for change in of_it):
            return "the pass that made the note is undone"
        await tx.notes.retire(NoteId(change.target), None)
        return ""

    async def _demote_episode(self, tx: Tx, bank: Bank, change: Change, source_rows: SourceRows) -> EffectResult:
        after = _after(change)
        if not await _is_note_present(tx, bank, str(after["evidence"]), source_rows):
            return "the note with the evidence does not exist"
        try:
            new = await self._memory.episodes.demote(
                tx, bank, EpisodeId(change.target), by=f"{BY} {change.pass_id}", reason=str(after["reason"]),
                evidence=str(after["evidence"]), weight=float(cast("float", after["weight"])),
                valid_to=await _find_time(tx, bank, str(after["evidence"]), source_rows),
            )  # fmt: skip
        except CircadiaError as error:
            return error.message
        return change if new else "it was demoted for this already"

    async def _restore_episode(self, tx: Tx, bank: Bank, change: Change) -> str:
        try:
            await self._memory.episodes.restore(
                tx, bank, EpisodeId(change.target), evidence=str(_after(change)["evidence"])
            )
        except CircadiaError as error:
            return error.message
        return ""

    async def _write_block(self, tx: Tx, bank: Bank, change: Change, source_rows: SourceRows) -> EffectResult:
        """Write a block, merged with what others wrote since the pass read it (SLEEP-30)."""
        before, after = change.before or {}, _after(change)
        latest = await tx.blocks.get_latest(bank.id, change.target)
        version, theirs = (latest.version, "" if latest.deleted else latest.value) if latest else (0, "")
        value, why = str(after["value"]), change.why
        spans = _parse_spans(after.get("spans"))
        edit_alone = cast("Mapping[str, Any]", after.get(EDIT) or {})
        if version != before.get("version", 0) and edit_alone and latest is not None and not latest.deleted:
            edited = apply_edit(
                latest, edit_alone["old"], edit_alone["new"], edit_alone["ids"], edit_alone.get("also", ())
            )
            if edited is None:
                return "what it replaces was written anew meanwhile"
            value, spans, why = edited.value, edited.spans, f"{why} (made in version {version})"
        elif version != before.get("version", 0):
            merged = merge_lines(str(before.get("value", "")), ours=value, theirs=theirs)
            if merged.lost or merged.text == theirs:
                return "it was written by somebody else meanwhile"
            value, why = merged.text, f"{why} (merged with version {version})"
            spans = None
        edit = BlockUpdate(
            value=value, spans=spans, expected_version=version if latest and not latest.deleted else 0, why=why,
            operation=change.operation,
        )  # fmt: skip
        try:
            block = await self._memory.blocks.write(
                tx, bank, change.target, edit, writer=BlockAuthor.SLEEP, by=f"{BY} {change.pass_id}"
            )
        except CircadiaError as error:
            return error.message
        written = {**after, "value": block.value, "version": block.version}
        return replace(change, after=written, why=why)

    async def _undo_block(self, tx: Tx, bank: Bank, change: Change) -> str:
        """Remove the pass's lines and leave what others wrote since; return why some lines stay."""
        before, after = change.before or {}, _after(change)
        latest = await tx.blocks.get_latest(bank.id, change.target)
        if latest is None or latest.deleted:
            return "the block was deleted since"
        merged = merge_lines(str(after["value"]), ours=str(before.get("value", "")), theirs=latest.value, undoing=True)
        left = "the same lines were written by somebody else since" if merged.lost else ""
        if merged.text == latest.value:
            return left
        edit = BlockUpdate(value=merged.text, expected_version=latest.version, why=f"undo of {change.pass_id}")
        try:
            if not merged.text and not before.get("version"):
                await self._memory.blocks.delete(
                    tx, bank, change.target, writer=BlockAuthor.SLEEP, by=f"{BY} {change.pass_id}", why=edit.why
                )
            else:
                await self._memory.blocks.write(
                    tx, bank, change.target, edit, writer=BlockAuthor.SLEEP, by=f"{BY} {change.pass_id}"
                )
        except Conflict as error:
            return error.message
        return f"{left}; the others are taken back" if left else ""

    async def _add_flag(self, tx: Tx, bank: Bank, change: Change, source_rows: SourceRows) -> EffectResult:
        """Return the flag, whose row is the change, without the notes that do not exist."""
        ids = [change.target, *cast("Sequence[str]", _after(change).get("evidence", ()))]
        notes = [NoteId(key) for key in dict.fromkeys(ids) if key.startswith(NOTE) and key not in source_rows.new]
        known = await tx.notes.find_bank_ids(notes)
        flag = drop_note_ids(change, {key for key in notes if known.get(key) != bank.id})
        return flag or "nothing that it is about exists"

    async def _remove_flag(self, tx: Tx, bank: Bank, change: Change) -> str:
        return ""


def drop_note_ids(change: Change, gone: Collection[str]) -> Change | None:
    """Return a change, a flag without these notes among its evidence; none if it is about nothing else."""
    if change.kind is not ChangeKind.FLAG:
        return change
    after = _after(change)
    named = cast("Sequence[str]", after.get("evidence", ()))
    left = [key for key in named if key not in gone]
    target = next((key for key in (change.target, *left) if key not in gone), "")
    return replace(change, target=target, after={**after, "evidence": left}) if target else None


def _split_batches(ids: Sequence[K]) -> Iterator[Sequence[K]]:
    for start in range(0, len(ids), READ_AT_ONCE):
        yield ids[start : start + READ_AT_ONCE]


async def _is_note_present(tx: Tx, bank: Bank, key: str, source_rows: SourceRows) -> bool:
    """Return whether the named note exists and is not retired; true if the key names no note."""
    if not key.startswith(NOTE) or key in source_rows.new:
        return True
    note = await tx.notes.get(bank.id, NoteId(key))
    return note is not None and note.retired_at is None


async def _find_time(tx: Tx, bank: Bank, key: str, source_rows: SourceRows) -> datetime | None:
    """Return the time of the named note or episode; None if the key names neither."""
    row = source_rows.new.get(NoteId(key)) or await tx.notes.get(bank.id, NoteId(key))
    row = row or await tx.episodes.get(bank.id, EpisodeId(key))
    return None if row is None else row.at


def _after(change: Change) -> Mapping[str, object]:
    return change.after or {}


def _parse_spans(given: object) -> Sequence[BlockSpan] | None:
    if given is None:
        return None
    return tuple(
        BlockSpan(start=int(start), end=int(end), episodes=tuple(EpisodeId(episode_id) for episode_id in episodes))
        for start, end, episodes in cast("Sequence[tuple[Any, Any, Any]]", given)
    )
