"""Builds the changes that operations propose, with ids, trust and time from their sources.

A note's id is the hash of its text and sources, so that a repeated pass proposes the same note.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from circadia.ids import EpisodeId, PassId
from circadia.memory.relative_dates import TRUST_WITHOUT_DAY, add_dates_from_sources, local_time
from circadia.records.bank import Trust
from circadia.records.block import Block
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode, least_trust
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.change_rules import UNKNOWN
from circadia.sleeptime.proposals.operation import PageContext

INHERITED: Final = 0.9
"""SLEEP-20: share of its most important source's importance that a note inherits."""
STALE_WEIGHT: Final = 0.3
"""SLEEP-29: factor on the importance of a stale episode."""


def add_note(
    view: PageContext, operation: str, kind: NoteKind, text: str, sources: Sequence[Episode], *, why: str,
    ended: Sequence[str] = (), unknown_ids: Sequence[str] = (), context: Mapping[str, str] | None = None,
    refused: str = "",
) -> Change:  # fmt: skip
    """Return a change that adds a note with these sources: as trusted as the least trusted of them.

    Relative dates of a source get the calendar date beside them (SLEEP-24).

    `ended` are ids of episodes and notes that no longer hold according to the note. `unknown_ids` are ids that the
    model was not shown: the publication refuses the note for them, on record, as for `refused`, a reason. `context`
    has the row of each name, number, date and code that no source has. Without sources it raises ValueError.
    """
    if not sources and not unknown_ids and not refused:
        raise ValueError("a note needs at least one source")
    text = add_dates_from_sources(
        text, [(source.text, local_time(source)) for source in sources if source.trust not in TRUST_WITHOUT_DAY]
    )
    evidence = [*sorted({source.id for source in sources}), *(f"{UNKNOWN}{stranger}" for stranger in unknown_ids)]
    key = f"not_{_digest(view.bank.id, operation, kind.value, text, *evidence)[:28]}"
    rated = [source.importance for source in sources if source.importance is not None]
    after: dict[str, object] = {
        "id": key,
        "kind": kind.value,
        "text": text,
        "evidence": evidence,
        "trust": least_trusted(sources).value if sources else Trust.EXTERNAL.value,
        "importance": round(max(rated) * INHERITED, 3) if rated else None,
        "at": max((source.at for source in sources), default=view.now).isoformat(),
        **({"ended": list(ended)} if ended else {}),
        **({"context": dict(context)} if context else {}),
        **({"refused": refused} if refused else {}),
    }
    return _build_change(view, operation, ChangeKind.ADD_NOTE, key, after=after, why=why)


def retire_note(view: PageContext, operation: str, note: Note, *, why: str, instead: str | None = None) -> Change:
    """Return a change that removes a note from searches; `instead` is the note that replaces it, if one does.

    A replacement is no removal. The change is only applied if that note exists. Beliefs that a pass has drawn are
    marked, unless a person has restored them: their sources stay.
    """
    before: dict[str, object] = {"text": note.text, "evidence": list(note.evidence)}
    if note.kind is NoteKind.BELIEF and note.pass_id is not None and not note.returned:
        before["belief"] = True
    after: dict[str, object] | None = {"instead": instead} if instead else None
    return _build_change(view, operation, ChangeKind.RETIRE_NOTE, note.id, before=before, after=after, why=why)


def demote(view: PageContext, operation: str, episode_id: EpisodeId, *, evidence: str, why: str) -> Change:
    """Return a change that lowers an episode's weight; `evidence` is the id that shows it to be stale.

    If that is a note, the change is only applied if the note exists.
    """
    after: dict[str, object] = {"reason": why, "evidence": evidence, "weight": STALE_WEIGHT}
    return _build_change(view, operation, ChangeKind.DEMOTE_EPISODE, episode_id, after=after, why=why)


def write_block(
    view: PageContext,
    operation: str,
    label: str,
    value: str,
    spans: Sequence[tuple[int, int, Sequence[str]]],
    *,
    why: str,
) -> Change:
    """Return a change that writes a block; `spans` map its characters to the episodes that support them."""
    read = block_of(view, label)
    before: dict[str, object] | None = None
    if read is not None:
        before = {
            "version": read.version,
            "value": read.value,
            "spans": [[span.start, span.end, list(span.episodes)] for span in read.spans],
        }
    after: dict[str, object] = {"value": value, "spans": [[start, end, list(ids)] for start, end, ids in spans]}
    return _build_change(view, operation, ChangeKind.WRITE_BLOCK, label, before=before, after=after, why=why)


def flag(
    view: PageContext, operation: str, target: str, said: str, sources: Sequence[Episode | Note], *, why: str
) -> Change:  # fmt: skip
    """Return a change that reports an undecided contradiction; it goes if a source is forgotten, since it quotes it."""
    after: dict[str, object] = {"text": said, "evidence": [source.id for source in sources]}
    return _build_change(view, operation, ChangeKind.FLAG, target, after=after, why=why)


def block_of(view: PageContext, label: str) -> Block | None:
    return next((block for block in view.blocks if block.label == label), None)


def least_trusted(sources: Sequence[Episode | Note]) -> Trust:
    """Return the trust of text derived from these (MEM-14)."""
    return max(map(least_trust, sources), key=lambda trust: trust.rank)


def _build_change(
    view: PageContext, operation: str, kind: ChangeKind, target: str, *, why: str,
    before: dict[str, object] | None = None, after: dict[str, object] | None = None,
) -> Change:  # fmt: skip
    return Change(
        pass_id=PassId(""), number=0, operation=operation, kind=kind, target=target, before=before, after=after,
        why=why, at=view.now,
    )  # fmt: skip


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()
