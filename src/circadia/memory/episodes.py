"""Episodes: remembers what happened, and lets what is stale count less (MEM-01 … MEM-04)."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, cast

import orjson

from circadia.clock import Clock
from circadia.errors import Conflict, InvalidRequest, NotFound, TooLarge
from circadia.ids import EpisodeId, IdSource
from circadia.memory.redaction import redact
from circadia.memory.search.terms import stored_terms
from circadia.records.bank import Bank, Trust
from circadia.records.episode import Demotion, Episode, EpisodeKind
from circadia.stores.base import Tx
from circadia.stores.signals.base import Signals

MAX_CHARACTERS: Final = 100_000
"""Of an episode's text; longer ones are for files, and an embedder reads a few hundred words only."""
MAX_NAME: Final = 200
"""Characters of a speaker, a session and a key."""
MAX_METADATA: Final = 16_384
"""Bytes of the metadata as JSON."""
CLOCK_SKEW: Final = timedelta(minutes=5)
"""How far in the future a time may lie: clocks differ."""
EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
"""In UTC, as times are kept."""
ALWAYS: Final = 3e9
"""Seconds of a window that is longer than anything was stored: about a century."""
TOPIC: Final = "memory"
"""Signals that something was remembered, by the bank's id."""
_KEY: Final = re.compile(r"(?<![0-9A-Za-z])(?=[0-9-]{0,200}+[a-fA-F])([0-9a-fA-F]{6})[0-9a-fA-F-]{10,}+(?![0-9A-Za-z])")
"""A hash or a UUID."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEpisode:
    """What is to be remembered."""

    text: str
    """What was said."""
    speaker: str
    """Who said it."""
    trust: Trust
    """Where it came from."""
    at: datetime | None = None
    """When it happened, with zone; none is now."""
    kind: EpisodeKind = EpisodeKind.TURN
    """What happened."""
    session: str | None = None
    """The conversation that it belongs to."""
    importance: float | None = None
    """0 to 1."""
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    """What else is to be kept with it."""
    incomplete: bool = False
    """Whether it is the beginning of an answer that broke off."""
    key: str | None = None
    """Idempotency key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredEpisode:
    """What became of it."""

    episode: Episode
    """The episode; the one that was there if it was stored before."""
    new: bool
    """Whether it was stored now."""


class EpisodeService:
    """The only writer of episodes, but for `forgetting`."""

    def __init__(self, clock: Clock, ids: IdSource, signals: Signals) -> None:
        self._clock = clock
        self._ids = ids
        self._signals = signals

    async def remember(self, tx: Tx, bank: Bank, new: NewEpisode) -> StoredEpisode:
        """Append an episode, or return the one of the same key, or of the same speaker and text a short time ago.

        What looks like a secret is taken out, but of what a person has written down.

        Raises:
            InvalidRequest: no text, a time in the future, an importance that is no number from 0 to 1, a kind that only
                Circadia itself gives.
            TooLarge: too long. Conflict: the key stands for something else.
        """
        now = self._clock.now()
        if new.kind is EpisodeKind.READY:
            raise InvalidRequest("kind 'ready' is given where ready answers are served; use another kind")
        _require_valid(new, now)
        if new.trust is not Trust.PERSON:
            new = replace(new, text=redact(new.text))
        digest = _digest(new)
        found = await self._find_duplicate(tx, bank, new, digest, now)
        if found is not None:
            return StoredEpisode(episode=found, new=False)
        episode = _build_episode(bank, new, EpisodeId(self._ids.new("epi")), digest, now)
        await tx.episodes.add(episode)
        await self.touch(tx, bank)
        return StoredEpisode(episode=episode, new=True)

    async def append(
        self, tx: Tx, bank: Bank, new: NewEpisode, *, episode_id: EpisodeId | None = None, repeats: int = 0,
        stale: Sequence[Demotion] = (),
    ) -> Episode:  # fmt: skip
        """Append what is known to be new, with what is known of it elsewhere; whoever brings some calls `touch` then.

        The caller has seen that the bank has none of this id or key.

        Raises:
            InvalidRequest, TooLarge: as `remember`.
        """
        now = self._clock.now()
        _require_valid(new, now)
        made = _build_episode(bank, new, episode_id or EpisodeId(self._ids.new("epi")), _digest(new), now)
        episode = replace(made, repeats=repeats, stale=tuple(stale))
        await tx.episodes.add(episode)
        return episode

    async def touch(self, tx: Tx, bank: Bank) -> None:
        """Note, and tell after the commit, that something was remembered."""
        await tx.banks.touch(bank.id, self._clock.now())
        tx.after_commit(lambda: self._signals.publish(TOPIC, bank.id))

    async def demote(
        self, tx: Tx, bank: Bank, episode_id: EpisodeId, *, by: str, reason: str, evidence: str, weight: float = 0.3
    ) -> bool:
        """Let an episode count less; return whether it did not yet by this evidence.

        Raises:
            NotFound: no such episode. InvalidRequest: a weight that is not more than 0 and at most 1.
        """
        if not 0 < weight <= 1:
            raise InvalidRequest(f"a weight is more than 0 and at most 1, not {weight}")
        episode = await self.get(tx, bank, episode_id)
        if any(each.evidence == evidence for each in episode.stale):
            return False
        stale = Demotion(by=by, reason=reason, evidence=evidence, at=self._clock.now(), weight=weight)
        await tx.episodes.demote(episode.id, (*episode.stale, stale))
        return True

    async def restore(self, tx: Tx, bank: Bank, episode_id: EpisodeId, *, evidence: str) -> bool:
        """Take a demotion back; return whether there was one by this evidence. Raises NotFound: no such episode."""
        episode = await self.get(tx, bank, episode_id)
        kept = tuple(each for each in episode.stale if each.evidence != evidence)
        if len(kept) == len(episode.stale):
            return False
        await tx.episodes.demote(episode.id, kept)
        return True

    async def get(self, tx: Tx, bank: Bank, episode_id: EpisodeId) -> Episode:
        """Return the bank's episode. Raises NotFound: there is none."""
        episode = await tx.episodes.get(bank.id, episode_id)
        if episode is None:
            raise NotFound(f"no episode {episode_id!r} in bank {bank.name!r}")
        return episode

    async def _find_duplicate(self, tx: Tx, bank: Bank, new: NewEpisode, digest: str, now: datetime) -> Episode | None:
        if new.key is not None:
            found = await tx.episodes.get_by_key(bank.id, new.key)
            if found is not None and found.digest != digest:
                raise Conflict(f"key {new.key!r} stands for another episode of bank {bank.name!r}; use a new key")
            return found
        since = now - timedelta(seconds=min(bank.policy.duplicate_seconds, ALWAYS))
        found = await tx.episodes.find_repeated(bank.id, digest, since)
        if found is not None:
            await tx.episodes.count_repetition(found.id)
        return found


def searched_text(at: datetime, speaker: str, text: str) -> str:
    """Return what an episode is found by, and what is embedded: the day and the speaker with what was said."""
    return f"{at.day} {at:%B %Y} {shown_name(speaker)}: {text}"


def shown_name(speaker: str) -> str:
    """Return a speaker's name as models read it: of a key that stands for one, the beginning tells it from others.

    What programs send for a person is often a hash or a UUID, which would cost up to 40 tokens in each line.
    """
    return _KEY.sub(r"\1", speaker).strip("_")


def _build_episode(bank: Bank, new: NewEpisode, episode_id: EpisodeId, digest: str, now: datetime) -> Episode:
    at = new.at or now
    return Episode(
        id=episode_id, number=0, bank_id=bank.id, at=at, text=new.text, trust=new.trust, importance=new.importance,
        terms=stored_terms(searched_text(at, new.speaker, new.text), new.text), speaker=new.speaker, kind=new.kind,
        session=new.session, metadata=new.metadata, incomplete=new.incomplete, key=new.key, digest=digest,
        stored_at=now,
    )  # fmt: skip


def _digest(new: NewEpisode) -> str:
    return hashlib.sha256(f"{new.session or ''}\0{new.speaker}\0{new.text}".encode()).hexdigest()


def _require_valid(new: NewEpisode, now: datetime) -> None:
    if not new.text.strip():
        raise InvalidRequest("an episode needs a text")
    if len(new.text) > MAX_CHARACTERS:
        raise TooLarge(f"an episode may have {MAX_CHARACTERS} characters, not {len(new.text)}; split the text")
    for what, value in (("text", new.text), ("speaker", new.speaker), ("session", new.session), ("key", new.key)):
        if value is not None and not is_text(value):
            raise InvalidRequest(f"the {what} is not text: it has a NUL or a lone surrogate")
        if what != "text" and value is not None and not 0 < len(value) <= MAX_NAME:
            raise InvalidRequest(f"a {what} has 1 to {MAX_NAME} characters")
    if new.at is not None and new.at.tzinfo is None:
        raise InvalidRequest("a time needs a zone, such as 2026-11-21T09:30:00+01:00")
    if new.at is not None and new.at < EARLIEST:
        raise InvalidRequest(f"{new.at.isoformat()} is before the first day that can be kept, {EARLIEST:%Y-%m-%d}")
    if new.at is not None and new.at > now + CLOCK_SKEW:
        raise InvalidRequest(f"{new.at.isoformat()} is in the future; it is {now.isoformat(timespec='seconds')}")
    if new.importance is not None and not (math.isfinite(new.importance) and 0 <= new.importance <= 1):
        raise InvalidRequest(f"an importance is a number from 0 to 1, not {new.importance}")
    try:
        size = len(orjson.dumps(new.metadata))
    except TypeError as error:
        raise InvalidRequest(f"the metadata is not JSON: {error}") from error
    if not _is_finite(new.metadata):
        raise InvalidRequest("the metadata is not JSON: it has a number that is none (NaN) or has no end (Infinity)")
    if size > MAX_METADATA:
        raise TooLarge(f"the metadata may have {MAX_METADATA} bytes, not {size}")


def _is_finite(value: object) -> bool:
    """Return whether each number in JSON values is one that JSON can say."""
    if isinstance(value, Mapping):
        return all(map(_is_finite, cast("Mapping[str, object]", value).values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, cast("Sequence[object]", value)))
    return not isinstance(value, float) or math.isfinite(value)


def is_text(value: str) -> bool:
    """Return whether both databases can hold it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value
