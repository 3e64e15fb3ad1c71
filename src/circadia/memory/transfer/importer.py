"""Import lines into a bank: a call adds all of its lines or none, and skips what the bank has already (MEM-16).

A copy of a bank is made so too, without a file between.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError, Conflict, InvalidRequest, NotFound
from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.banks import BankService, NewBank
from circadia.memory.blocks import require_valid_version
from circadia.memory.episodes import CLOCK_SKEW, MAX_CHARACTERS, EpisodeService, NewEpisode, require_text, searched_text
from circadia.memory.redaction import redact
from circadia.memory.search.terms import stored_terms
from circadia.memory.transfer.lines import (
    AnyLine,
    BankLine,
    BlockLine,
    EndLine,
    EpisodeLine,
    NoteLine,
    export_lines,
    read_line,
)
from circadia.records.bank import Bank, BankPolicy
from circadia.records.block import Block, BlockSpan
from circadia.records.episode import Demotion
from circadia.records.event import BankUpdate, EventType, ImportedRows
from circadia.records.note import Note
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog

MAX_LINES: Final = 1_000
"""Lines of one call, which is one transaction and blocks other writers."""

Numbered = Sequence[tuple[int, AnyLine]]


@dataclass(kw_only=True, slots=True)
class ImportCounts:
    bank: str
    episodes: int = 0
    notes: int = 0
    versions: int = 0
    known: int = 0
    """Lines whose content the bank has already."""


def read_lines(body: bytes, first: int = 1) -> Numbered:
    """Return the non-empty lines with numbers from `first` on. Raises InvalidRequest: a malformed line, or too many."""
    raw = [(number, line) for number, line in enumerate(body.split(b"\n"), first) if line.strip()]
    if len(raw) > MAX_LINES:
        raise InvalidRequest(f"a call takes {MAX_LINES} lines, not {len(raw)}; send them in parts")
    lines = [(number, read_line(line, number)) for number, line in raw]
    for number, line in lines[1:]:
        if isinstance(line, BankLine):
            raise InvalidRequest(f"line {number}: the bank is the first line")
    return lines


class BankImporter:
    def __init__(self, clock: Clock, events: EventLog, banks: BankService, episodes: EpisodeService) -> None:
        self._clock = clock
        self._events = events
        self._banks = banks
        self._episodes = episodes

    async def add_lines(self, tx: Tx, name: str, lines: Numbered, *, by: str) -> ImportCounts:
        """Add lines to the bank of this name; a bank line creates it if it is missing.

        Ids stay, unless another bank has them: then they are replaced by the same new ones at each import, also in
        notes and spans.

        Raises:
            NotFound: no such bank, and no bank line. InvalidRequest, TooLarge, Conflict: a line cannot be added; the
                message names its number.
        """
        bank = await self._get_or_create_bank(tx, name, lines, by)
        import_counts = ImportCounts(bank=bank.name)
        ids = await _IdMapping.load(tx, bank.id, lines)
        histories: dict[str, dict[int, Block]] = {}
        for number, line in lines:
            try:
                match line:
                    case EpisodeLine():
                        await self._add_episode(tx, bank, line, ids, import_counts)
                    case NoteLine():
                        await self._add_note(tx, bank, line, ids, import_counts)
                    case BlockLine():
                        await self._add_block(tx, bank, line, ids, import_counts, histories)
                    case BankLine() | EndLine():
                        pass
            except CircadiaError as error:
                raise type(error)(f"line {number}: {error.message}") from error
        if import_counts.episodes or import_counts.notes or import_counts.versions:
            await self._episodes.touch(tx, bank)
            imported = ImportedRows(
                episodes=import_counts.episodes, notes=import_counts.notes, versions=import_counts.versions
            )
            data = BankUpdate(bank=bank.name, by=by, imported=imported)
            await self._events.record(tx, EventType.BANK_CHANGED, data)
        return import_counts

    async def _get_or_create_bank(self, tx: Tx, name: str, lines: Numbered, by: str) -> Bank:
        existing = await tx.banks.get_by_name(name)
        if existing is not None:
            return existing
        first = lines[0][1] if lines else None
        if not isinstance(first, BankLine):
            raise NotFound(f"no bank {name!r}; create it, or send the export's first line, which does")
        template, user = first.template, first.end_user
        if (
            name != first.name
            or template is None
            or user is None
            or await tx.banks.get_by_end_user(template, user) is not None
        ):
            template = user = None  # a copy under another name does not belong to the user
        policy = BankPolicy.model_validate(dict(first.policy))
        require_text(description=first.description, template=template, end_user=user)
        new = NewBank(name=name, description=first.description, policy=policy, template=template, end_user=user)
        bank = await self._banks.create(tx, new, by=by)
        return await tx.banks.get(bank.id) or bank  # holds its key: the first row would, and maybe out of order

    async def _add_episode(
        self, tx: Tx, bank: Bank, line: EpisodeLine, ids: "_IdMapping", counts: ImportCounts
    ) -> None:
        key = line.key if line.key is not None or line.id is not None else _idempotency_key(line)
        text = redact(line.text) if line.id is None else line.text  # without an id it was never stored
        new = NewEpisode(
            text=text, speaker=line.speaker, trust=line.trust, at=line.at, kind=line.kind,
            conversation=line.conversation, importance=line.importance, metadata=line.metadata,
            incomplete=line.incomplete, key=key, expires_at=line.expires_at,
        )  # fmt: skip
        episode_id = None if line.id is None else EpisodeId(ids.local_id(line.id))
        existing = None if episode_id is None else await tx.episodes.get(bank.id, episode_id)
        if existing is not None and existing.text != line.text:
            raise Conflict(f"episode {line.id!r} of bank {bank.name!r} has another text; episodes are never rewritten")
        if existing is not None or (key is not None and await tx.episodes.get_by_key(bank.id, key) is not None):
            counts.known += 1
            return
        stale: list[Demotion] = []
        for mark in line.stale:
            require_text(by=mark.by, reason=mark.reason, evidence=mark.evidence)
            evidence = ids.local_id(mark.evidence)
            stale.append(
                Demotion(
                    by=mark.by, reason=mark.reason, evidence=evidence, at=mark.at, weight=mark.weight,
                    valid_to=mark.valid_to,
                )
            )  # fmt: skip
        added = await self._episodes.append(tx, bank, new, episode_id=episode_id, repeats=line.repeats, stale=stale)
        ids.add(added.id)
        counts.episodes += 1

    async def _add_note(self, tx: Tx, bank: Bank, line: NoteLine, ids: "_IdMapping", counts: ImportCounts) -> None:
        note_id = NoteId(ids.local_id(line.id))
        if await tx.notes.get(bank.id, note_id) is not None:
            counts.known += 1
            return
        evidence = tuple(EpisodeId(ids.local_id(source_id)) for source_id in dict.fromkeys(line.evidence))
        lost = next((episode_id for episode_id in evidence if episode_id not in ids.own), None)
        if lost is not None:
            raise InvalidRequest(f"the note rests on episode {lost!r}, which bank {bank.name!r} does not have")
        require_text(text=line.text, pass_id=line.pass_id)
        if not line.text.strip() or len(line.text) > MAX_CHARACTERS:
            raise InvalidRequest(f"a note has 1 to {MAX_CHARACTERS} characters")
        self._require_past(line.at, line.created_at, line.retired_at, line.valid_to, line.used_at)
        used_at = line.used_at if "used_at" in line.model_fields_set else line.created_at
        await tx.notes.add(
            Note(
                id=note_id, number=0, bank_id=bank.id, kind=line.kind, at=line.at, text=line.text, trust=line.trust,
                importance=line.importance, evidence=evidence, pass_id=line.pass_id, created_at=line.created_at,
                retired_at=line.retired_at, valid_to=line.valid_to, used_at=used_at,
                terms=stored_terms(searched_text(line.at, "", line.text), line.text),
            )
        )  # fmt: skip
        ids.add(note_id)
        counts.notes += 1

    async def _add_block(
        self, tx: Tx, bank: Bank, line: BlockLine, ids: "_IdMapping", counts: ImportCounts,
        histories: dict[str, dict[int, Block]],
    ) -> None:  # fmt: skip
        """Add a version; `histories` has those of the labels that were read or written in this call, by number."""
        spans = tuple(
            BlockSpan(
                start=span.start, end=span.end, episodes=tuple(EpisodeId(ids.local_id(one)) for one in span.episodes)
            )
            for span in line.spans
        )
        value = line.value if line.version is not None else redact(line.value)  # without one it was never stored
        require_text(value=value, description=line.description, by=line.by, why=line.why)
        require_valid_version(line.label, value, line.limit)
        if not all(0 <= span.start < span.end <= len(value) for span in spans):
            raise InvalidRequest(f"the spans of block {line.label!r} must lie in its text")
        if line.label not in histories:
            histories[line.label] = {block.version: block for block in await tx.blocks.history(bank.id, line.label)}
        history = histories[line.label]
        version, parent, at = line.version, line.parent, line.at
        if version is None or at is None:
            if any(block.value == value for block in history.values()):
                counts.known += 1
                return
            version, parent, at = len(history) + 1, len(history) or None, self._clock.now()
        self._require_past(at)
        existing = history.get(version)
        if existing is not None and (existing.at, existing.by, existing.parent) == (at, line.by, parent):
            counts.known += 1
            return
        if existing is not None:
            raise Conflict(f"block {line.label!r} of bank {bank.name!r} has another version {version}")
        if version != len(history) + 1 or not (parent is None or parent in history):
            raise InvalidRequest(f"block {line.label!r}: version {version} does not follow what is there")
        history[version] = Block(
            bank_id=bank.id, label=line.label, version=version, parent=parent, value=value,
            description=line.description, limit=line.limit, pinned=line.pinned, read_only=line.read_only,
            deleted=line.deleted, spans=spans, by=line.by, why=line.why, at=at,
        )  # fmt: skip
        await tx.blocks.add(history[version])
        counts.versions += 1

    def _require_past(self, *times: datetime | None) -> None:
        now = self._clock.now()
        for time in times:
            if time is not None and time > now + CLOCK_SKEW:
                raise InvalidRequest(f"{time.isoformat()} is in the future; it is {now.isoformat(timespec='seconds')}")


class _IdMapping:
    """Maps the ids in the lines to ids in the bank."""

    def __init__(self, bank: BankId, bank_ids: dict[str, BankId]) -> None:
        self._bank = bank
        self._bank_ids = bank_ids
        self.own = {row_id for row_id, bank_id in bank_ids.items() if bank_id == bank}

    @classmethod
    async def load(cls, tx: Tx, bank: BankId, lines: Numbered) -> "_IdMapping":
        """Return the mapping for these lines, after looking up which of their ids exist, and in which bank."""
        episodes: set[str] = set()
        notes: set[str] = set()
        for _, line in lines:
            match line:
                case EpisodeLine() if line.id is not None:
                    evidence_ids = {demotion.evidence for demotion in line.stale}
                    episodes |= {line.id} | evidence_ids
                    notes |= evidence_ids
                case NoteLine():
                    notes.add(line.id)
                    episodes.update(line.evidence)
                case BlockLine():
                    episodes.update(episode_id for span in line.spans for episode_id in span.episodes)
                case _:
                    pass
        of_episodes = await tx.episodes.find_bank_ids([EpisodeId(key) for key in _with_derived_ids(bank, episodes)])
        of_notes = await tx.notes.find_bank_ids([NoteId(note_id) for note_id in _with_derived_ids(bank, notes)])
        return cls(bank, {**of_episodes, **of_notes})

    def local_id(self, given: str) -> str:
        other = _derived_id(self._bank, given)
        is_taken = self._bank_ids.get(given, self._bank) != self._bank
        return other if is_taken or other in self.own else given

    def add(self, new: str) -> None:
        self._bank_ids[new] = self._bank
        self.own.add(new)


def _with_derived_ids(bank: BankId, ids: Collection[str]) -> list[str]:
    return [row_id for given_id in ids for row_id in (given_id, _derived_id(bank, given_id))]


def _derived_id(bank: BankId, given: str) -> str:
    """Return the id that replaces another bank's id in this bank, the same at each import."""
    prefix, _, _ = given.partition("_")
    digest = hashlib.sha256(f"{bank} {given}".encode()).hexdigest()
    return f"{prefix[:8]}_{digest[:28]}"


def _idempotency_key(line: EpisodeLine) -> str:
    at = "" if line.at is None else line.at.isoformat()
    parts = (line.conversation or "", line.speaker, at, line.text)
    return "line:" + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


async def copy_bank(store: Store, importer: BankImporter, clock: Clock, name: str, copy: str, *, by: str) -> None:
    """Copy all rows that the bank has now into the bank `copy`, which is made if it is missing.

    Passes over the copy begin only when asked for. What the copy has already is skipped, so an interrupted call may be
    repeated.

    Raises:
        NotFound: there is no bank `name`.
    """
    number = 1
    async with store.begin_read() as source:
        bank = await source.banks.get_by_name(name)
        if bank is None:
            raise NotFound(f"no bank {name!r}")
        async for body in export_lines(source, bank, clock.now()):
            lines = read_lines(body, number)
            number += len(lines)
            async with store.begin_write() as tx:
                await importer.add_lines(tx, copy, [(place, _for_copy(line, name)) for place, line in lines], by=by)


def _for_copy(line: AnyLine, name: str) -> AnyLine:
    if not isinstance(line, BankLine):
        return line
    policy = line.policy.model_copy(update={"sleeptime": {**line.policy.sleeptime, "when": "manual"}})
    return line.model_copy(update={"policy": policy, "description": f"a dream over {name}"})
