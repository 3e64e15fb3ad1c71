"""Store protocols for memory: banks, episodes, notes and blocks."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.episode import Demotion, Episode
from circadia.records.index_entry import Excerpt, IndexDelta, IndexEntry, Layer
from circadia.records.note import Note, NoteState

Key = TypeVar("Key")
Row_co = TypeVar("Row_co", covariant=True)


class Banks(Protocol):
    async def add(self, bank: Bank) -> None:
        """Store a new bank. Raises Conflict if its name is taken."""
        ...

    async def get(self, bank_id: BankId) -> Bank | None: ...

    async def get_by_name(self, name: str) -> Bank | None: ...

    async def find_names(self, ids: Collection[BankId]) -> Mapping[BankId, str]:
        """Return the names of these banks."""
        ...

    async def get_by_end_user(self, template: str, end_user: str) -> Bank | None:
        """Return the bank that this person has from the template."""
        ...

    async def names_near(self, name: str) -> Sequence[str]:
        """Return a few names that are alphabetically near this one."""
        ...

    async def find_by_names(self, names: Collection[str]) -> Sequence[Bank]: ...

    async def find_all(
        self,
        *,
        template: str | None = None,
        named: Collection[str] | None = None,
        expiring: bool = False,
        after: str = "",
        limit: int | None = None,
    ) -> Sequence[Bank]:
        """Return banks by name that match all given conditions.

        `named` holds names and templates, one of which must match. With `expiring`, only those whose policy has
        `keep_days`. `after` is an exclusive lower bound of the name.
        """
        ...

    async def fetch_index_delta(
        self,
        bank_id: BankId,
        *,
        after: Mapping[Layer, int],
        waiting: Mapping[Layer, Collection[int]],
        limit: int,
        seen: int | None = None,
    ) -> IndexDelta:
        """Return the rows after these numbers, up to `limit` per layer, and vectors of rows that waited for one.

        Vectors are not read if none was written since `IndexDelta.embedded` was `seen`.
        """
        ...

    async def save(self, bank: Bank) -> None:
        """Write name, description and policy. Raises Conflict if the name is taken."""
        ...

    async def bump_generation(self, bank_id: BankId, removed: Mapping[Layer, Sequence[int]] | None = None) -> None:
        """Increment the generation: readers remove these rows from their index, or reload it if there are none."""
        ...

    async def find_removed(self, bank_id: BankId, *, after: int, upto: int) -> Mapping[Layer, Collection[int]] | None:
        """Return the rows removed by these generations; none if some are unknown, since only the last are stored."""
        ...

    async def count_publication(self, bank_id: BankId) -> None:
        """Count a publication by a pass."""
        ...

    async def mark_edited(self, bank_id: BankId, at: datetime) -> None:
        """Record that someone other than the sleep tier wrote a block."""
        ...

    async def touch(self, bank_id: BankId, at: datetime) -> None:
        """Record that something was stored."""
        ...

    async def count_skipped_turn(self, bank_id: BankId, why: str) -> None:
        """Count a turn that the write policy skipped."""
        ...

    async def remove(self, bank_id: BankId) -> bool:
        """Delete a page of the bank's contents, and the bank with the last one; return whether it is gone."""
        ...


class SearchableRows(Protocol[Key, Row_co]):
    """Common access to episodes and notes: both are searched and given to agents."""

    async def find_bank_ids(self, ids: Collection[Key]) -> Mapping[Key, BankId]:
        """Return the bank of each of these rows that exists."""
        ...

    async def get_by_numbers(self, bank_id: BankId, numbers: Collection[int]) -> Mapping[int, Row_co]:
        """Return these rows by number."""
        ...

    async def excerpts(
        self, bank_id: BankId, numbers: Collection[int], *, characters: int | None = None
    ) -> Mapping[int, Excerpt]:
        """Return excerpts by number, with up to `characters` of each text, or all of it."""
        ...

    async def index_entries(self, bank_id: BankId, *, after: int, limit: int) -> Sequence[IndexEntry]:
        """Return index entries with a number greater than `after`, in order."""
        ...

    async def vectors(self, numbers: Collection[int]) -> Mapping[int, tuple[bytes, str]]:
        """Return vector and embedder by number, for rows that have one."""
        ...

    async def count(self, bank_id: BankId) -> int:
        """Return the number of rows that are not retired."""
        ...

    async def find_lacking_vector(self, embedder: str | None, *, after: int = 0, limit: int) -> Sequence[Row_co]:
        """Return rows of all banks after a number without a vector by this embedder, or without any, in order."""
        ...

    async def has_outdated_vector(self, bank_id: BankId, embedder: str, *, after: int) -> bool:
        """Return whether a row of the bank after a number has a vector by another embedder."""
        ...

    async def save_vectors(self, vectors: Mapping[int, bytes], embedder: str) -> None:
        """Write vectors by number and count them in their banks."""
        ...


class Episodes(SearchableRows[EpisodeId, Episode], Protocol):
    """Episodes: appended and demoted, never rewritten."""

    async def add(self, episode: Episode) -> None:
        """Store an episode. The block fails with Conflict if the bank has one of its key."""
        ...

    async def get(self, bank_id: BankId, episode_id: EpisodeId) -> Episode | None: ...

    async def get_by_key(self, bank_id: BankId, key: str) -> Episode | None: ...

    async def find_stored_times(self, bank_id: BankId, keys: Collection[str]) -> Mapping[str, datetime]:
        """Return the storage times of the bank's episodes with these idempotency keys, by key."""
        ...

    async def find_repeated(self, bank_id: BankId, digest: str, since: datetime) -> Episode | None:
        """Return the newest episode with this digest of speaker and text that was stored since then."""
        ...

    async def count_repetition(self, episode_id: EpisodeId) -> None: ...

    async def find_all(
        self,
        bank_id: BankId,
        *,
        after: int = 0,
        conversation: str | None = None,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[Episode]:
        """Return episodes after a number in order; with `newest_first` those before it, descending, and 0 means all."""
        ...

    async def find_matching_ids(
        self,
        bank_id: BankId,
        *,
        conversation: str | None = None,
        speaker: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> Sequence[EpisodeId]:
        """Return the ids of episodes that match all given conditions; `until` is exclusive."""
        ...

    async def get_by_ids(self, bank_id: BankId, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        """Return the bank's episodes of these ids, by id."""
        ...

    async def demote(self, episode_id: EpisodeId, stale: Sequence[Demotion]) -> None:
        """Write an episode's demotions, and count the change in its bank."""
        ...

    async def find_changed_weights(self, bank_id: BankId, *, after: int) -> Mapping[int, float]:
        """Return current weights, by number, of episodes demoted or restored since the bank's count was `after`."""
        ...

    async def find_demotions(self, bank_id: BankId) -> Mapping[EpisodeId, Sequence[Demotion]]:
        """Return demotions by id, for episodes that have any."""
        ...

    async def remove(self, ids: Collection[EpisodeId]) -> Sequence[int]:
        """Delete episodes and the links of notes to them; return their numbers."""
        ...


class Notes(SearchableRows[NoteId, Note], Protocol):
    async def add(self, note: Note) -> int:
        """Store a note with its evidence; return its number."""
        ...

    async def add_all(self, new: Sequence[Note]) -> None:
        """Store notes with their evidence, in this order."""
        ...

    async def get(self, bank_id: BankId, note_id: NoteId) -> Note | None: ...

    async def find_all(
        self, bank_id: BankId, *, after: int = 0, limit: int = 100, retired: bool = False
    ) -> Sequence[Note]:
        """Return notes with a number greater than `after` in order, without retired ones by default."""
        ...

    async def find_newest(self, bank_id: BankId, limit: int) -> Sequence[Note]:
        """Return the newest `limit` notes that are not retired, in ascending order."""
        ...

    async def find_page(
        self, bank_id: BankId, *, state: NoteState | None = None, after: int = 0, limit: int = 100
    ) -> Sequence[Note]:
        """Return notes in this state, or all, newest first.

        `after` is the number of the last one on the previous page.
        """
        ...

    async def find_citing(self, episodes: Collection[EpisodeId]) -> Sequence[NoteId]:
        """Return notes, retired ones too, that cite any of these episodes."""
        ...

    async def mark_used(self, bank_id: BankId, numbers: Collection[int], at: datetime, *, before: datetime) -> None:
        """Record that an agent received these notes, unless a use since `before` is recorded."""
        ...

    async def find_use_times(self, bank_id: BankId, *, first: int) -> Mapping[int, datetime]:
        """Return the last use by number, for used notes from `first` on that are not retired."""
        ...

    async def retire(self, note_id: NoteId, at: datetime | None) -> None:
        """Retire a note from search, or restore it; either counts as a demotion."""
        ...

    async def find_changed_weights(self, bank_id: BankId, *, after: int) -> Mapping[int, float]:
        """Return weight 0 for notes retired since the bank's demotion count was `after`, 1 for restored ones."""
        ...

    async def remove(self, ids: Collection[NoteId]) -> Sequence[int]:
        """Delete notes; return their numbers."""
        ...


class Blocks(Protocol):
    """Blocks: each write adds a version."""

    async def add(self, block: Block) -> bool:
        """Store a version; return false if it is not the next one, since someone else wrote in between."""
        ...

    async def get_latest(self, bank_id: BankId, label: str) -> Block | None:
        """Return the newest version, even if it marks a deletion."""
        ...

    async def find_all(self, bank_id: BankId) -> Sequence[Block]:
        """Return the newest version of each block that is not deleted, by label."""
        ...

    async def labels(self, bank_id: BankId) -> Sequence[str]:
        """Return all present and past labels of the bank, in order."""
        ...

    async def history(self, bank_id: BankId, label: str, *, after: int = 0, limit: int = 2**31 - 1) -> Sequence[Block]:
        """Return all versions, oldest first."""
        ...

    async def versions(self, bank_id: BankId) -> Sequence[Block]:
        """Return all versions with spans, of all blocks of a bank."""
        ...

    async def rewrite_version(self, block: Block) -> None:
        """Overwrite value and spans of a version, to forget something in it."""
        ...
