"""Rules for proposed changes, which see a change and its sources and nothing else.

They run before the publication, because they take time and all other writers would wait. Sources never change; the
publication itself checks for forgotten ones.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar, cast

from circadia.ids import EpisodeId
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode

T = TypeVar("T")
Rule = Callable[[Change, Mapping[EpisodeId, Episode]], str]
"""Returns the violation of a change, empty without one; the mapping holds the bank's sources by id."""


class FinalRefusal(str):
    """A reason that no other text takes away: the model does not get what is refused for it back (SLEEP-83)."""

    __slots__ = ()


UNKNOWN: Final = "unknown "
"""Before an id in the evidence that the model was not shown."""
NOTE: Final = "not_"
"""Beginning of the ids of notes that passes make; an episode that was imported may have any other id."""
AT_ONCE: Final = 20
"""Changes to check between two checks for waiting calls."""


def source_ids_of(change: Change) -> Sequence[EpisodeId]:
    """Return the ids of the episodes behind a note, a block or a flag, each once; none for other changes."""
    after = cast("Mapping[str, Any]", change.after or {})
    if change.kind is ChangeKind.ADD_NOTE:
        named: Sequence[str] = after.get("evidence", ())
    elif change.kind is ChangeKind.FLAG:
        named = [key for key in after.get("evidence", ()) if not key.startswith(NOTE)]
    elif change.kind is ChangeKind.WRITE_BLOCK:
        edit = cast("Mapping[str, Sequence[str]]", after.get("edit") or {})
        named = [episode_id for _, _, episodes in after.get("spans") or () for episode_id in episodes]
        named = [*named, *edit.get("ids", ())]
    else:
        named = ()
    return [EpisodeId(episode_id) for episode_id in dict.fromkeys(named)]


def check_changes(changes: Sequence[Change], rows: Mapping[EpisodeId, Episode], rules: Sequence[Rule]) -> list[str]:
    """Return the first violation of each change, empty without one; an operation may have found one itself."""
    return [
        cast("str", (change.after or {}).get("refused"))
        or next((reason for rule in rules if (reason := rule(change, rows))), "")
        for change in changes
    ]


def split_rows(rows: Iterable[T], at_once: int = AT_ONCE) -> Iterator[Sequence[T]]:
    """Yield the rows in parts of so many."""
    rest = iter(rows)
    return iter(lambda: list(islice(rest, at_once)), [])
