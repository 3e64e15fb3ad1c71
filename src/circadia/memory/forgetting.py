"""Delete episodes with all that rests on them, and nothing else (MEM-03)."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.banks import BankService
from circadia.memory.blocks import remove_episodes
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.event import EpisodeDeletion, EventType
from circadia.records.index_entry import Layer
from circadia.records.promotion import Promotion
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

IDS_PER_STATEMENT: Final = 500
"""Databases take some ten thousand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetCounts:
    episodes: int
    notes: int
    """Notes that rested on such an episode, or were named."""
    versions: int
    copies: int = 0
    """Copies of these notes in other banks."""


async def forget(tx: Tx, bank: Bank, ids: Collection[str], *, dry_run: bool = False) -> ForgetCounts:
    """Delete episodes, the notes that rest on them, and the parts of block versions that do.

    Demotions on such evidence are taken back. The bank's stored answers are deleted too, even if no episode matches.
    An id may also name a note, which is deleted alone, or an episode that an agent has forgotten. Copies of the notes
    in other banks are forgotten there, with what rests on them. `dry_run` only counts.
    """
    parts: list[list[EpisodeId]] = []
    kept_apart: list[EpisodeId] = []
    notes: set[NoteId] = set()
    for part in _batches(list(ids)):
        bank_ids = await tx.episodes.find_bank_ids(list(map(EpisodeId, part)))
        parts.append([episode_id for episode_id in map(EpisodeId, part) if bank_ids.get(episode_id) == bank.id])
        unknown_ids = [unknown_id for unknown_id in part if unknown_id not in bank_ids]
        kept_apart += await tx.forgotten_episodes.find_ids(bank.id, unknown_ids)
        named = await tx.notes.find_bank_ids(list(map(NoteId, unknown_ids)))
        notes.update(note_id for note_id, bank_id in named.items() if bank_id == bank.id)
        notes.update(await tx.notes.find_citing(parts[-1]))
        await asyncio.sleep(0)  # a database driver may run in the event loop, which others need
    forgotten_ids = frozenset(episode_id for part in parts for episode_id in part)
    cut = [
        block
        for block in await tx.blocks.versions(bank.id)
        if any(not forgotten_ids.isdisjoint(span.episodes) for span in block.spans)
    ]
    if not dry_run:  # an answer may repeat a forgotten text, or one never stored
        await tx.sleep_calls.forget_answers(bank.id)
        await tx.answers.clear(bank.id)
        for some in _batches(kept_apart):
            await tx.forgotten_episodes.remove(list(map(EpisodeId, some)))
        await tx.banks.bump_generation(bank.id, await _remove(tx, bank, parts, notes, cut))
    promoted = [each for part in _batches(sorted(notes)) for each in await tx.promotions.find_of_notes(_as_notes(part))]
    copies = await _forget_copies(tx, promoted, dry_run=dry_run)
    return ForgetCounts(
        episodes=len(forgotten_ids) + len(kept_apart), notes=len(notes), versions=len(cut), copies=copies
    )


async def _forget_copies(tx: Tx, promoted: Collection[Promotion], *, dry_run: bool) -> int:
    """Forget copies of notes in the banks that have them; return their number, with that of copies of what they led to.

    A bank whose key comes before one that is held is waited for only briefly.
    """
    by_bank: dict[BankId, list[str]] = {}
    for each in promoted:
        by_bank.setdefault(each.bank_id, []).append(each.episode_id)
    copies = 0
    for bank_id, ids in sorted(by_bank.items()):
        bank = await tx.banks.get(bank_id)
        if bank is not None:
            counts = await forget(tx, bank, ids, dry_run=dry_run)
            copies += counts.episodes + counts.copies
    if promoted and not dry_run:
        for part in _batches([each.note_id for each in promoted]):
            await tx.promotions.remove(_as_notes(part))
    return copies


async def delete_bank_page(tx: Tx, banks: BankService, bank: Bank, *, by: str) -> bool:
    """Delete a page of a bank, after the copies of its notes in other banks; return whether it is gone."""
    promoted = await tx.promotions.find_of_bank(bank.id, limit=IDS_PER_STATEMENT)
    if promoted:
        await _forget_copies(tx, promoted, dry_run=False)
        return False
    return await banks.delete(tx, bank, by=by)


def _as_notes(ids: Iterable[str]) -> list[NoteId]:
    return list(map(NoteId, ids))


async def _remove(
    tx: Tx, bank: Bank, parts: Sequence[Collection[EpisodeId]], notes: Set[NoteId], cut: Sequence[Block]
) -> Mapping[Layer, Sequence[int]]:
    forgotten_ids = frozenset(episode_id for part in parts for episode_id in part)
    numbers: dict[Layer, list[int]] = {layer: [] for layer in Layer}
    for some in _batches(sorted(notes)):
        numbers[Layer.NOTES] += await tx.notes.remove(_as_notes(some))
    for block in cut:
        await tx.blocks.rewrite_version(remove_episodes(block, forgotten_ids))
    for part in parts:
        numbers[Layer.EPISODES] += await tx.episodes.remove(part)
        await asyncio.sleep(0)
    if forgotten_ids or notes:
        await _withdraw_demotions(tx, bank, forgotten_ids | notes)
        await tx.passes.redact_changes(bank.id, forgotten_ids | notes)
    return numbers


async def _withdraw_demotions(tx: Tx, bank: Bank, gone: Collection[str]) -> None:
    """Take back demotions whose evidence is gone: their reasons may repeat it."""
    for episode_id, stale in (await tx.episodes.find_demotions(bank.id, gone)).items():
        kept_demotions = [demotion for demotion in stale if demotion.evidence not in gone]
        if len(kept_demotions) < len(stale):
            await tx.episodes.demote(episode_id, kept_demotions)
            await asyncio.sleep(0)
    for row in await tx.forgotten_episodes.find_all(bank.id):
        kept = tuple(demotion for demotion in row.episode.stale if demotion.evidence not in gone)
        if len(kept) < len(row.episode.stale):
            await tx.forgotten_episodes.save(replace(row, episode=replace(row.episode, stale=kept)))


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        yield ids[start : start + IDS_PER_STATEMENT]


async def find_old_episodes(tx: Tx, bank: Bank, now: datetime, *, limit: int) -> Sequence[EpisodeId]:
    """Return up to `limit` episodes older than the bank's `keep_days`."""
    days = bank.policy.keep_days
    if days is None or days >= (now - datetime.min.replace(tzinfo=UTC)).days:
        return ()
    return await tx.episodes.find_matching_ids(bank.id, until=now - timedelta(days=days), limit=limit)


async def forget_old_episodes(tx: Tx, events: EventLog, bank: Bank, now: datetime, *, limit: int) -> ForgetCounts:
    old = await find_old_episodes(tx, bank, now, limit=limit)
    return await forget_by_rule(tx, events, bank, old, keep_days=bank.policy.keep_days)


async def forget_by_rule(
    tx: Tx, events: EventLog, bank: Bank, ids: Collection[EpisodeId], *, keep_days: float | None = None
) -> ForgetCounts:
    """Forget episodes because their time has passed, or the bank's `keep_days`."""
    if not ids:
        return ForgetCounts(episodes=0, notes=0, versions=0)
    forget_counts = await forget(tx, bank, ids)
    if forget_counts.episodes:
        data = EpisodeDeletion(
            bank=bank.name, by="circadia", keep_days=keep_days, episodes=forget_counts.episodes,
            notes=forget_counts.notes, versions=forget_counts.versions,
        )  # fmt: skip
        await events.record(tx, EventType.FORGOTTEN, data)
    return forget_counts
