"""Changes of passes with the texts that they concern and rest on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, cast

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.change import Change, ChangeKind
from circadia.schemas.passes import ChangeSourceView, ChangeView
from circadia.sleeptime.grounding.change_rules import source_ids_of
from circadia.stores.base import Tx

MAX_WITH_TEXTS: Final = 100
"""Changes of a page that has their texts."""
MAX_TEXTS: Final = 12
"""Texts of one change."""
SHOWN: Final = 600
"""Characters of each text."""
_HAS_TARGET: Final = (ChangeKind.RETIRE_NOTE, ChangeKind.DEMOTE_EPISODE, ChangeKind.FLAG)
_KEYS: Final = ("instead", "evidence", "ended")
"""Keys of `after` that may name notes or episodes."""
Role = Literal["target", "source"]


async def change_views(tx: Tx, bank_id: BankId, changes: Sequence[Change]) -> list[ChangeView]:
    """Return views of changes of one bank, with the first texts that each concerns and rests on."""
    named = [list(_find_ids(change))[:MAX_TEXTS] for change in changes]
    texts = await _read_texts(tx, bank_id, {key for ids in named for key, _ in ids})
    return [
        ChangeView.of(change, texts=[texts[key].model_copy(update={"role": role}) for key, role in ids if key in texts])
        for change, ids in zip(changes, named, strict=True)
    ]


async def _read_texts(tx: Tx, bank_id: BankId, ids: set[str]) -> Mapping[str, ChangeSourceView]:
    """Return the first characters of these notes and episodes that still exist."""
    episodes = await tx.episodes.find_excerpts(bank_id, [EpisodeId(key) for key in ids], characters=SHOWN)
    rest = [NoteId(key) for key in ids if key not in episodes]
    found = {**episodes, **await tx.notes.find_excerpts(bank_id, rest, characters=SHOWN)}
    return {key: ChangeSourceView.of(row, id=key, role="source") for key, row in found.items()}


def _find_ids(change: Change) -> Iterator[tuple[str, Role]]:
    """Yield the ids of what a change concerns, then of what it rests on, each once."""
    known: set[str] = set()
    if change.kind in _HAS_TARGET:
        known.add(change.target)
        yield change.target, "target"
    after = change.after or {}
    edit = after.get("edit")
    edited = _as_ids(cast("Mapping[str, object]", edit).get("ids")) if isinstance(edit, Mapping) else ()
    for key in [*edited, *(each for name in _KEYS for each in _as_ids(after.get(name))), *source_ids_of(change)]:
        if key not in known:
            known.add(key)
            yield key, "source"


def _as_ids(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    return [str(each) for each in cast("Sequence[object]", value)] if isinstance(value, list | tuple) else ()
