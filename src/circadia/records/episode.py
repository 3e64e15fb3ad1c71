"""An episode: a raw record of something that happened. It is never rewritten (MEM-03)."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import prod
from typing import Final, NamedTuple

from circadia.ids import BankId, EpisodeId, MessageId
from circadia.records.bank import Trust

CHARACTERS: Final = "characters"
"""Key of `Episode.metadata` of a shortened text: the length before."""
PASSAGE: Final = 600
"""Characters of a passage at most; a longer text has several."""
_PASSAGE: Final = struct.Struct("<4I")
_TRUSTS: Final = tuple(Trust)


class Passage(NamedTuple):
    """A part of an episode's text; a tuple, since a bank has hundreds of thousands."""

    start: int
    """Place of its first character."""
    end: int
    """Place behind its last character."""
    terms: int
    """Place of its first term among those of the episode; the ones before the first passage's belong to each."""
    trust: Trust
    """That of the episode, or `external` where the text quotes."""


def encode_passages(passages: Iterable[Passage]) -> bytes:
    return b"".join(_PASSAGE.pack(*passage[:3], passage.trust.rank) for passage in passages)


def decode_passages(stored: bytes) -> Sequence[Passage]:
    return [Passage(start, end, terms, _TRUSTS[rank]) for start, end, terms, rank in _PASSAGE.iter_unpack(stored)]


class EpisodeKind(StrEnum):
    TURN = "turn"
    """A message in a conversation."""
    FACT = "fact"
    """An explicit request to remember something."""
    TOOL = "tool"
    """A tool call or its result."""
    EVENT = "event"
    """Anything else."""
    READY = "ready"
    """The question of a ready answer was asked, or that answer was served: neither adds information."""


SILENT: Final = (EpisodeKind.TOOL, EpisodeKind.READY)
"""Kinds of episodes that state nothing new to a ready answer (ANS-20)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demotion:
    """A reversible reduction of an episode's importance."""

    by: str
    """A pass or a person."""
    reason: str
    evidence: str
    """Key of the demotion: one per evidence."""
    at: datetime
    weight: float
    """Factor for the importance, more than 0 to 1."""
    valid_to: datetime | None = None
    """From when on what the episode says holds no more; `at` if unknown."""


def weight_at(stale: Iterable[Demotion], at: datetime) -> float:
    """Return the weight that an episode had at a time, of its demotions of now."""
    return prod(demotion.weight for demotion in stale if (demotion.valid_to or demotion.at) <= at)


@dataclass(frozen=True, kw_only=True, slots=True)
class Searchable:
    """Common fields of episodes and notes."""

    number: int
    """Order of acceptance in the database, ascending; 0 until stored."""
    at: datetime
    """Time of the event; for a note, that of its newest source."""
    text: str
    trust: Trust
    importance: float | None = None
    """0 to 1; none if not rated."""
    terms: bytes = b""
    """Stemmed words as 32-bit hashes, one per occurrence."""
    vector: bytes | None = None
    """Embedding as 16-bit floats; none until computed."""
    embedder: str | None = None
    """Name, version and dimensions of the embedding model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode(Searchable):
    """One raw event."""

    id: EpisodeId
    bank_id: BankId
    speaker: str
    kind: EpisodeKind = EpisodeKind.TURN
    conversation: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    """Free-form data of the caller that stored it."""
    incomplete: bool = False
    """The beginning of an answer that broke off."""
    key: str | None = None
    """Idempotency key; unique in the bank."""
    digest: str = ""
    """SHA-256 of speaker and text in hex, for finding repetitions."""
    repeats: int = 0
    """Repetitions within the duplicate window of its bank."""
    stored_at: datetime
    stale: tuple[Demotion, ...] = ()
    expires_at: datetime | None = None
    """From then on it is in no search, context or pass, and is deleted with what rests on it; never if none."""
    passages: bytes | None = None
    """The passages, by `encode_passages`; none if the text is one, or long and not yet split."""


def list_passages(episode: Episode) -> Sequence[Passage]:
    """Return the passages in order; none if the text is not split."""
    return decode_passages(episode.passages or b"")


def find_passage(episode: Episode, number: int) -> Passage | None:
    """Return the passage of this number, from 1; None for 0, and if there is none."""
    passages = list_passages(episode)
    return passages[number - 1] if 0 < number <= len(passages) else None


def count_passages(episode: Episode) -> int:
    """Return the number of passages; 0 if the text is not split."""
    return len(episode.passages or b"") // _PASSAGE.size


def count_unstored(episode: Episode) -> int:
    """Return how many characters of what was said are not in the text, because there were too many."""
    characters = episode.metadata.get(CHARACTERS)
    return max(0, characters - len(episode.text)) if isinstance(characters, int) else 0


def least_trust(row: Searchable) -> Trust:
    """Return the trust of what is derived from all of a text: that of its least trusted passage."""
    passages = list_passages(row) if isinstance(row, Episode) else ()
    return max((row.trust, *(passage.trust for passage in passages)), key=lambda trust: trust.rank)


def cut_episode(
    episode: Episode, start: int, end: int, passages: Iterable[Passage] = (), *, trust: Trust | None = None
) -> Episode:
    """Return an episode with a part of its text, the passages in this part, and another trust if it is given."""
    placed = [passage._replace(start=passage.start - start, end=passage.end - start) for passage in passages]
    text, kept = episode.text[start:end], encode_passages(placed) or None
    return replace(episode, text=text, passages=kept, trust=trust or episode.trust)


def cut_passage(episode: Episode, number: int) -> Episode:
    """Return an episode with nothing but the passage of this number, from 1; with all of it for 0."""
    passage = find_passage(episode, number)
    return episode if passage is None else cut_episode(episode, passage.start, passage.end, trust=passage.trust)


def merge_parts(one: Episode, other: Episode) -> Episode:
    """Return an episode of which these are parts, or one is the whole: with both texts and the lesser trust."""
    shorter, longer = sorted((one, other), key=lambda row: len(row.text))
    text = longer.text if shorter.text in longer.text else f"{one.text}\n{other.text}"
    trust = max(one.trust, other.trust, key=lambda trust: trust.rank)
    return replace(longer, text=text, trust=trust, passages=longer.passages if text == longer.text else None)


RESTORABLE: Final = timedelta(days=7)
"""How long a forgotten episode is kept apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgottenEpisode:
    """An episode that an agent has forgotten for its end user: kept apart, and deleted after `RESTORABLE`."""

    episode: Episode
    """Without terms, passages and vector."""
    by: str
    """The agent."""
    forgotten_at: datetime

    @property
    def restorable_until(self) -> datetime:
        return self.forgotten_at + RESTORABLE


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """The source of a text, which is stored as hashes only."""

    number: int = 0
    """Order of acceptance, ascending; 0 until stored."""
    scope: str
    """The group that could read the text; provenances are never matched across scopes."""
    speaker: str
    """The author; for a prompt, the agent that it was written for."""
    trust: Trust | None
    """None for a prompt written by the server."""
    bank: str | None = None
    """The bank, or template, that already stores the text."""
    messages: Sequence[MessageId] = ()
    """The messages contained in a prompt."""
    fingerprints: bytes
    """Four-byte hashes of its passages, in ascending order."""
    whole: int
    """Hash of the whole text."""
    conversation: str = ""
    """Where it was said; the text is known for as long as that goes on, and a day."""
    expires_at: datetime
