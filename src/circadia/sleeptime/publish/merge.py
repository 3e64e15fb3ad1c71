"""Three-way merge by lines, for a block that somebody changed while a pass was running (SLEEP-30).

A change on one side only is taken. Where both sides changed the same lines, the other side (a person, an agent) wins
over the pass, so that no person's edit is ever lost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeResult:
    text: str
    lost: Sequence[str]
    """Texts of the pass that were rejected, one per place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Hunk:
    """Replaces lines `start` to `end` of the base by `lines`."""

    start: int
    end: int
    lines: Sequence[str]


def merge_lines(base: str, *, ours: str, theirs: str, undoing: bool = False) -> MergeResult:
    """Return `theirs` with the changes of `ours` to the base that do not touch changes of `theirs`.

    Adjacent changes touch, since their order is unknown. So does a removed line beside one that somebody wrote, unless
    `undoing`: then the removed line was ours, and theirs stays where it is.
    """
    if theirs in (base, ours):
        return MergeResult(text=ours, lost=())
    if ours == base:
        return MergeResult(text=theirs, lost=())
    lines = base.split("\n")
    mine, other = _hunks(lines, ours.split("\n")), _hunks(lines, theirs.split("\n"))
    touch = _are_overlapping if undoing else _are_adjacent
    kept_hunks = [hunk for hunk in mine if not any(touch(hunk, one) and hunk != one for one in other)]
    lost = ["\n".join(hunk.lines) for hunk in mine if hunk not in kept_hunks]
    out: list[str] = []
    at = 0
    for hunk in sorted({(hunk.start, hunk.end, tuple(hunk.lines)) for hunk in (*kept_hunks, *other)}):
        out += lines[at : hunk[0]]
        out += hunk[2]
        at = max(at, hunk[1])
    out += lines[at:]
    return MergeResult(text="\n".join(out), lost=tuple(lost))


def _hunks(base: Sequence[str], changed: Sequence[str]) -> list[_Hunk]:
    return list(_find_hunks(base, changed))


def _find_hunks(base: Sequence[str], changed: Sequence[str]) -> Iterator[_Hunk]:
    for tag, start, end, first, last in SequenceMatcher(None, base, changed, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Hunk(start=start, end=end, lines=tuple(changed[first:last]))


def _are_adjacent(one: _Hunk, other: _Hunk) -> bool:
    """Return whether they change the same lines, or adjacent ones."""
    return one.start <= other.end and other.start <= one.end


def _are_overlapping(one: _Hunk, other: _Hunk) -> bool:
    """Return whether they change the same lines, or both insert adjacent ones."""
    if one.lines and other.lines:
        return _are_adjacent(one, other)
    return one.start < other.end and other.start < one.end
