"""Episodes, notes and views without a store, for what is a function of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.episodes import searched_text
from circadia.memory.search.terms import question_terms, stored_terms
from circadia.records.bank import Bank, Trust
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.proposals.operation import PageContext
from circadia.sleeptime.proposals.similarity import content_terms

FRIDAY = datetime(2023, 5, 12, 15, 30, tzinfo=UTC)
"""When things are said."""
BANK = Bank(id=BankId("bnk_ann"), name="ann", created_at=FRIDAY)


@dataclass(frozen=True, kw_only=True)
class EpisodeLookup:
    """Looks up what it was given."""

    rows: Mapping[EpisodeId, Episode] = field(default_factory=dict[EpisodeId, Episode])
    used: Mapping[int, datetime] = field(default_factory=dict[int, datetime])

    @property
    def cached_episodes(self) -> Mapping[EpisodeId, Episode]:
        return {}

    async def fetch_episodes(self, ids: Any) -> Mapping[EpisodeId, Episode]:
        return {each: self.rows[each] for each in ids if each in self.rows}

    async def search_related(self, texts: Sequence[str], *, before: int, limit: int) -> Sequence[Sequence[Episode]]:
        return [self._search_related(each, before, limit) for each in texts]

    async def fetch_note_uses(self, first: int) -> Mapping[int, datetime]:
        return {number: at for number, at in self.used.items() if number >= first}

    def _search_related(self, text: str, before: int, limit: int) -> Sequence[Episode]:
        asked = set(question_terms(text))
        older = [each for each in self.rows.values() if each.number < before and asked & set(content_terms(each))]
        return sorted(older, key=lambda each: -len(asked & set(content_terms(each))))[:limit]


def said(
    text: str,
    *,
    speaker: str = "ann",
    conversation: str | None = "s",
    at: timedelta | datetime | None = None,
    **more: Any,
) -> Episode:
    """Return an episode; without a time it follows the one before on its page."""
    when = at if isinstance(at, datetime) else FRIDAY + (at or timedelta())
    values: dict[str, Any] = {"trust": Trust.PERSON, "importance": 0.5, **more}
    return Episode(
        id=EpisodeId(""), number=0, bank_id=BANK.id, at=when, text=text, speaker=speaker, conversation=conversation,
        stored_at=when, terms=stored_terms(searched_text(when, speaker, text)), **values,
    )  # fmt: skip


def numbered(episodes: Sequence[Episode], *, first: int = 1) -> list[Episode]:
    """Return them as a store numbers them."""
    return [
        replace(each, number=number, id=EpisodeId(f"epi_{number}"), at=each.at + timedelta(seconds=number))
        for number, each in enumerate(episodes, first)
    ]


def note(key: str, text: str, sources: Sequence[Episode], **more: Any) -> Note:
    """Return a note that rests on these."""
    values: dict[str, Any] = {"kind": NoteKind.CONSOLIDATION, "trust": Trust.PERSON, "number": int(key), **more}
    return Note(
        id=NoteId(f"not_{key}"), bank_id=BANK.id, text=text, evidence=tuple(each.id for each in sources),
        at=max((each.at for each in sources), default=FRIDAY), created_at=FRIDAY, terms=stored_terms(text), **values,
    )  # fmt: skip


def page(
    episodes: Sequence[Episode], *, notes: Sequence[Note] = (), past: Sequence[Episode] = (), **more: Any
) -> PageContext:
    """Return the view of a pass over these new episodes."""
    new = numbered(episodes) if episodes and not episodes[0].number else list(episodes)
    rows = {each.id: each for each in (*past, *new)}
    return PageContext(bank=BANK, now=FRIDAY, page=new, notes=notes, blocks=(), look=EpisodeLookup(rows=rows), **more)
