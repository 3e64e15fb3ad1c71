"""Makes the changes that operations propose: ids, trust and time follow from the sources, in one place.

An id is the hash of what the note says and rests on: a pass that is run again proposes the same note, not another.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from circadia.ids import EpisodeId, PassId
from circadia.records.bank import Trust
from circadia.records.block import Block
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.relative_dates import TRUST_WITHOUT_DAY, add_dates_from_sources, local_time
from circadia.sleeptime.proposals.operation import PageContext

INHERITED: Final = 0.9
"""SLEEP-20: the share of its most important source's importance that a note inherits."""
STALE_WEIGHT: Final = 0.3
"""SLEEP-29: what the importance of a stale episode is multiplied with."""


def add_note(
    view: PageContext, operation: str, kind: NoteKind, text: str, sources: Sequence[Episode], *, why: str,
    ended: Sequence[str] = (), strangers: Sequence[str] = (),
) -> Change:  # fmt: skip
    """Return a change that adds a note resting on these episodes: as trusted as the least trusted of them.

    A date that it tells from the day of a source stands beside its wording (SLEEP-24).

    `ended` are ids of episodes and notes of which it says that they do not hold any more. `strangers` are ids that a
    model named and was not shown: the publication refuses the note for them, on record.

    Raises:
        ValueError: it rests on nothing.
    """
    if not sources and not strangers:
        raise ValueError("a note rests on episodes")
    text = add_dates_from_sources(
        text, [(each.text, local_time(each)) for each in sources if each.trust not in TRUST_WITHOUT_DAY]
    )
    evidence = [*sorted({each.id for each in sources}), *(f"unknown {each}" for each in strangers)]
    key = f"not_{_digest(view.bank.id, operation, kind.value, text, *evidence)[:28]}"
    judged = [each.importance for each in sources if each.importance is not None]
    after: dict[str, object] = {
        "id": key,
        "kind": kind.value,
        "text": text,
        "evidence": evidence,
        "trust": least_trusted(sources).value if sources else Trust.EXTERNAL.value,
        "importance": round(max(judged) * INHERITED, 3) if judged else None,
        "at": max((each.at for each in sources), default=view.now).isoformat(),
        **({"ended": list(ended)} if ended else {}),
    }
    return _build_change(view, operation, ChangeKind.ADD_NOTE, key, after=after, why=why)


def retire_note(view: PageContext, operation: str, note: Note, *, why: str, instead: str | None = None) -> Change:
    """Return a change that takes a note out of searches; `instead` is the note that takes its place, if one does.

    With `instead` it is no removal, and comes about only if that note is there.
    """
    before: dict[str, object] = {"text": note.text, "evidence": list(note.evidence)}
    after: dict[str, object] | None = {"instead": instead} if instead else None
    return _build_change(view, operation, ChangeKind.RETIRE_NOTE, note.id, before=before, after=after, why=why)


def demote(view: PageContext, operation: str, episode_id: EpisodeId, *, evidence: str, why: str) -> Change:
    """Return a change that makes an episode count less; `evidence` is the id of what shows that it is stale.

    If that is a note, it comes about only if the note is there.
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
    """Return a change that writes a block; `spans` say which of its characters rest on which episodes."""
    read = block_of(view, label)
    before: dict[str, object] | None = None
    if read is not None:
        before = {
            "version": read.version,
            "value": read.value,
            "spans": [[each.start, each.end, list(each.episodes)] for each in read.spans],
        }
    after: dict[str, object] = {"value": value, "spans": [[start, end, list(ids)] for start, end, ids in spans]}
    return _build_change(view, operation, ChangeKind.WRITE_BLOCK, label, before=before, after=after, why=why)


def flag(
    view: PageContext, operation: str, target: str, said: str, sources: Sequence[Episode | Note], *, why: str
) -> Change:  # fmt: skip
    """Return a change that tells of two things which contradict each other, where no date decides.

    It goes when any of its sources is forgotten, since it says what they said.
    """
    after: dict[str, object] = {"text": said, "evidence": [each.id for each in sources]}
    return _build_change(view, operation, ChangeKind.FLAG, target, after=after, why=why)


def block_of(view: PageContext, label: str) -> Block | None:
    """Return the block of this label, as the pass has read it."""
    return next((each for each in view.blocks if each.label == label), None)


def least_trusted(sources: Sequence[Episode | Note]) -> Trust:
    """Return the trust of what is derived from these (MEM-14)."""
    return max((each.trust for each in sources), key=lambda trust: trust.rank)


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
