"""Contradictions: finds them among notes, and resolves them by date or reports them to the agent (SLEEP-22, SLEEP-29).

A note states what holds now, then what held before, so that both can be asked for: `now (… – 2025-06-03: before)`, in
which the model's sentences have the only words, whatever their language is. So has a flag: `one ↔ other`. A statement
never ends a more trusted or a later one.

What said that something was so counts less once it is over: the episodes that the model names, or those on which no
other note rests than the one that ends. The judge sees each. So an episode that said two things keeps its weight
while another note rests on it; if none does, what still holds of it is said by the note that replaces the ended one, or
by one of its own. A demotion ends no note: the model compares those that rest on nothing else with what ends it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, cast

from pydantic import BaseModel, Field

from circadia.ids import EpisodeId, NoteId
from circadia.memory.relative_dates import local_time
from circadia.memory.search.terms import stored_terms
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.operations.dedupe import is_repeat_demotion
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.changes import add_note, demote, flag, retire_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, RefusedText, Step
from circadia.sleeptime.proposals.prompts import (
    NumberedLines,
    ReferencedRows,
    build_prompt,
    episode_line,
    speaker_label,
)
from circadia.sleeptime.proposals.similarity import RelatedIndex

PAIRS: Final = 16
"""Pairs of notes that one question compares."""
PARTNERS: Final = 4
"""Notes to compare a new one with, as many by words and by meaning: near repetitions may be before what has ended."""
MIN_SIMILARITY: Final = 0.25
"""Cosine above which two notes may be on the same subject."""
EVIDENCE: Final = 6
"""Episodes to show of each note: its first and its newest."""
LONGEST: Final = 200
"""Characters of each of them."""
MAX_ENDED: Final = 20
"""Newest episodes of ended notes that are demoted with them."""
SAYS: Final = 0.75
"""Share of another text's words from which on a text includes it."""

Pair = tuple[Note, Note]


class Contradiction(BaseModel):
    now: str = Field(max_length=600)
    before: str = Field(max_length=400)
    holds: list[str] = Field(max_length=20)
    ended: list[str] = Field(max_length=20)
    verdict: Literal["replaced", "unclear"]


class ComparisonAnswer(BaseModel):
    found: list[Contradiction] = Field(max_length=PAIRS)


class Contradictions:
    name = "contradictions"
    asks = True

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return a step for what new notes declare ended, and steps that compare them with others."""
        refused = projected_notes.list_refused_drafts(view)
        notes = [note for note in projected_notes.project_new_notes(view) if note.id not in refused]
        new = [note for note in notes if note.kind is NoteKind.CONSOLIDATION]
        ended = projected_notes.list_ended_by_notes(view)
        steps = [Step(name="what new notes say is over", notes=new)] if ended else []
        pairs = list(_find_pairs(view, new, ended)) if new else []
        page = {episode.id: episode for episode in view.page}
        for at in range(0, len(pairs), PAIRS):
            part = pairs[at : at + PAIRS]
            rest = {page[key].number: page[key] for note, _ in part for key in note.evidence if key in page}
            notes = list({note.id: note for pair in part for note in pair}.values())
            steps.append(
                Step(
                    name=f"{len(part)} pairs of notes", episodes=[rest[number] for number in sorted(rest)], notes=notes,
                    tokens=sum(len(note.text) // 4 + 60 for note in notes), data={"pairs": part},
                )
            )  # fmt: skip
        return steps

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        if "pairs" not in step.data:
            return await self._demote_ended(step.notes, view)
        shown = {note.id for note in step.notes}
        pairs = [pair for pair in cast("Sequence[Pair]", step.data["pairs"]) if shown.issuperset(n.id for n in pair)]
        if not pairs:
            return ()
        lines = await _build_lines(view, step.notes, pairs)
        refused = cast("Sequence[RefusedText]", step.data.get("refused", ()))
        lines.add_refusals(refused)
        about = ("refused",) if refused else ()
        answer = await ask(
            build_prompt(self.name, view, lines.text, about=about), ComparisonAnswer, most_tokens=300 + 150 * len(pairs)
        )
        changes: list[Change] = []
        retired_ids: set[str] = set()
        for contradiction in answer.found:
            changes += await self._resolve(view, lines, contradiction, retired_ids)
        return changes

    async def _demote_ended(self, new: Sequence[Note], view: PageContext) -> Sequence[Change]:
        """Demote the episodes that a new note declares ended, if later and equally trusted sources say so."""
        changes: list[Change] = []
        by_id = {note.id: note for note in new}
        for key, ids in projected_notes.list_ended_by_notes(view).items():
            note = by_id.get(key)
            if note is None:
                continue
            rows = await view.look.fetch_episodes([EpisodeId(key) for key in dict.fromkeys((*note.evidence, *ids))])
            says = [episode for episode in rows.values() if episode.id not in ids and _is_fresh(episode)]
            for old in (rows[EpisodeId(key)] for key in ids if key in rows):
                if _may_end(says, old):
                    changes.append(demote(view, self.name, old.id, evidence=note.id, why=f"over: {note.text[:200]}"))
                else:
                    flag_text = f"{note.text} ↔ {speaker_label(old)}: {episode_line(old)}"
                    why = "nothing later and as trusted tells of its end"
                    changes.append(flag(view, self.name, old.id, flag_text, [note, *rows.values()], why=why))
        return changes

    async def _resolve(
        self, view: PageContext, sheet: NumberedLines, found: Contradiction, gone: set[str]
    ) -> Sequence[Change]:
        """Return the consequences of one contradiction; `gone` collects the notes that are retired for it."""
        now, before = one_line(found.now).rstrip(" ."), one_line(found.before).rstrip(" .")
        holds, over = sheet.resolve_ids(found.holds), sheet.resolve_ids(found.ended)
        held, ended = await _fetch_rows(view, holds), await _fetch_rows(view, over)
        unknown_ids = [*holds.unknown_ids, *over.unknown_ids]
        if unknown_ids:
            why = "two statements contradict each other"
            return [add_note(view, self.name, NoteKind.CONSOLIDATION, now, held, why=why, unknown_ids=unknown_ids)]
        if not now or not before or not held or not ended or gone & {note.id for note in over.notes}:
            return ()
        contradicted_rows = [*over.episodes, *over.notes]
        newest = max(held, key=lambda row: (row.at, row.number))
        says = [*holds.episodes, *holds.notes]
        if (
            found.verdict == "unclear"
            or newest.at <= _newest_time(over)
            or not projected_notes.is_trusted_enough(says, contradicted_rows)
        ):
            text = f"{now} ↔ {before}"
            sources = [*says, *contradicted_rows, *held, *ended]
            return [flag(view, self.name, contradicted_rows[0].id, text, sources, why="no date decides between them")]
        return self._replace_statement(view, holds, over, now, before, held, ended, gone)

    def _replace_statement(
        self, view: PageContext, holds: ReferencedRows, over: ReferencedRows, now: str, before: str,
        held: Sequence[Episode], ended: Sequence[Episode], gone: set[str],
    ) -> Sequence[Change]:  # fmt: skip
        newest = max(held, key=lambda row: (row.at, row.number))
        text = f"{now} (… – {local_time(newest).date().isoformat()}: {before})"
        changes: list[Change] = []
        stale = list(over.episodes)
        instead = projected_notes.list_replacements(view)
        says_both = [
            note for note in holds.notes
            if (_has_nearly_all_words(note.text, now) and _has_nearly_all_words(note.text, before, besides=now))
            or (over.notes and all(instead.get(old.id) == note.id for old in over.notes))
        ]  # fmt: skip
        if says_both:
            key = says_both[0].id
        else:
            stale += find_ended_episodes(view, over, held, ended, besides=holds.notes)
            ids = [row.id for row in (*stale, *over.notes)]
            why, sources = "a later statement replaces an earlier one", [*held, *ended]
            changes.append(add_note(view, self.name, NoteKind.CONSOLIDATION, text, sources, why=why, ended=ids))
            key = NoteId(changes[0].target)
        standing_now = {note.id for note in projected_notes.project_notes(view)}
        included = [] if says_both else [note for note in holds.notes if _has_nearly_all_words(text, note.text)]
        for note in (*over.notes, *included):
            if note.id in standing_now and note.id not in gone:
                gone.add(note.id)
                why = f"note {key} says what holds and what did"
                changes.append(retire_note(view, self.name, note, why=why, instead=key))
        already = projected_notes.list_demoted_episodes(view)
        changes += [
            demote(view, self.name, row.id, evidence=key, why=f"over: {now[:200]}")
            for row in stale
            if row.id not in already
        ]
        return changes


def find_ended_episodes(
    view: PageContext, over: ReferencedRows, says: Sequence[Episode], rows: Iterable[Episode],
    *, besides: Collection[Note] = (),
) -> Sequence[Episode]:  # fmt: skip
    """Return of `rows` what ends with the notes in `over`, since the rest of `says` is later and as trusted.

    That is what no other standing note rests on than these and those `besides`. If something of a note's evidence is
    named in `over` itself, the rest of it holds.
    """
    named = {row.id for row in over.episodes}
    notes = [note for note in over.notes if named.isdisjoint(note.evidence)]
    ending = {note.id for note in (*over.notes, *besides)}
    standing = projected_notes.project_notes(view) if notes else ()
    others = (note for note in standing if note.id not in ending and note.kind is NoteKind.CONSOLIDATION)
    own = {key for note in notes for key in note.evidence}.difference(*(note.evidence for note in others))
    says = [row for row in says if row.id not in own | named and _is_fresh(row)]
    ended = [row for row in rows if row.id in own and _is_fresh(row) and _may_end(says, row)]
    return sorted(ended, key=lambda row: row.number)[-MAX_ENDED:]


def _is_fresh(row: Episode) -> bool:
    return all(map(is_repeat_demotion, row.stale))


def _may_end(says: Sequence[Episode], old: Episode) -> bool:
    return any(row.at > old.at for row in says) and projected_notes.is_trusted_enough(says, [old])


def _find_pairs(view: PageContext, new: Sequence[Note], declared: Mapping[NoteId, Sequence[str]]) -> Iterator[Pair]:
    """Yield each new note with those that it may contradict.

    They are those that it ends, those that rest on nothing but what it ends, and those on the same subject.
    """
    known = {note.id: note for note in view.notes}
    refused = projected_notes.list_refused_drafts(view)
    notes = [note for note in projected_notes.project_notes(view) if note.id not in refused]
    others = [note for note in notes if note.kind is NoteKind.CONSOLIDATION]
    near = RelatedIndex(others, vector_of=view.vector_of).find_nearest_each(
        new, PARTNERS, min_similarity=MIN_SIMILARITY
    )
    seen_pairs: set[frozenset[str]] = set()
    for note, same in zip(new, near, strict=True):
        over = frozenset(declared.get(note.id, ()))
        ends = [known[NoteId(key)] for key in declared.get(note.id, ()) if NoteId(key) in known]
        left = [other for other in others if over.issuperset(other.evidence)] if over else []
        for other in (*ends, *left, *same):
            pair = frozenset((note.id, other.id))
            if pair not in seen_pairs:
                seen_pairs.add(pair)
                yield note, other


async def _build_lines(view: PageContext, notes: Sequence[Note], pairs: Sequence[Pair]) -> NumberedLines:
    evidence_ids = [key for note in notes for key in _select_evidence(note)]
    rows = await view.look.fetch_episodes(list(dict.fromkeys(evidence_ids)))
    lines = NumberedLines()
    lines.add_heading("What the notes rest on")
    lines.add_episodes(sorted(rows.values(), key=lambda episode: episode.number), longest=LONGEST)
    lines.add_heading("Notes")
    lines.add_notes(sorted(notes, key=lambda note: (note.at, note.id)), evidence=rows)
    compared = "; ".join(f"{lines.id_of(one)} with {lines.id_of(other)}" for one, other in pairs)
    lines.add_heading(f"Compare {compared}")
    return lines


def _select_evidence(note: Note) -> Sequence[EpisodeId]:
    """Return the evidence to show; ids ascend with time."""
    ids = sorted(note.evidence)
    return ids if len(ids) <= EVIDENCE else [ids[0], *ids[1 - EVIDENCE :]]


async def _fetch_rows(view: PageContext, named: ReferencedRows) -> list[Episode]:
    ids = {key for note in named.notes for key in note.evidence}
    rows = {episode.id: episode for episode in (*named.episodes, *(await view.look.fetch_episodes(ids)).values())}
    return sorted(rows.values(), key=lambda episode: episode.number)


def _newest_time(named: ReferencedRows) -> datetime:
    """Return the newest time of the named rows; episodes have more exact times than notes."""
    return max(row.at for row in (named.episodes or named.notes))


def _has_nearly_all_words(text: str, other: str, *, besides: str = "") -> bool:
    other_terms = set(_term_list(other)).difference(_term_list(besides))
    return bool(other_terms) and len(other_terms.intersection(_term_list(text))) >= SAYS * len(other_terms)


def _term_list(text: str) -> Sequence[int]:
    return memoryview(stored_terms(text)).cast("I").tolist()
