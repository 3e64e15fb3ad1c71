"""Dedupe: keeps one of several equal notes, and counts a repeated statement once (SLEEP-20, SLEEP-29).

It uses no model, so equality is narrow: the same words in the same order. A statement with a relative date may describe
two events.

A new note that agents, tools or outside texts support beside what somebody more trusted said is proposed once more
for each such trust, with the lines of at least that trust as its only sources: of those that the judge finds to say all
of it, the most trusted one stays, with its trust (SLEEP-89).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, cast

from circadia.memory.capture.importance import is_content
from circadia.memory.relative_dates import find_relative_dates, local_time
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Demotion, Episode, EpisodeKind, least_trust
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.source_check import may_rest_on
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.changes import add_note, demote, least_trusted, retire_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.sleeptime.proposals.similarity import normalize_statement

MAX_QUERIES: Final = 30
"""New episodes of a page to search earlier repetitions of, the most important first."""
NEAREST: Final = 4
"""Earlier episodes to compare with each of them."""
MIN_WORDS: Final = 4
"""Fewest words of an episode or a note that makes a statement."""

AGAIN: Final = "said again"
"""Prefix of the reason for a demotion that ends nothing: a newer episode says the same."""
MAX_CHARACTERS: Final = 400
"""Maximum length of an episode that somebody may repeat word for word."""


class Dedupe:
    name = "dedupe"
    asks = False

    def __init__(self, *, is_judged: bool = True) -> None:
        """`is_judged` is whether a model judges what notes say; else no note gains trust."""
        self._is_judged = is_judged

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return a step for new notes, or all in a full pass, one for mixed sources, one for repeated statements."""
        steps: list[Step] = []
        new = projected_notes.project_notes(view) if view.full else projected_notes.project_new_notes(view)
        if new:
            steps.append(Step(name=f"{len(new)} {'' if view.full else 'new '}notes", notes=new))
        mixed = _list_mixed(view) if self._is_judged else ()
        if mixed:
            steps.append(Step(name=f"{len(mixed)} notes of agents, tools or outside texts", data={"mixed": True}))
        lasting = [episode for episode in view.page if _is_lasting(episode)]
        if lasting:
            steps.append(Step(name=f"{len(lasting)} statements", data={"said": lasting}))
        return steps

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        if step.notes:
            return [
                retire_note(view, self.name, less, why=f"note {more.id} says the same", instead=more.id)
                for less, more in _find_duplicates(projected_notes.project_notes(view), step.notes)
            ]
        if "mixed" in step.data:
            return await self._find_confirmed(view)
        return [
            demote(view, self.name, old.id, evidence=new.id, why=f"{AGAIN} on {local_time(new).date().isoformat()}")
            for old, new in await self._find_repeats(view, cast("Sequence[Episode]", step.data["said"]))
        ]

    async def _find_confirmed(self, view: PageContext) -> Sequence[Change]:
        """Propose each note again with its more trusted sources alone, where they may carry it; the judge decides.

        The more trusted one takes the place of the less trusted. The change has the operation of the note, whose texts
        are judged; what the note replaces is not shown with it.
        """
        added = {change.target: change for change in view.proposed if change.kind is ChangeKind.ADD_NOTE}
        changes: list[Change] = []
        for note in _list_mixed(view):
            operation, after = added[note.id].operation, added[note.id].after or {}
            rows = (await view.look.fetch_episodes(note.evidence)).values()
            if after.get("refused") or len(rows) < len(note.evidence):
                continue
            replaced = {change.target for change in view.proposed if (change.after or {}).get("instead") == note.id}
            old_notes = [old for old in view.notes if old.id in replaced]
            context = cast("Mapping[str, str]", after.get("context", {}))
            less = note
            for said in _list_more_trusted(rows):
                others = [*(row for row in rows if row not in said), *old_notes]
                if may_rest_on(note.text, said, others, context):
                    trust = least_trusted(said)
                    alone = add_note(
                        view, operation, note.kind, note.text, said, context=context,
                        why=f"what was said with the trust of {trust} carries it",
                        ended=cast("Sequence[str]", after.get("ended", ())),
                    )  # fmt: skip
                    why = f"note {alone.target} says it with the trust of {trust}"
                    changes += [alone, retire_note(view, self.name, less, why=why, instead=alone.target)]
                    less = projected_notes.build_note(alone, view.bank.id, view.now)
        return changes

    async def _find_repeats(self, view: PageContext, lasting: Sequence[Episode]) -> Sequence[tuple[Episode, Episode]]:
        """Return earlier episodes with their newest repetition, without those that are stale already."""
        newest: dict[tuple[str, str], Episode] = {}
        pairs: list[tuple[Episode, Episode]] = []
        for episode in reversed(lasting):
            new = newest.setdefault(_statement_key(episode), episode)
            if new is not episode:
                pairs.append((episode, new))
        queries = sorted(newest.values(), key=lambda episode: (-(episode.importance or 0), episode.number))[
            :MAX_QUERIES
        ]
        texts, before = [episode.text for episode in queries], view.page[0].number
        results = await view.look.search_related(texts, before=before, limit=NEAREST)
        for new, earlier in zip(queries, results, strict=True):
            pairs += ((row, new) for row in earlier if _statement_key(row) == _statement_key(new) and _is_lasting(row))
        stale = projected_notes.list_demoted_episodes(view)
        pairs.sort(key=lambda pair: pair[0].number)
        return [
            (old, new)
            for old, new in pairs
            if not old.stale and old.id not in stale and new.trust.rank <= old.trust.rank and old.at <= new.at
        ]


def _list_mixed(view: PageContext) -> Sequence[Note]:
    """Return the standing notes of this page that rest on more than what persons said."""
    new = (note for note in projected_notes.project_new_notes(view) if not note.number)
    return [note for note in new if note.kind is NoteKind.CONSOLIDATION and note.trust is not Trust.PERSON]


def _list_more_trusted(rows: Collection[Episode]) -> Sequence[Sequence[Episode]]:
    """Return what has at least each trust, without all rows together: the less trusted before the more trusted."""
    ranks = sorted({least_trust(row).rank for row in rows}, reverse=True)[1:]
    return [[row for row in rows if least_trust(row).rank <= rank] for rank in ranks]


def is_repeat_demotion(stale: Demotion) -> bool:
    """Return whether an episode was only demoted because it was repeated."""
    return stale.reason.startswith(AGAIN)


def _statement_key(episode: Episode) -> tuple[str, str]:
    return episode.speaker, normalize_statement(episode.text)


def _is_lasting(episode: Episode) -> bool:
    """Return whether an episode makes a lasting statement: no question, no event."""
    return (
        episode.kind in (EpisodeKind.TURN, EpisodeKind.FACT, EpisodeKind.READY)
        and episode.trust in (Trust.PERSON, Trust.AGENT)
        and not episode.incomplete
        and "?" not in episode.text
        and len(episode.text) <= MAX_CHARACTERS
        and len(episode.text.split()) >= MIN_WORDS
        and is_content(episode.text)
        and not find_relative_dates(episode.text, local_time(episode))
    )


def _find_duplicates(notes: Sequence[Note], new: Sequence[Note]) -> Iterator[tuple[Note, Note]]:
    """Yield equal notes, the redundant one first; one of both is new. A retired note replaces none."""
    retired_ids: set[str] = set()
    for one, other in _find_same_terms(notes, new):
        if one.id in retired_ids or other.id in retired_ids or one.kind != other.kind:
            continue
        less, more = _order_pair(one, other)
        if less.trust.rank < more.trust.rank or normalize_statement(more.text) != normalize_statement(less.text):
            continue
        retired_ids.add(less.id)
        yield less, more


def _find_same_terms(notes: Sequence[Note], new: Sequence[Note]) -> Iterator[tuple[Note, Note]]:
    by_words: dict[bytes, list[Note]] = {}
    for note in notes:
        by_words.setdefault(note.terms, []).append(note)
    for one in new:
        yield from ((one, other) for other in by_words.get(one.terms, ()) if other.id != one.id)


def _order_pair(one: Note, other: Note) -> tuple[Note, Note]:
    """Return the note to retire, then the one to keep: with more sources, more text, or the older one."""
    first, second = (
        (len(note.evidence), len(note.text), note.number > 0, -note.number, note.id) for note in (one, other)
    )
    return (one, other) if first < second else (other, one)
