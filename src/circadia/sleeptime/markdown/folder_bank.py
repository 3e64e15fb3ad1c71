"""The bank of a memory folder, and what it takes in: each entry of its files is a note, with itself as the source.

Files and rows refer to each other by the text alone, so a folder that anybody edits needs no identifiers in it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.ids import NoteId
from circadia.memory.banks import NewBank
from circadia.memory.episodes import MAX_CHARACTERS, NewEpisode, is_text
from circadia.memory.redaction import redact
from circadia.memory.services import MemoryServices
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.episode import EpisodeKind
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.change_rules import NOTE, split_rows
from circadia.sleeptime.markdown.anchored_folder import RETIRED_FOLDER, open_anchored
from circadia.sleeptime.markdown.entries import Document, MarkdownBlock
from circadia.sleeptime.markdown.links import IndexLine, find_index_lines
from circadia.sleeptime.markdown.memory_folder import MemoryFile, MemoryFolder, read_folder
from circadia.sleeptime.proposals import projected_notes
from circadia.stores.base import Store, Tx

BANK: Final = "folder"
"""Name of the only bank in a folder's database."""
POLICY: Final = BankPolicy(sleeptime={"when": "manual", "review": True, "max_rethinks": 0})
"""Passes begin by a dream alone, and change nothing that its files do not say."""
SPEAKER: Final = "memory"
"""Speaker of the entries."""
AT_ONCE: Final = 200
"""Rows of one transaction."""
REMOVED: Final = "removed from the folder"
"""Reason of a note that left the files without a dream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderEntry:
    """One entry of a file, as a bank takes it in."""

    file: PurePosixPath
    """The file that it is about: of a line of the index, the one to which that leads."""
    text: str
    at: datetime
    """When its file was last changed."""
    block: MarkdownBlock
    is_pinned: bool

    @property
    def note_text(self) -> str:
        """Its text as its note has it: without the secrets that redaction knows (DREAM-13)."""
        return redact(self.text)


class FolderBank:
    def __init__(self, clock: Clock, store: Store, memory: MemoryServices) -> None:
        self._clock = clock
        self._store = store
        self._memory = memory

    async def open(self) -> Bank:
        """Return the bank; create it at the first dream."""
        async with self._store.begin_write() as tx:
            bank = await tx.banks.get_by_name(BANK)
            if bank is None:
                return await self._memory.banks.create(tx, NewBank(name=BANK, policy=POLICY), by=SPEAKER)
            if bank.policy != POLICY:
                bank = await self._memory.banks.change(tx, bank, by=SPEAKER, policy=POLICY)
            return bank

    async def take_in_entries(self, bank: Bank, entries: Sequence[FolderEntry]) -> None:
        """Make the notes those of the files: entries by others become notes, and notes without an entry retire."""
        wanted = {
            text: entry
            for entry in reversed(entries)  # the first of equal ones stays
            if (text := entry.note_text).strip() and len(text) <= MAX_CHARACTERS and is_text(text)
        }
        notes = {note.text: note for note in await self.fetch_notes(bank)}
        added = [replace(entry, text=text) for text, entry in wanted.items() if text not in notes]
        removed = [note for text, note in notes.items() if text not in wanted]
        for part in split_rows(reversed(added), AT_ONCE):
            async with self._store.begin_write() as tx:
                await self._add_entries(tx, bank, part)
        for part in split_rows(removed, AT_ONCE):
            async with self._store.begin_write() as tx:
                for note in part:
                    await self._retire_note(tx, bank, note)

    async def take_in_turns(self, bank: Bank, turns: Iterable[NewEpisode]) -> int:
        """Store the turns that the bank does not have; return how many are new."""
        new = 0
        for part in split_rows(turns, AT_ONCE):
            async with self._store.begin_write() as tx:
                for turn in part:
                    at = None if turn.at is None else min(turn.at, self._clock.now())  # a wrong clock would lose it
                    with suppress(Conflict):  # the session's file was rewritten: what was read first stays
                        new += (await self._memory.episodes.remember(tx, bank, replace(turn, at=at))).new
        return new

    async def fetch_notes(self, bank: Bank) -> Sequence[Note]:
        """Return all notes that are not retired, in order."""
        found: list[Note] = []
        while True:
            async with self._store.begin_read() as tx:
                after = found[-1].number if found else 0
                page = await tx.notes.find_all(bank.id, after=after, limit=5 * AT_ONCE)
            found += page
            if not page:
                return found

    async def _add_entries(self, tx: Tx, bank: Bank, entries: Sequence[FolderEntry]) -> None:
        new: list[Note] = []
        for entry in entries:
            given = NewEpisode(
                text=entry.text, speaker=SPEAKER, trust=Trust.PERSON if entry.is_pinned else Trust.AGENT,
                at=min(entry.at, self._clock.now()), kind=EpisodeKind.FACT, conversation=None,
                metadata={"file": str(entry.file), "line": entry.block.line},
            )  # fmt: skip
            episode = (await self._memory.episodes.remember(tx, bank, given)).episode
            digest = hashlib.sha256("\0".join((bank.id, episode.id, entry.text)).encode()).hexdigest()
            key = NoteId(f"{NOTE}{digest[:28]}")  # the same when the entry comes back
            if await tx.notes.get(bank.id, key) is not None:
                await tx.notes.retire(key, None)
                continue
            new.append(
                Note(
                    id=key, number=0, bank_id=bank.id, kind=NoteKind.CONSOLIDATION, text=entry.text,
                    evidence=(episode.id,), trust=episode.trust, at=episode.at, created_at=self._clock.now(),
                    terms=projected_notes.note_terms(entry.text),
                )
            )  # fmt: skip
        await tx.notes.add_all(new)
        await self._memory.episodes.touch(tx, bank)

    async def _retire_note(self, tx: Tx, bank: Bank, note: Note) -> None:
        """Retire a note, and its sources with it, so that no later pass writes it again."""
        await tx.notes.retire(note.id, self._clock.now(), valid_to=self._clock.now())
        for episode_id in note.evidence:
            if await tx.episodes.get(bank.id, episode_id) is not None:
                await self._memory.episodes.demote(
                    tx, bank, episode_id, by=SPEAKER, reason=REMOVED, evidence=f"{REMOVED}: {note.id}"
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderSnapshot:
    folder: MemoryFolder
    documents: Mapping[PurePosixPath, Document]
    entries: Sequence[FolderEntry]
    descriptions: Mapping[PurePosixPath, FolderEntry]
    """What is said of each topic file: in its front matter, else in its line of the index."""

    def contents_of(self, path: PurePosixPath) -> bytes | None:
        """Return what a file held, or a file of retired entries holds; None: there was none."""
        if not path.is_relative_to(RETIRED_FOLDER):
            return self.documents[path].data if path in self.documents else None
        with open_anchored(self.folder.root) as opened:
            return opened.read_file(path)

    @property
    def all_entries(self) -> Sequence[FolderEntry]:
        return [*self.entries, *self.descriptions.values()]

    @property
    def texts(self) -> Mapping[str, Sequence[FolderEntry]]:
        """The entries and descriptions by their texts, as notes have them."""
        texts: dict[str, list[FolderEntry]] = {}
        for entry in self.all_entries:
            texts.setdefault(entry.note_text, []).append(entry)
        return texts


def take_snapshot(root: Path) -> FolderSnapshot:
    """Read the folder. Raises InvalidRequest: it is none."""
    folder = read_folder(root)
    documents = {file.path: file.document for file in folder.files}
    lines = list(find_index_lines(folder.index.path, documents[folder.index.path])) if folder.index else []
    index_lines = {line.entry for line in lines}  # they only say where; a log is a source as sessions are
    entries = [
        _new_entry(file, block)
        for file in folder.files
        for block in (() if file.is_log else file.document.entries)
        if file is not folder.index or block not in index_lines
    ]
    descriptions = {entry.file: entry for entry in _descriptions_of(folder, documents, lines)}
    return FolderSnapshot(folder=folder, documents=documents, entries=entries, descriptions=descriptions)


def _descriptions_of(
    folder: MemoryFolder, documents: Mapping[PurePosixPath, Document], index_lines: Sequence[IndexLine]
) -> Iterator[FolderEntry]:
    for file in folder.topics:
        if file.document.description is not None and not file.is_log:
            yield _new_entry(file, file.document.description)
    for line in index_lines:
        document = documents.get(line.target)
        if document is not None and document.description is None and line.hook and folder.index is not None:
            yield replace(_new_entry(folder.index, line.entry), file=line.target, text=line.hook)


def _new_entry(file: MemoryFile, block: MarkdownBlock) -> FolderEntry:
    return FolderEntry(
        file=file.path, text=block.text, at=file.changed_at, block=block,
        is_pinned=block.is_pinned or file.document.is_fixed,
    )  # fmt: skip
