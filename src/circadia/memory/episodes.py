"""Store episodes, and give stale ones less weight (MEM-01 … MEM-04)."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, cast

import orjson

from circadia.clock import Clock
from circadia.errors import Conflict, InvalidRequest, NotFound, TooLarge
from circadia.ids import EpisodeId, IdSource, NoteId
from circadia.memory.redaction import redact
from circadia.memory.relative_dates import keep_offset
from circadia.memory.search.passages import index_text
from circadia.records.bank import Bank, Trust
from circadia.records.episode import Demotion, Episode, EpisodeKind
from circadia.records.promotion import PROMOTED, Promotion
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

MAX_CHARACTERS: Final = 100_000
"""Characters of an episode; longer texts belong in files."""
MAX_NAME: Final = 200
"""Characters of a speaker, conversation or key."""
MAX_METADATA: Final = 16_384
"""Bytes of the metadata as JSON."""
CLOCK_SKEW: Final = timedelta(minutes=5)
"""Allowed difference of clocks, which a time may lie in the future."""
EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
"""In UTC, in which times are stored."""
ALWAYS: Final = 3e9
"""Seconds, about a century: longer than anything has been stored."""
TOPIC: Final = "memory"
"""Signal that a bank has new episodes, sent with the bank's id."""
_KEY: Final = re.compile(r"(?<![0-9A-Za-z])(?=[0-9-]{0,200}+[a-fA-F])([0-9a-fA-F]{6})[0-9a-fA-F-]{10,}+(?![0-9A-Za-z])")
"""A hash or a UUID."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEpisode:
    text: str
    speaker: str
    trust: Trust
    at: datetime | None = None
    """When it happened, with a zone; None is now."""
    kind: EpisodeKind = EpisodeKind.TURN
    conversation: str | None = None
    importance: float | None = None
    """0 to 1."""
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    incomplete: bool = False
    """Whether it is the start of an answer that broke off."""
    key: str | None = None
    """Idempotency key."""
    expires_at: datetime | None = None
    """When it is forgotten, with a zone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredEpisode:
    episode: Episode
    """The existing one if it was stored before."""
    new: bool


class EpisodeService:
    """Writes episodes; only `forgetting` deletes them."""

    def __init__(self, clock: Clock, ids: IdSource, events: EventLog) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events

    async def remember(self, tx: Tx, bank: Bank, new: NewEpisode) -> StoredEpisode:
        """Append an episode, or return a stored one with the same key, or recently with the same speaker and text.

        Secrets are redacted unless a person wrote the text.

        Raises:
            InvalidRequest: no text, a time in the future, an importance outside 0 to 1, or the reserved kind `ready`.
            TooLarge: too long. Conflict: the key belongs to another episode.
        """
        now = self._clock.now()
        if new.kind is EpisodeKind.READY:
            raise InvalidRequest("kind 'ready' is reserved for ready answers; use another kind")
        _require_valid(new, now)
        if new.expires_at is not None and new.expires_at <= now:
            raise InvalidRequest(f"{new.expires_at.isoformat()} has passed; it is {now.isoformat(timespec='seconds')}")
        if new.trust is not Trust.PERSON:
            new = replace(new, text=redact(new.text))
        digest = _digest(new)
        duplicate = await self._find_duplicate(tx, bank, new, digest, now)
        if duplicate is not None:
            return StoredEpisode(episode=duplicate, new=False)
        episode = await _build_episode(bank, new, EpisodeId(self._ids.new("epi")), digest, now)
        await tx.episodes.add(episode)
        await self.touch(tx, bank)
        return StoredEpisode(episode=episode, new=True)

    async def append(
        self, tx: Tx, bank: Bank, new: NewEpisode, *, episode_id: EpisodeId | None = None, repeats: int = 0,
        stale: Sequence[Demotion] = (),
    ) -> Episode:  # fmt: skip
        """Append an episode with its history elsewhere. Raises InvalidRequest, TooLarge, as `remember`.

        The caller has checked that the bank has no episode with this id or key, and calls `touch` afterwards.
        """
        now = self._clock.now()
        _require_valid(new, now)
        new_episode = await _build_episode(bank, new, episode_id or EpisodeId(self._ids.new("epi")), _digest(new), now)
        episode = replace(new_episode, repeats=repeats, stale=tuple(stale))
        await tx.episodes.add(episode)
        return episode

    async def put_back(self, tx: Tx, bank: Bank, forgotten: Episode) -> Episode:
        """Append an episode that was kept apart, with its id, and signal it; an import may have brought it meanwhile.

        It loses its key if another episode has that now.
        """
        present = await tx.episodes.get(bank.id, forgotten.id)
        if present is not None:
            return present
        key = forgotten.key
        if key is not None and await tx.episodes.get_by_key(bank.id, key) is not None:
            key = None
        heading = search_heading(forgotten.at, forgotten.speaker)
        indexed = await index_text(heading, forgotten.text, forgotten.trust)
        await tx.episodes.add(
            replace(forgotten, key=key, terms=indexed.terms, passages=indexed.passages, stored_at=self._clock.now())
        )
        await self.touch(tx, bank)
        return await self.get(tx, bank, forgotten.id)

    async def promote(self, tx: Tx, source: Bank, note_id: NoteId, bank: Bank, *, by: str) -> StoredEpisode:
        """Copy a note into another bank, once: the copy is forgotten with the note (MEM-35).

        It has the id of the note, and nothing of the episodes that this rests on.

        Raises:
            NotFound: the source has no such note. InvalidRequest: it is the bank's own. Conflict: it is retired.
        """
        note = await tx.notes.get(source.id, note_id)
        if note is None:
            raise NotFound(
                f"bank {source.name!r} has no note {note_id!r}; `circadia banks notes {source.name}` lists them"
            )
        if source.id == bank.id:
            raise InvalidRequest(f"note {note_id!r} is in bank {bank.name!r} already; name another bank")
        if note.retired_at is not None:
            raise Conflict(f"note {note_id!r} is retired; promote one that is in searches")
        key = f"{PROMOTED}:{note_id}"
        known = await tx.episodes.get_by_key(bank.id, key)
        if known is not None:
            return StoredEpisode(episode=known, new=False)
        stamp = {"note": note_id, "by": by, "at": self._clock.now().isoformat()}
        new = NewEpisode(
            text=note.text, speaker=by, trust=note.trust, at=note.at, kind=EpisodeKind.FACT, key=key,
            importance=note.importance, metadata={PROMOTED: stamp},
        )  # fmt: skip
        episode = await self.append(tx, bank, new)
        await tx.promotions.put(
            Promotion(note_id=note_id, source_bank_id=source.id, episode_id=episode.id, bank_id=bank.id)
        )
        await self.touch(tx, bank)
        return StoredEpisode(episode=episode, new=True)

    async def touch(self, tx: Tx, bank: Bank) -> None:
        """Mark the bank as changed, and signal it after the commit."""
        await tx.banks.touch(bank.id, self._clock.now())
        self._events.signal(tx, TOPIC, bank.id)

    async def demote(
        self,
        tx: Tx,
        bank: Bank,
        episode_id: EpisodeId,
        *,
        by: str,
        reason: str,
        evidence: str,
        weight: float = 0.3,
        valid_to: datetime | None = None,
    ) -> bool:
        """Give an episode less weight; return whether the evidence is new. Raises NotFound, InvalidRequest."""
        if not 0 < weight <= 1:
            raise InvalidRequest(f"a weight must be more than 0 and at most 1, not {weight}")
        episode = await self.get(tx, bank, episode_id)
        if any(demotion.evidence == evidence for demotion in episode.stale):
            return False
        stale = Demotion(
            by=by, reason=reason, evidence=evidence, at=self._clock.now(), weight=weight, valid_to=valid_to
        )
        await tx.episodes.demote(episode.id, (*episode.stale, stale))
        return True

    async def restore(self, tx: Tx, bank: Bank, episode_id: EpisodeId, *, evidence: str) -> bool:
        """Take back a demotion; return whether there was one with this evidence. Raises NotFound: no such episode."""
        episode = await self.get(tx, bank, episode_id)
        remaining = tuple(demotion for demotion in episode.stale if demotion.evidence != evidence)
        if len(remaining) == len(episode.stale):
            return False
        await tx.episodes.demote(episode.id, remaining)
        return True

    async def get(self, tx: Tx, bank: Bank, episode_id: EpisodeId) -> Episode:
        episode = await tx.episodes.get(bank.id, episode_id)
        if episode is None:
            raise NotFound(
                f"no episode {episode_id!r} in bank {bank.name!r}; `circadia episodes {bank.name}` lists them"
            )
        return episode

    async def _find_duplicate(self, tx: Tx, bank: Bank, new: NewEpisode, digest: str, now: datetime) -> Episode | None:
        if new.key is not None:
            duplicate = await tx.episodes.get_by_key(bank.id, new.key)
            if duplicate is not None and duplicate.digest != digest:
                raise Conflict(f"key {new.key!r} belongs to another episode of bank {bank.name!r}; use a new key")
            return duplicate
        since = now - timedelta(seconds=min(bank.policy.duplicate_seconds, ALWAYS))
        duplicate = await tx.episodes.find_repeated(bank.id, digest, since)
        if duplicate is not None and duplicate.expires_at != new.expires_at:
            return None
        if duplicate is not None:
            await tx.episodes.count_repetition(duplicate.id)
            if new.kind is EpisodeKind.TURN and new.trust is Trust.AGENT and not new.incomplete:
                await tx.sleep_states.count_unstored_turn(bank.id)
        return duplicate


def searched_text(at: datetime, speaker: str, text: str) -> str:
    """Return what is searched and embedded of an episode: the day, the speaker and the text."""
    return f"{search_heading(at, speaker)}{text}"


def search_heading(at: datetime, speaker: str) -> str:
    return f"{at.day} {at:%B %Y} {shown_name(speaker)}: "


@lru_cache(maxsize=4096)
def shown_name(speaker: str) -> str:
    """Return a speaker's name as models read it, with hashes and UUIDs cut to their first characters.

    Programs often send such an id for a person, which would cost up to 40 tokens in each line.
    """
    return _KEY.sub(r"\1", speaker).strip("_")


async def _build_episode(bank: Bank, new: NewEpisode, episode_id: EpisodeId, digest: str, now: datetime) -> Episode:
    at = new.at or now
    indexed = await index_text(search_heading(at, new.speaker), new.text, new.trust)
    return Episode(
        id=episode_id, number=0, bank_id=bank.id, at=at, text=new.text, trust=new.trust, importance=new.importance,
        terms=indexed.terms, passages=indexed.passages, speaker=new.speaker, kind=new.kind,
        conversation=new.conversation, metadata=keep_offset(new.metadata, new.at), incomplete=new.incomplete,
        key=new.key, digest=digest, stored_at=now, expires_at=new.expires_at,
    )  # fmt: skip


def _digest(new: NewEpisode) -> str:
    return hashlib.sha256(f"{new.conversation or ''}\0{new.speaker}\0{new.text}".encode()).hexdigest()


def _require_valid(new: NewEpisode, now: datetime) -> None:
    if not new.text.strip():
        raise InvalidRequest("an episode needs a text")
    if len(new.text) > MAX_CHARACTERS:
        raise TooLarge(f"an episode may have {MAX_CHARACTERS} characters, not {len(new.text)}; split the text")
    names = {"speaker": new.speaker, "conversation": new.conversation, "key": new.key}
    require_text(text=new.text, **names)
    for what, value in names.items():
        if value is not None and not 0 < len(value) <= MAX_NAME:
            raise InvalidRequest(f"a {what} has 1 to {MAX_NAME} characters")
    if any(time is not None and time.tzinfo is None for time in (new.at, new.expires_at)):
        raise InvalidRequest("a time needs a zone, such as 2026-11-21T09:30:00+01:00")
    if new.at is not None and new.at < EARLIEST:
        raise InvalidRequest(f"{new.at.isoformat()} is before the first day that can be kept, {EARLIEST:%Y-%m-%d}")
    if new.at is not None and new.at > now + CLOCK_SKEW:
        raise InvalidRequest(f"{new.at.isoformat()} is in the future; it is {now.isoformat(timespec='seconds')}")
    if new.importance is not None and not (math.isfinite(new.importance) and 0 <= new.importance <= 1):
        raise InvalidRequest(f"an importance is a number from 0 to 1, not {new.importance}")
    try:
        size = len(orjson.dumps(keep_offset(new.metadata, new.at)))
    except TypeError as error:
        raise InvalidRequest(f"the metadata is not JSON: {error}") from error
    if not _is_finite(new.metadata):
        raise InvalidRequest("the metadata is not JSON: it has a number that is NaN or Infinity")
    if size > MAX_METADATA:
        raise TooLarge(f"the metadata may have {MAX_METADATA} bytes, not {size}")


def _is_finite(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_finite, cast("Mapping[str, object]", value).values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, cast("Sequence[object]", value)))
    return not isinstance(value, float) or math.isfinite(value)


def is_text(value: str) -> bool:
    """Return whether both databases can store the text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def require_text(**texts: str | None) -> None:
    """Raise InvalidRequest unless both databases can store the texts."""
    for what, text in texts.items():
        if text is not None and not is_text(text):
            raise InvalidRequest(f"the {what} is not text: it has a NUL or a lone surrogate")
