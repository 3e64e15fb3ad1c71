"""Consolidate: turns what was said about one subject into a note with its sources (SLEEP-20).

The model reads each new episode once, with a few notes and earlier episodes on the same subject.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Final, cast

from pydantic import BaseModel, Field

from circadia.ids import EpisodeId
from circadia.memory.context import estimate_tokens
from circadia.memory.search.terms import question_terms
from circadia.records.change import Change
from circadia.records.episode import Episode, least_trust, merge_parts
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.source_check import find_context
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.operations.contradictions import find_ended_episodes
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.changes import add_note, retire_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, RefusedText, Step
from circadia.sleeptime.proposals.prompts import (
    WHOLE,
    NumberedLines,
    ReferencedRows,
    build_prompt,
    estimate_line_tokens,
)
from circadia.sleeptime.proposals.segments import Segment, split_segments
from circadia.sleeptime.proposals.similarity import RelatedIndex

MAX_EPISODES: Final = 50
"""SLEEP-20, `recent_window`: new episodes of a step."""
MAX_TOKENS: Final = 3_000
"""Estimated tokens of new episodes in a step, unless a single segment has more."""
BESIDE: Final = 700
"""Estimated tokens of a step's rules and context."""
MAX_CONTEXT_NOTES: Final = 24
"""Maximum notes, and earlier episodes, beside a step; fewer with a small step or long notes."""
MIN_CONTEXT_NOTES: Final = 12
MIN_FITTED_NOTES: Final = MIN_CONTEXT_NOTES
"""Notes to show however long they are: the end of something is often not among the nearest."""
MIN_SIMILARITY: Final = 0.12
"""Cosine above which a note of many is on the same subject; below it they share a name at most."""
ANSWER_TOKENS: Final = 90
"""Maximum output per new episode: a note for every second one."""
SEARCH_CHARACTERS: Final = 2_000
"""Characters of a segment to search earlier episodes with."""
SHORT: Final = 4
"""Tokens of an earlier episode that says nothing, such as a thank-you."""
CACHED_NOTES: Final = 500
"""Notes whose words are cached: several segments of a page have the same subject."""


class NoteDraft(BaseModel):
    text: str = Field(max_length=1_000)
    ids: list[str] = Field(max_length=40)
    replaces: list[str] = Field(default_factory=list[str], max_length=6)
    ended: list[str] = Field(default_factory=list[str], max_length=20)


class ConsolidationAnswer(BaseModel):
    notes: list[NoteDraft] = Field(max_length=40)


class Consolidate:
    name = "consolidate"
    asks = True

    def __init__(self) -> None:
        self._near: RelatedIndex[Note] | None = None  # of the previous step; each step adds a few notes

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return steps with as many segments as one question can hold, without those that notes cover already."""
        notes = [note for note in projected_notes.project_notes(view) if note.kind is not NoteKind.SUMMARY]
        done = {episode_id for note in notes for episode_id in note.evidence}
        segments = [
            segment
            for segment in split_segments(view)
            if segment.is_continued or any(one.id not in done for one in segment.episodes)
        ]
        return [_build_step(part) for part in _pack_segments(segments)]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the notes that the model writes for a step, and the retirement of those that they replace."""
        parts = cast("Sequence[Segment]", step.data["segments"])
        projected = projected_notes.project_notes(view)
        consolidations = [note for note in projected if note.kind is NoteKind.CONSOLIDATION]
        note_limit = max(MIN_CONTEXT_NOTES, min(MAX_CONTEXT_NOTES, len(step.episodes) // 2))
        min_similarity = MIN_SIMILARITY if len(consolidations) > MAX_CONTEXT_NOTES else 0.0
        self._near = RelatedIndex(consolidations, self._near, vector_of=view.vector_of)
        notes = _fit_notes(
            self._near.find_nearest(step.episodes, note_limit, min_similarity=min_similarity),
            sum(estimate_line_tokens(part.episodes) for part in parts),
        )
        lines = NumberedLines()
        if notes:
            lines.add_heading("Earlier notes")
            lines.add_notes(notes)
        earlier = await _fetch_earlier_episodes(view, parts, notes, note_limit)
        if earlier:
            lines.add_heading("Said earlier")
            lines.add_episodes(earlier)
        for part in parts:
            lines.add_heading("Said now")
            lines.add_episodes(part.episodes, longest=WHOLE)
        refused = cast("Sequence[RefusedText]", step.data.get("refused", ()))
        lines.add_refusals(refused)
        max_tokens = max(400, ANSWER_TOKENS * len(step.episodes))
        answer = await ask(
            build_prompt(self.name, view, lines.text, about=("refused",) if refused else ()),
            ConsolidationAnswer,
            most_tokens=max_tokens,
        )
        return await self._build_changes(view, parts, lines, answer, {note.text for note in projected})

    async def _build_changes(
        self,
        view: PageContext,
        parts: Sequence[Segment],
        sheet: NumberedLines,
        answer: ConsolidationAnswer,
        existing_texts: set[str],
    ) -> Sequence[Change]:
        page_ids = {episode.id for part in parts for episode in part.episodes}
        retired: set[str] = set()
        changes: list[Change] = []
        for written in answer.notes:
            text = one_line(written.text)
            if not text or text in existing_texts:
                continue
            existing_texts.add(text)
            named, old = sheet.resolve_ids(written.ids), sheet.resolve_ids(written.replaces)
            unknown_ids = [*named.unknown_ids, *old.unknown_ids]
            new = [same for episode in named.episodes for same in _with_duplicates(parts, episode)]
            sources = await fetch_sources(view, new, (*named.notes, *old.notes))
            cited = {row.id: row.text for row in (*named.episodes, *named.notes)}
            others = [row for row in sheet.list_rows() if row.text not in cited.get(row.id, "")]
            more, context = find_context(text, sources, others)
            said = [*new, *(row for row in more if isinstance(row, Episode))]
            sources = await fetch_sources(view, [*sources, *said], [row for row in more if isinstance(row, Note)])
            over = sheet.resolve_ids(row_id for row_id in written.ended if row_id not in unknown_ids)
            stale = not unknown_ids and page_ids.isdisjoint(episode.id for episode in new)
            replaced = [
                note
                for note in (() if unknown_ids or stale else old.notes)
                if note.id not in retired and projected_notes.is_trusted_enough(said, [note])
            ]
            retired.update(note.id for note in replaced)
            note = add_note(
                view, self.name, NoteKind.CONSOLIDATION, text, sources, unknown_ids=unknown_ids, context=context,
                why=f"what was said about one subject, {len(sources)} times",
                ended=[row.id for row in (*_list_ended(view, over, replaced, sources), *over.notes)],
                refused="it rests on nothing that was said now" if stale else "",
            )  # fmt: skip
            changes.append(note)
            why = f"note {note.target} says it and more"
            changes += [retire_note(view, self.name, old_note, why=why, instead=note.target) for old_note in replaced]
        return changes


def _list_ended(
    view: PageContext, over: ReferencedRows, replaced: Sequence[Note], sources: Sequence[Episode]
) -> Sequence[Episode]:
    """Return the episodes that a note ends: those that it names, and those of the notes that it ends and replaces."""
    ended = replace(over, notes=[note for note in over.notes if note in replaced])
    return [*over.episodes, *find_ended_episodes(view, ended, sources, sources)]


async def fetch_sources(view: PageContext, episodes: Sequence[Episode], notes: Sequence[Note]) -> Sequence[Episode]:
    """Return these episodes and the evidence of these notes, each once; what a note rests on has at most its trust."""
    rows = await view.look.fetch_episodes({episode_id for note in notes for episode_id in note.evidence})
    sources: dict[EpisodeId, Episode] = {}
    for row in (*episodes, *(_as_noted(rows[key], note) for note in notes for key in note.evidence if key in rows)):
        sources[row.id] = merge_parts(sources[row.id], row) if row.id in sources else row
    return list(sources.values())


def _as_noted(row: Episode, note: Note) -> Episode:
    """Return an episode as a note read it: the note's trust tells which passages it took."""
    return replace(row, passages=None, trust=note.trust) if least_trust(row) is not row.trust else row


def _pack_segments(found: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    run: list[Segment] = []
    episodes = used = 0
    for segment in found:
        more = estimate_line_tokens(segment.episodes)
        if run and (episodes + len(segment.episodes) > MAX_EPISODES or used + more > MAX_TOKENS):
            yield run
            run, episodes, used = [], 0, 0
        run.append(segment)
        episodes, used = episodes + len(segment.episodes), used + more
    if run:
        yield run


def _build_step(parts: Sequence[Segment]) -> Step:
    episodes = sorted((episode for part in parts for episode in part.all_episodes), key=lambda episode: episode.number)
    read = sum(estimate_line_tokens(part.episodes) for part in parts)
    name = "; ".join(part.name for part in parts)[:200]
    return Step(name=name, episodes=episodes, tokens=read + BESIDE, data={"segments": parts})


async def _fetch_earlier_episodes(
    view: PageContext, parts: Sequence[Segment], notes: Sequence[Note], limit: int
) -> Sequence[Episode]:
    """Return earlier episodes on the same subject that the shown notes do not cover."""
    noted_ids = {key for note in notes for key in note.evidence}
    before = view.page[0].number
    earlier: dict[str, Episode] = {}
    texts = [" ".join(episode.text for episode in part.episodes)[:SEARCH_CHARACTERS] for part in parts]
    for words, rows in zip(
        texts, await view.look.search_related(texts, before=before, limit=max(2, limit // len(parts))), strict=True
    ):
        noted_episodes = [episode for episode in rows if episode.id in noted_ids]
        unnoted = (
            set(question_terms(words)).difference(*(_cached_terms(note.text) for note in notes))
            if noted_episodes
            else set[int]()
        )
        covered = {episode.id for episode in noted_episodes if unnoted.isdisjoint(question_terms(episode.text))}
        for episode in rows:
            if episode.id not in covered and not episode.stale and estimate_tokens(episode.text) > SHORT:
                known = earlier.get(episode.id)
                earlier[episode.id] = episode if known is None else merge_parts(known, episode)
    return sorted(earlier.values(), key=lambda episode: episode.number)[:limit]


@lru_cache(maxsize=CACHED_NOTES)
def _cached_terms(text: str) -> Sequence[int]:
    return question_terms(text)


def _fit_notes(notes: Sequence[Note], room: int) -> Sequence[Note]:
    """Return the first of the nearest notes that fit into `room` tokens, and at least `MIN_FITTED_NOTES`, by time."""
    upto = accumulate(estimate_tokens(note.text) for note in notes)
    fit = [
        note for at, (note, used) in enumerate(zip(notes, upto, strict=True)) if at < MIN_FITTED_NOTES or used <= room
    ]
    return sorted(fit, key=lambda note: (note.at, note.id))


def _with_duplicates(parts: Sequence[Segment], read: Episode) -> Sequence[Episode]:
    return [read, *(same for part in parts for same in part.duplicates.get(read.id, ()))]
