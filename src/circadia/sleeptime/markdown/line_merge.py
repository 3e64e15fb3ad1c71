"""A three-way merge by lines.

It stands on `difflib`: merge3, the kept library, has a licence that this package cannot take, and not every machine has
git.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple


class LineMerge(NamedTuple):
    data: bytes
    conflicts: tuple[tuple[int, int], ...]
    """Line numbers of our version, first and last, that both sides changed."""


class _Hunk(NamedTuple):
    """Lines of the base, from `start` until before `end`, and what replaces them."""

    start: int
    end: int
    lines: tuple[bytes, ...]


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> LineMerge:
    """Apply to our version what their version changes in the base.

    Changes must not overlap or touch; the same change on both sides counts once.
    """
    base_lines, our_lines, their_lines = (data.splitlines(keepends=True) for data in (base, ours, theirs))
    our_hunks = _list_hunks(base_lines, our_lines)
    merged, conflicts = list[bytes](), list[tuple[int, int]]()
    place = 0
    shift = 0
    pending = list(our_hunks)
    for hunk in _list_hunks(base_lines, their_lines):
        while pending and pending[0].end < hunk.start:
            passed = pending.pop(0)
            shift += len(passed.lines) - (passed.end - passed.start)
        start = hunk.start + shift
        if hunk in our_hunks:
            continue
        if pending and pending[0].start <= hunk.end:
            conflicts.append((start + 1, max(start + 1, hunk.end + shift)))
            continue
        merged += our_lines[place:start]
        merged += hunk.lines
        place = hunk.end + shift
    merged += our_lines[place:]
    return LineMerge(b"".join(merged), tuple(conflicts))


def _list_hunks(base: Sequence[bytes], changed: Sequence[bytes]) -> list[_Hunk]:
    codes = SequenceMatcher(None, base, changed, autojunk=False).get_opcodes()
    return [_Hunk(start, end, tuple(changed[j:k])) for tag, start, end, j, k in codes if tag != "equal"]
