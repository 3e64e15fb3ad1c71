"""Consolidate: what was said about one subject becomes a note with its sources (SLEEP-20).

The model reads each new episode once, with the few notes and earlier episodes that are about the same.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, cast

from pydantic import BaseModel, Field

from circadia.memory.context import tokens
from circadia.memory.terms import asked_terms
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime import standing
from circadia.sleeptime.operation import Ask, Step, View
from circadia.sleeptime.prompts import prompt
from circadia.sleeptime.propose import add_note, retire_note
from circadia.sleeptime.related import Related
from circadia.sleeptime.segments import Segment, segments
from circadia.sleeptime.sheet import Sheet, size
from circadia.sleeptime.wording import one_line

MOST_EPISODES: Final = 50
"""SLEEP-20, `recent_window`: new episodes of a step."""
MOST_TOKENS: Final = 3_000
"""About how many tokens of new episodes a step has, unless one segment alone has more."""
BESIDE: Final = 700
"""About how many tokens the rules of a step have, and what is shown beside it."""
SHOWN: Final = 12
"""Notes that are shown with a step, and earlier episodes, at most; fewer with a small step or long notes."""
FEWEST_SHOWN: Final = 4
FEW: Final = SHOWN // 2
"""Notes that are shown however long they are: what is over is often told by one that is not among the nearest."""
ALIKE: Final = 0.12
"""Cosine from which on a note of many counts as being about the same; below it they share a name at most."""
ANSWER_TOKENS: Final = 90
"""Most output for each new episode: a note of each second one."""
ASKED: Final = 2_000
"""Characters of a segment that what was said earlier is looked for with."""
SHORT: Final = 4
"""Tokens of something said earlier that says nothing, such as a thank-you."""
REMEMBERED: Final = 500
"""Notes whose words are remembered: several segments of a page are about the same ones."""
LEAST_KEPT: Final = 0.6
"""A note that is shorter than this share of the note that it is to replace has lost something."""


class Written(BaseModel):
    """A note that the model writes."""

    text: str = Field(max_length=1_000)
    ids: list[str] = Field(max_length=40)
    replaces: list[str] = Field(default_factory=list[str], max_length=6)
    ended: list[str] = Field(default_factory=list[str], max_length=20)


class Consolidated(BaseModel):
    """What the model makes of a step."""

    notes: list[Written] = Field(max_length=40)


class Consolidate:
    """Notes from episodes."""

    name = "consolidate"
    asks = True

    def __init__(self) -> None:
        self._near: Related[Note] | None = None  # of the step before: each adds a few notes

    def plan(self, view: View) -> Sequence[Step]:
        """Return the segments, as many in a step as one question can hold; without what is in a note already."""
        notes = [each for each in standing.notes(view) if each.kind is not NoteKind.SUMMARY]
        done = {each for note in notes for each in note.evidence}
        found = [each for each in segments(view) if any(one.id not in done for one in each.episodes)]
        return [_step(part) for part in _packed(found)]

    async def propose(self, step: Step, view: View, ask: Ask) -> Sequence[Change]:
        """Return the notes that the model writes of a step, and the end of those that they replace."""
        parts = cast("Sequence[Segment]", step.data["segments"])
        there = standing.notes(view)
        kept = [each for each in there if each.kind is NoteKind.CONSOLIDATION]
        shown = max(FEWEST_SHOWN, min(SHOWN, len(step.episodes) // 2))
        least = ALIKE if len(kept) > SHOWN else 0.0
        self._near = Related(kept, self._near)
        notes = _fitting(self._near.to(step.episodes, shown, least=least), sum(size(part.episodes) for part in parts))
        sheet = Sheet()
        if notes:
            sheet.head("Earlier notes")
            sheet.notes(notes)
        earlier = await _earlier(view, parts, notes, shown)
        if len(step.episodes) == 1 and not notes and not earlier:
            return ()  # no note could rest on two
        if earlier:
            sheet.head("Said earlier")
            sheet.episodes(earlier)
        for part in parts:
            sheet.head("Said now")
            sheet.episodes(part.episodes)
        most = max(400, ANSWER_TOKENS * len(step.episodes))
        answer = await ask(prompt(self.name, view, sheet.text), Consolidated, most_tokens=most)
        return await self._made(view, parts, sheet, answer, {each.text for each in there})

    async def _made(
        self, view: View, parts: Sequence[Segment], sheet: Sheet, answer: Consolidated, there: set[str]
    ) -> Sequence[Change]:
        said = {each.id for part in parts for each in part.episodes}
        retired: set[str] = set()
        changes: list[Change] = []
        for written in answer.notes:
            text = one_line(written.text)
            named, old = sheet.behind(text, sheet.named(written.ids)), sheet.named(written.replaces)
            strangers = [*named.strangers, *old.strangers]
            new = [same for each in named.episodes for same in _with_duplicates(parts, each)]
            ids = {each for note in (*named.notes, *old.notes) for each in note.evidence}
            sources = list({each.id: each for each in (*new, *(await view.look.episodes(ids)).values())}.values())
            if not text or text in there or not (strangers or (len(sources) > 1 and said & {e.id for e in new})):
                continue
            there.add(text)
            about = f"what was said about one subject, {len(sources)} times"
            over = sheet.named(each for each in written.ended if each not in strangers)
            note = add_note(
                view, self.name, NoteKind.CONSOLIDATION, text, sources, why=about, strangers=strangers,
                ended=[each.id for each in (*over.episodes, *over.notes)],
            )  # fmt: skip
            changes.append(note)
            for each in old.notes if not strangers else ():
                if each.id not in retired and _may_replace(text, named.episodes, each):
                    retired.add(each.id)
                    why = f"note {note.target} says it and more"
                    changes.append(retire_note(view, self.name, each, why=why, instead=note.target))
        return changes


def _packed(found: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    """Return the segments in runs that are not too large together."""
    run: list[Segment] = []
    episodes = used = 0
    for segment in found:
        more = size(segment.episodes)
        if run and (episodes + len(segment.episodes) > MOST_EPISODES or used + more > MOST_TOKENS):
            yield run
            run, episodes, used = [], 0, 0
        run.append(segment)
        episodes, used = episodes + len(segment.episodes), used + more
    if run:
        yield run


def _step(parts: Sequence[Segment]) -> Step:
    episodes = sorted((each for part in parts for each in part.every), key=lambda each: each.number)
    read = sum(size(part.episodes) for part in parts)
    name = "; ".join(part.name for part in parts)[:200]
    return Step(name=name, episodes=episodes, tokens=read + BESIDE, data={"segments": parts})


async def _earlier(view: View, parts: Sequence[Segment], notes: Sequence[Note], most: int) -> Sequence[Episode]:
    """Return what was said before the page about the same, and is not in the notes that are shown."""
    noted = {key for note in notes for key in note.evidence}
    before = view.page[0].number
    found: dict[str, Episode] = {}
    texts = [" ".join(each.text for each in part.episodes)[:ASKED] for part in parts]
    for words, rows in zip(
        texts, await view.look.about(texts, before=before, limit=max(2, most // len(parts))), strict=True
    ):
        shown = [each for each in rows if each.id in noted]
        unnoted = set(asked_terms(words)).difference(*(_terms(note.text) for note in notes)) if shown else set[int]()
        told = {each.id for each in shown if unnoted.isdisjoint(asked_terms(each.text))}
        for each in rows:
            if each.id not in told and not each.stale and tokens(each.text) > SHORT:
                found[each.id] = each
    return sorted(found.values(), key=lambda each: each.number)[:most]


@lru_cache(maxsize=REMEMBERED)
def _terms(text: str) -> Sequence[int]:
    return asked_terms(text)


def _fitting(notes: Sequence[Note], room: int) -> Sequence[Note]:
    """Return of the nearest notes the first that take so many tokens together, but a few in any case, by time."""
    upto = accumulate(tokens(each.text) for each in notes)
    fit = [each for at, (each, used) in enumerate(zip(notes, upto, strict=True)) if at < FEW or used <= room]
    return sorted(fit, key=lambda each: (each.at, each.id))


def _with_duplicates(parts: Sequence[Segment], read: Episode) -> Sequence[Episode]:
    return [read, *(same for part in parts for same in part.duplicates.get(read.id, ()))]


def _may_replace(text: str, sources: Sequence[Episode], old: Note) -> bool:
    """Return whether a note that rests on all that the old one does may take its place."""
    if len(text) < LEAST_KEPT * len(old.text) or not standing.keeps(text, old):
        return False
    return standing.outweighs(sources, [old])
