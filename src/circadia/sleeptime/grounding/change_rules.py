"""What each proposed change is held to before it is published: rules see it and its sources, and nothing else.

They take time, so they are done before the publication begins, which all other writers would have to wait for. Sources
never change; of those that are forgotten meanwhile the publication tells itself.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from circadia.ids import EpisodeId
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode

Rule = Callable[[Change, Mapping[EpisodeId, Episode]], str]
"""Returns what is wrong with a change, empty if nothing is; it gets the sources that the bank has, by id."""
AT_ONCE: Final = 20
"""Changes that are held to the rules between two looks at whether somebody waits."""


def source_ids_of(change: Change) -> Sequence[EpisodeId]:
    """Return the ids of what a note or a block rests on, each once; none of other changes."""
    after = cast("Mapping[str, Any]", change.after or {})
    if change.kind is ChangeKind.ADD_NOTE:
        named: Sequence[str] = after.get("evidence", ())
    elif change.kind is ChangeKind.WRITE_BLOCK:
        named = [each for _, _, episodes in after.get("spans") or () for each in episodes]
    else:
        named = ()
    return [EpisodeId(each) for each in dict.fromkeys(named)]


def check_changes(changes: Sequence[Change], rows: Mapping[EpisodeId, Episode], rules: Sequence[Rule]) -> list[str]:
    """Return what is wrong with each of these, by the first rule that finds something."""
    return [next((found for rule in rules if (found := rule(each, rows))), "") for each in changes]


def split_changes(changes: Sequence[Change]) -> Sequence[Sequence[Change]]:
    """Return them in parts that are judged at once."""
    rest = iter(changes)
    return list(iter(lambda: list(islice(rest, AT_ONCE)), []))
