"""What the program asks of a database for memory: banks, episodes, notes, blocks. `base.py` has the rest."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.episode import Demotion, Episode
from circadia.records.excerpt import Excerpt
from circadia.records.index_entry import IndexDelta, IndexEntry, Layer
from circadia.records.note import Note
from circadia.records.ready_view import BankHeads, ReadyView, ReadyViewSnapshot, ViewKind

Key = TypeVar("Key")
Row_co = TypeVar("Row_co", covariant=True)


class Banks(Protocol):
    """Memory banks."""

    async def add(self, bank: Bank) -> None:
        """Store a new one. Raises Conflict if there is one of its name."""
        ...

    async def get(self, bank_id: BankId) -> Bank | None: ...

    async def get_by_name(self, name: str) -> Bank | None: ...

    async def get_by_end_user(self, template: str, end_user: str) -> Bank | None:
        """Return the bank of this person that was made from the template."""
        ...

    async def names_near(self, name: str) -> Sequence[str]:
        """Return a few names near this one in the alphabet."""
        ...

    async def find_all(
        self,
        *,
        template: str | None = None,
        named: Collection[str] | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> Sequence[Bank]:
        """Return those that meet each condition that is given, by name.

        `named` are names or templates, one of which it must have; `after` is a name that it must come behind.
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
        """Return the rows numbered after these, so many of a layer at most, and vectors of those that wait for one.

        They are not looked for if no vector was written since there were `seen`, as `News.embedded` told then.
        """
        ...

    async def save(self, bank: Bank) -> None:
        """Write name, description and policy. Raises Conflict if the name is taken."""
        ...

    async def bump_generation(self, bank_id: BankId, removed: Mapping[Layer, Sequence[int]] | None = None) -> None:
        """Count the generation up: readers take these rows out of their index, or without them load it anew."""
        ...

    async def find_removed(self, bank_id: BankId, *, after: int, upto: int) -> Mapping[Layer, Collection[int]] | None:
        """Return the rows that went with these generations; none if not all are known: of few, the last ones are."""
        ...

    async def count_publication(self, bank_id: BankId) -> None:
        """Count that a pass has published."""
        ...

    async def mark_edited(self, bank_id: BankId, at: datetime) -> None:
        """Note that somebody other than the sleep tier wrote a block."""
        ...

    async def touch(self, bank_id: BankId, at: datetime) -> None:
        """Note that something was remembered."""
        ...

    async def count_skipped_turn(self, bank_id: BankId, why: str) -> None:
        """Count a turn that was left out."""
        ...

    async def remove(self, bank_id: BankId) -> None:
        """Delete it with all that it holds."""
        ...


class SearchableRows(Protocol[Key, Row_co]):
    """What episodes and notes have in common: both are searched, and handed to agents."""

    async def find_bank_ids(self, ids: Collection[Key]) -> Mapping[Key, BankId]:
        """Return in which bank each of these is, of those that any bank has."""
        ...

    async def get_by_numbers(self, bank_id: BankId, numbers: Collection[int]) -> Mapping[int, Row_co]:
        """Return these, by number."""
        ...

    async def excerpts(
        self, bank_id: BankId, numbers: Collection[int], *, characters: int | None = None
    ) -> Mapping[int, Excerpt]:
        """Return what a context shows of these, by number; of their texts so many `characters`, or all."""
        ...

    async def index_entries(self, bank_id: BankId, *, after: int, limit: int) -> Sequence[IndexEntry]:
        """Return those with a greater number in order, as an index keeps them."""
        ...

    async def vectors(self, numbers: Collection[int]) -> Mapping[int, tuple[bytes, str]]:
        """Return vector and embedder by number, of those that have one."""
        ...

    async def count(self, bank_id: BankId) -> int:
        """Return how many there are that are not retired."""
        ...

    async def find_lacking_vector(self, embedder: str | None, *, after: int = 0, limit: int) -> Sequence[Row_co]:
        """Return those of all banks with a greater number and no vector by this embedder, or none, in order."""
        ...

    async def has_outdated_vector(self, bank_id: BankId, embedder: str, *, after: int) -> bool:
        """Return whether a row of the bank with a greater number has a vector by another embedder."""
        ...

    async def save_vectors(self, vectors: Mapping[int, bytes], embedder: str) -> None:
        """Write vectors by number, and count them on their banks."""
        ...

    async def mark_used(self, bank_id: BankId, numbers: Collection[int], at: datetime, *, before: datetime) -> None:
        """Note that these were handed to an agent, unless that is noted of them since `before`."""
        ...


class Episodes(SearchableRows[EpisodeId, Episode], Protocol):
    """Episodes: appended, demoted, never rewritten."""

    async def add(self, episode: Episode) -> None:
        """Store it. The block ends with Conflict if the bank has one of its key."""
        ...

    async def get(self, bank_id: BankId, episode_id: EpisodeId) -> Episode | None: ...

    async def get_by_key(self, bank_id: BankId, key: str) -> Episode | None:
        """Return the bank's episode of this idempotency key."""
        ...

    async def find_stored_times(self, bank_id: BankId, keys: Collection[str]) -> Mapping[str, datetime]:
        """Return when the bank's episodes of these idempotency keys were stored, by key."""
        ...

    async def find_repeated(self, bank_id: BankId, digest: str, since: datetime) -> Episode | None:
        """Return the newest episode of the same speaker and text that was stored since then."""
        ...

    async def count_repetition(self, episode_id: EpisodeId) -> None:
        """Count a repetition."""
        ...

    async def find_all(
        self,
        bank_id: BankId,
        *,
        after: int = 0,
        session: str | None = None,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[Episode]:
        """Return episodes with a greater number in order; `newest_first` those with a smaller one, 0 for all."""
        ...

    async def find_matching_ids(
        self,
        bank_id: BankId,
        *,
        session: str | None = None,
        speaker: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> Sequence[EpisodeId]:
        """Return the ids of those that meet each condition that is given; `until` is exclusive."""
        ...

    async def get_by_ids(self, bank_id: BankId, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        """Return these, by id, of those that the bank has."""
        ...

    async def count_by_importance(self, bank_id: BankId, steps: Sequence[float], *, before: datetime) -> Sequence[int]:
        """Return how many turns were kept before then, were handed to agents, and were and are below each step."""
        ...

    async def demote(self, episode_id: EpisodeId, stale: Sequence[Demotion]) -> None:
        """Write its demotions, and count that the bank's have changed."""
        ...

    async def find_changed_weights(self, bank_id: BankId, *, after: int) -> Mapping[int, float]:
        """Return the weights by number of those whose demotions have changed since the bank counted so many."""
        ...

    async def find_demotions(self, bank_id: BankId) -> Mapping[EpisodeId, Sequence[Demotion]]:
        """Return the demotions by id of those that have any."""
        ...

    async def remove(self, ids: Collection[EpisodeId]) -> Sequence[int]:
        """Delete them, and the links of notes to them; return their numbers."""
        ...


class Notes(SearchableRows[NoteId, Note], Protocol):
    """Notes."""

    async def add(self, note: Note) -> int:
        """Store it with its evidence and return its number."""
        ...

    async def add_all(self, new: Sequence[Note]) -> None:
        """Store them with their evidence, in this order."""
        ...

    async def get(self, bank_id: BankId, note_id: NoteId) -> Note | None: ...

    async def find_all(
        self, bank_id: BankId, *, after: int = 0, limit: int = 100, retired: bool = False
    ) -> Sequence[Note]:
        """Return notes with a greater number in order: those that are not retired, or all."""
        ...

    async def find_newest(self, bank_id: BankId, limit: int) -> Sequence[Note]:
        """Return the newest that are not retired, so many at most, in order."""
        ...

    async def find_citing(self, episodes: Collection[EpisodeId]) -> Sequence[NoteId]:
        """Return the notes, retired ones too, with any of these among their evidence."""
        ...

    async def find_use_times(self, bank_id: BankId, *, first: int) -> Mapping[int, datetime]:
        """Return when those from this number on that are not retired were last handed out, of those that were."""
        ...

    async def retire(self, note_id: NoteId, at: datetime | None) -> None:
        """Take it out of searches, or put it back; it counts as a demotion."""
        ...

    async def find_changed_weights(self, bank_id: BankId, *, after: int) -> Mapping[int, float]:
        """Return 0 for those that were retired since the bank counted so many demotions, 1 for those put back."""
        ...

    async def remove(self, ids: Collection[NoteId]) -> Sequence[int]:
        """Delete them; return their numbers."""
        ...


class Blocks(Protocol):
    """Blocks: each write is a new version."""

    async def add(self, block: Block) -> bool:
        """Store a version; return whether it was the next one: else somebody else has written meanwhile."""
        ...

    async def get_latest(self, bank_id: BankId, label: str) -> Block | None:
        """Return the newest version, even if it says that there is no block any more."""
        ...

    async def find_all(self, bank_id: BankId) -> Sequence[Block]:
        """Return the newest version of each block that is not deleted, by label."""
        ...

    async def labels(self, bank_id: BankId) -> Sequence[str]:
        """Return the labels that the bank has or had, in order."""
        ...

    async def history(self, bank_id: BankId, label: str) -> Sequence[Block]:
        """Return all versions, oldest first."""
        ...

    async def versions(self, bank_id: BankId) -> Sequence[Block]:
        """Return all versions of all blocks of a bank that have spans."""
        ...

    async def rewrite_version(self, block: Block) -> None:
        """Write value and spans of a version anew: something in it is forgotten."""
        ...


class Views(Protocol):
    """Ready views: derived, and dropped with whatever they may hold of what is forgotten."""

    async def find_ready(self, bank_id: BankId, key: str) -> ReadyViewSnapshot | None:
        """Return what is ready for a question, with the state of the bank; none if nothing is."""
        ...

    async def fetch_heads(self, bank_id: BankId) -> BankHeads:
        """Return the greatest numbers of the bank's rows."""
        ...

    async def get(self, bank_id: BankId, kind: ViewKind, key: str) -> ReadyView | None: ...

    async def find_all(self, bank_id: BankId) -> Sequence[ReadyView]:
        """Return those of the bank by kind and key."""
        ...

    async def put(self, view: ReadyView) -> None:
        """Write it, over one of the same key."""
        ...

    async def save_hits(self, view: ReadyView) -> None:
        """Write stamp, depth, hits and made_at of one that is there; nothing if it is not there any more."""
        ...

    async def drop(self, bank_id: BankId, kind: ViewKind | None = None) -> None:
        """Delete those of the bank, or those of one kind."""
        ...

    async def trim_questions(self, bank_id: BankId, *, before: datetime, keep: int | None) -> None:
        """Delete questions of the bank that were last asked before then, and keep so many of the others; none is all.

        Those that were asked most from that day (UTC) on stay, of equals those that were asked last.
        """
        ...

    async def delete_expired(self, before: datetime) -> None:
        """Delete questions of all banks that were last asked before then."""
        ...

    async def find_bank_ids(self) -> Sequence[BankId]:
        """Return the banks that have any."""
        ...
