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

    @property
    def growth(self) -> int:
        return len(self.lines) - (self.end - self.start)

    def overlaps(self, other: "_Hunk") -> bool:
        """Return whether both change a line, or add lines at the same place."""
        return (self.start, self.end) == (other.start, other.end) or (self.start < other.end and other.start < self.end)


def apply_change(base: bytes, ours: bytes, theirs: bytes) -> LineMerge:
    """Apply to our version what their version changes in the base.

    Changes must not overlap; the same change on both sides counts once. Where they do, nothing is decided.
    """
    base_lines, our_lines, their_lines = (data.splitlines(keepends=True) for data in (base, ours, theirs))
    our_hunks = _list_hunks(base_lines, our_lines)
    pending = list(our_hunks)
    merged, conflicts = list[bytes](), list[tuple[int, int]]()
    copied = shift = 0
    for hunk in _list_hunks(base_lines, their_lines):
        while pending and pending[0].end <= hunk.start and not pending[0].overlaps(hunk):
            shift += pending.pop(0).growth
        if hunk in our_hunks:
            continue
        overlapping = [each for each in pending if each.overlaps(hunk)]
        if overlapping:
            first = min(hunk.start, overlapping[0].start) + shift + 1
            last = max(hunk.end, overlapping[-1].end) + shift + sum(each.growth for each in overlapping)
            conflicts.append((first, max(first, last)))
            continue
        merged += our_lines[copied : hunk.start + shift]
        merged += hunk.lines
        copied = hunk.end + shift
    merged += our_lines[copied:]
    return LineMerge(b"".join(merged), tuple(conflicts))


def _list_hunks(base: Sequence[bytes], changed: Sequence[bytes]) -> list[_Hunk]:
    codes = SequenceMatcher(None, base, changed, autojunk=False).get_opcodes()
    return [_Hunk(start, end, tuple(changed[j:k])) for tag, start, end, j, k in codes if tag != "equal"]
