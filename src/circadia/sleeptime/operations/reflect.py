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
from circadia.sleeptime.proposals.numbered_lines import NumberedLines
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.sleeptime.proposals.prompts import build_prompt
from circadia.sleeptime.proposals.related_rows import RelatedIndex

EACH: Final = 10
"""New notes that trigger a reflection."""
MOST_NOTES: Final = 20
"""Notes of a question; a long backlog has several questions."""
EVIDENCE: Final = 2
"""Episodes to show of each note: its first and its last."""
BELIEF_EVIDENCE: Final = 3
"""Episodes to show of each belief."""
LONGEST: Final = 120
"""Characters of each of them."""
BELIEFS: Final = 6
"""Earlier beliefs to show: those on the same subject, and those whose evidence has changed."""

_CHECK: Final = "beliefs whose evidence has changed"


class Belief(BaseModel):
    text: str = Field(max_length=600)
    ids: list[str] = Field(max_length=20)


class BeliefCheck(BaseModel):
    id: str
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
        beliefs = [each for each in projected if each.kind is NoteKind.BELIEF]
        notes = _notes_since(projected, beliefs)
        new = {each.id for each in projected_notes.project_new_notes(view)}
        before = sum(each.id not in new for each in notes)
        failed = _unsupported_beliefs(view, beliefs)
        checks = [_build_step(_CHECK, (), failed[at : at + BELIEFS]) for at in range(0, len(failed), BELIEFS)]
        if before // self._each == len(notes) // self._each:
            return checks
        due = notes[-(len(notes) - before // self._each * self._each) :]
        parts = [due[at : at + MOST_NOTES] for at in range(0, len(due), MOST_NOTES)]
        near = RelatedIndex(beliefs)
        steps: list[Step] = []
        for at, part in enumerate(parts):
            asked = [*(failed[:BELIEFS] if at == 0 else ()), *near.find_nearest(part, BELIEFS)][:BELIEFS]
            steps.append(_build_step(f"{len(part)} notes", part, list({each.id: each for each in asked}.values())))
        return [*steps, *checks[1:]]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the model's new beliefs, and the retirement of those that it rejects."""
        beliefs = cast("Sequence[Note]", step.data["beliefs"])
        gone = {each.target for each in view.proposed if each.kind is ChangeKind.RETIRE_NOTE}
        beliefs = [each for each in beliefs if each.id not in gone]
        if not beliefs and not step.notes:
            return ()
        sheet = await _build_lines(view, step.notes, beliefs)
        question = build_prompt(self.name, view, sheet.text, about=("beliefs",) if beliefs else ())
        answer = await ask(question, ReflectionAnswer, most_tokens=1_200)
        failed = {each.id for each in _unsupported_beliefs(view, beliefs)}
        may_go = [
            each for each in beliefs if each.id in failed or projected_notes.is_trusted_enough(step.notes, [each])
        ]
        changes = self._retire_beliefs(view, sheet, answer.checked, may_go)
        known = projected_notes.find_existing_texts(
            projected_notes.project_notes(view), (each.text for each in answer.beliefs)
        )
        for belief in answer.beliefs:
            text = one_line(belief.text)
            named = sheet.add_uncited_sources(text, sheet.resolve_ids(belief.ids))
            if not text or text in known or not (named.strangers or len(named.episodes) > 1):
                continue
            known.add(text)
            why = f"follows from {len(named.episodes)} things that were said"
            changes.append(
                add_note(view, self.name, NoteKind.BELIEF, text, named.episodes, why=why, strangers=named.strangers)
            )
        return changes

    def _retire_beliefs(
        self, view: PageContext, sheet: NumberedLines, checked: Sequence[BeliefCheck], beliefs: Sequence[Note]
    ) -> list[Change]:
        over = {note.id for each in checked if not each.holds for note in sheet.resolve_ids([each.id]).notes}
        why = "it does not follow from its evidence any more"
        return [retire_note(view, self.name, each, why=why) for each in beliefs if each.id in over]


def _notes_since(there: Sequence[Note], beliefs: Sequence[Note]) -> list[Note]:
    """Return the notes that are newer than the newest belief, the oldest first."""
    newest = max((each.created_at for each in beliefs), default=None)
    notes = [each for each in there if each.kind is NoteKind.CONSOLIDATION]
    return [each for each in notes if newest is None or each.created_at > newest or not each.number]


def _unsupported_beliefs(view: PageContext, beliefs: Sequence[Note]) -> Sequence[Note]:
    """Return the beliefs with stale evidence: a few for a page, all after demotions by others or in a full pass."""
    stale = projected_notes.list_demoted_episodes(view).keys() | set(view.stale)
    unsupported = [each for each in beliefs if each.number and not stale.isdisjoint(each.evidence)]
    return unsupported if view.stale else unsupported[:BELIEFS]


def _build_step(name: str, notes: Sequence[Note], beliefs: Sequence[Note]) -> Step:
    size = 130 * len(notes) + 300 * len(beliefs) + 300
    return Step(name=name, notes=notes, tokens=size, data={"beliefs": beliefs})


async def _build_lines(view: PageContext, notes: Sequence[Note], beliefs: Sequence[Note]) -> NumberedLines:
    """Return notes and beliefs with their evidence, and which of it is stale."""
    wanted = [*_select_evidence(notes, EVIDENCE), *_select_evidence(beliefs, BELIEF_EVIDENCE)]
    rows = await view.look.fetch_episodes(list(dict.fromkeys(wanted)))
    sheet = NumberedLines()
    sheet.add_heading("What was said")
    sheet.add_episodes(sorted(rows.values(), key=lambda each: each.number), longest=LONGEST)
    if notes:
        sheet.add_heading("Notes")
        sheet.add_notes(notes, evidence=rows)
    if beliefs:
        sheet.add_heading("Earlier beliefs")
        sheet.add_notes(beliefs, evidence=rows)
    stale = _stale_lines(view, rows.values(), sheet)
    if stale:
        sheet.add_heading("Does not hold any more")
        for text in stale:
            sheet.add_line(text)
    return sheet


def _stale_lines(view: PageContext, rows: Iterable[Episode], sheet: NumberedLines) -> Sequence[str]:
    reasons = {
        EpisodeId(each.target): str((each.after or {}).get("reason", ""))
        for each in view.proposed
        if each.kind is ChangeKind.DEMOTE_EPISODE
    }
    lines: list[str] = []
    for row in rows:
        over = [each.reason for each in row.stale if not is_repeat_demotion(each)]
        why = reasons.get(row.id) or (over[-1] if over else "")
        if why:
            lines.append(f"{sheet.id_of(row)}: {why[:LONGEST]}")
    return lines


def _select_evidence(notes: Sequence[Note], most: int) -> Iterator[EpisodeId]:
    for note in notes:
        ids = sorted(note.evidence)
        yield from (ids if len(ids) <= most else [*ids[: most // 2], *ids[most // 2 - most :]])
