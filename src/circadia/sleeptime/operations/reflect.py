"""Reflect: derives beliefs from several notes, with evidence, and checks them again when that fails (SLEEP-21).

It runs once enough notes are new. The notes themselves show how many; nothing else is stored.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

from pydantic import BaseModel, Field

from circadia.ids import EpisodeId
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.operations.dedupe import is_repeat_demotion
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.changes import add_note, retire_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, RefusedText, Step
from circadia.sleeptime.proposals.prompts import LONGEST, NumberedLines, build_prompt
from circadia.sleeptime.proposals.similarity import RelatedIndex

EACH: Final = 10
"""New notes that trigger a reflection."""
MAX_NOTES: Final = 20
"""Notes of a question; a long backlog has several questions."""
EVIDENCE: Final = 12
"""Episodes to show of each note and belief: its first and its last."""
SHOWN: Final = 24_000
"""Characters of them to show in one question, some 6,000 tokens."""
SHORTEST: Final = 200
"""Characters of each of them, however many there are."""
BELIEFS: Final = 6
"""Earlier beliefs to show: those on the same subject, and those whose evidence has changed."""

_CHECK: Final = "beliefs whose evidence has changed"


class Belief(BaseModel):
    text: str = Field(max_length=600)
    ids: list[str] = Field(max_length=20)


class BeliefCheck(BaseModel):
    id: str
    why: str = ""
    holds: bool


class ReflectionAnswer(BaseModel):
    beliefs: list[Belief] = Field(max_length=10)
    checked: list[BeliefCheck] = Field(default_factory=list[BeliefCheck], max_length=BELIEFS)


class Reflect:
    name = "reflect"
    asks = True

    def __init__(self, *, each: int = EACH) -> None:
        self._each = each

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return steps if the page completes enough new notes, and one for beliefs whose evidence failed."""
        projected = projected_notes.project_notes(view)
        beliefs = [note for note in projected if note.kind is NoteKind.BELIEF]
        notes = _notes_since(projected, beliefs)
        new = {note.id for note in projected_notes.project_new_notes(view)}
        before = sum(note.id not in new for note in notes)
        failed = _unsupported_beliefs(view, beliefs)
        checks = [_build_step(_CHECK, (), failed[at : at + BELIEFS]) for at in range(0, len(failed), BELIEFS)]
        if before // self._each == len(notes) // self._each:
            return checks
        due = notes[-(len(notes) - before // self._each * self._each) :]
        parts = [due[at : at + MAX_NOTES] for at in range(0, len(due), MAX_NOTES)]
        near = RelatedIndex(beliefs, vector_of=view.vector_of)
        steps: list[Step] = []
        for at, part in enumerate(parts):
            near_beliefs = [*(failed[:BELIEFS] if at == 0 else ()), *near.find_nearest(part, BELIEFS)][:BELIEFS]
            steps.append(
                _build_step(f"{len(part)} notes", part, list({note.id: note for note in near_beliefs}.values()))
            )
        return [*steps, *checks[1:]]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the model's new beliefs, and the retirement of those that it rejects."""
        beliefs = cast("Sequence[Note]", step.data["beliefs"])
        retired_ids = {change.target for change in view.proposed if change.kind is ChangeKind.RETIRE_NOTE}
        beliefs = [belief for belief in beliefs if belief.id not in retired_ids]
        if not beliefs and not step.notes:
            return ()
        lines = await _build_lines(view, step.notes, beliefs)
        refused = cast("Sequence[RefusedText]", step.data.get("refused", ()))
        lines.add_refusals(refused)
        about = [name for name, holds in (("beliefs", beliefs), ("refused", refused)) if holds]
        question = build_prompt(self.name, view, lines.text, about=about)
        answer = await ask(question, ReflectionAnswer, most_tokens=1_200)
        failed = {belief.id for belief in _unsupported_beliefs(view, beliefs)}
        may_go = [
            note for note in beliefs if note.id in failed or projected_notes.is_trusted_enough(step.notes, [note])
        ]
        changes = self._retire_beliefs(view, lines, answer.checked, may_go)
        known = projected_notes.find_existing_texts(
            projected_notes.project_notes(view), (belief.text for belief in answer.beliefs)
        )
        for belief in answer.beliefs:
            text = one_line(belief.text)
            named = lines.resolve_ids(belief.ids)
            if not text or text in known or not (named.unknown_ids or len(named.episodes) > 1):
                continue
            known.add(text)
            why = f"follows from {len(named.episodes)} things that were said"
            changes.append(
                add_note(view, self.name, NoteKind.BELIEF, text, named.episodes, why=why, unknown_ids=named.unknown_ids)
            )
        return changes

    def _retire_beliefs(
        self, view: PageContext, sheet: NumberedLines, checked: Sequence[BeliefCheck], beliefs: Sequence[Note]
    ) -> list[Change]:
        over = {note.id for check in checked if not check.holds for note in sheet.resolve_ids([check.id]).notes}
        why = "it does not follow from its evidence any more"
        return [retire_note(view, self.name, belief, why=why) for belief in beliefs if belief.id in over]


def _notes_since(projected: Sequence[Note], beliefs: Sequence[Note]) -> list[Note]:
    """Return the notes that are newer than the newest belief, the oldest first."""
    newest = max((belief.created_at for belief in beliefs), default=None)
    notes = [note for note in projected if note.kind is NoteKind.CONSOLIDATION]
    return [note for note in notes if newest is None or note.created_at > newest or not note.number]


def _unsupported_beliefs(view: PageContext, beliefs: Sequence[Note]) -> Sequence[Note]:
    """Return the beliefs with stale evidence: a few for a page, all after demotions by others or in a full pass."""
    stale = projected_notes.list_demoted_episodes(view).keys() | set(view.stale)
    unsupported = [belief for belief in beliefs if belief.number and not stale.isdisjoint(belief.evidence)]
    return unsupported if view.stale else unsupported[:BELIEFS]


def _build_step(name: str, notes: Sequence[Note], beliefs: Sequence[Note]) -> Step:
    size = 220 * len(notes) + 300 * len(beliefs) + 300
    return Step(name=name, notes=notes, tokens=size, data={"beliefs": beliefs})


async def _build_lines(view: PageContext, notes: Sequence[Note], beliefs: Sequence[Note]) -> NumberedLines:
    """Return notes and beliefs with their evidence, and which of it is stale."""
    rows = await view.look.fetch_episodes(list(dict.fromkeys(_select_evidence((*notes, *beliefs)))))
    longest = min(LONGEST, max(SHORTEST, SHOWN // max(1, len(rows))))
    lines = NumberedLines()
    lines.add_heading("What was said")
    lines.add_episodes(sorted(rows.values(), key=lambda episode: episode.number), longest=longest)
    if notes:
        lines.add_heading("Notes")
        lines.add_notes(notes, evidence=rows)
    if beliefs:
        lines.add_heading("Earlier beliefs")
        lines.add_notes(beliefs, evidence=rows)
    stale = _stale_lines(view, rows.values(), lines)
    if stale:
        lines.add_heading("Does not hold any more")
        for text in stale:
            lines.add_line(text)
    return lines


def _stale_lines(view: PageContext, rows: Iterable[Episode], sheet: NumberedLines) -> Sequence[str]:
    reasons = {
        EpisodeId(change.target): str((change.after or {}).get("reason", ""))
        for change in view.proposed
        if change.kind is ChangeKind.DEMOTE_EPISODE
    }
    lines: list[str] = []
    for row in rows:
        over = [demotion.reason for demotion in row.stale if not is_repeat_demotion(demotion)]
        why = reasons.get(row.id) or (over[-1] if over else "")
        if why:
            lines.append(f"{sheet.id_of(row)}: {why[:SHORTEST]}")
    return lines


def _select_evidence(notes: Iterable[Note]) -> Iterator[EpisodeId]:
    for note in notes:
        ids = sorted(note.evidence)
        yield from (ids if len(ids) <= EVIDENCE else [*ids[: EVIDENCE // 2], *ids[-(EVIDENCE // 2) :]])
