"""Three-way merges by lines: of a block that somebody changed while a pass was running (SLEEP-30), and of a file.

They stand on `difflib`: merge3, the kept library, has a licence that this package cannot take, and not every machine
has git.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import AnyStr, Generic, NamedTuple


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeResult:
    text: str
    lost: Sequence[str]
    """Texts of the pass that were rejected, one per place."""


class LineMerge(NamedTuple):
    data: bytes
    conflicts: tuple[tuple[int, int], ...]
    """Line numbers of our version, first and last, that both sides changed."""


class _Hunk(NamedTuple, Generic[AnyStr]):
    """Lines of the base, from `start` until before `end`, and what replaces them."""

    start: int
    end: int
    lines: tuple[AnyStr, ...]

    @property
    def growth(self) -> int:
        return len(self.lines) - (self.end - self.start)

    def adjoins(self, other: "_Hunk[AnyStr]") -> bool:
        """Return whether both change the same lines, or adjacent ones."""
        return self.start <= other.end and other.start <= self.end

    def overlaps(self, other: "_Hunk[AnyStr]") -> bool:
        """Return whether both change a line, or change the lines at exactly the same place."""
        return (self.start, self.end) == (other.start, other.end) or (self.start < other.end and other.start < self.end)


def merge_lines(base: str, *, ours: str, theirs: str, undoing: bool = False) -> MergeResult:
    """Return `theirs` with the changes of `ours` to the base that do not touch changes of `theirs`.

    A change on one side only is taken. Where both sides changed the same lines, the other side (a person, an agent)
    wins over the pass, so that no person's edit is ever lost. Adjacent changes touch, since their order is unknown. So
    does a removed line beside one that somebody wrote, unless `undoing`: then the removed line was ours, and theirs
    stays where it is.
    """
    if theirs in (base, ours):
        return MergeResult(text=ours, lost=())
    if ours == base:
        return MergeResult(text=theirs, lost=())
    lines = base.split("\n")
    mine, other = _find_hunks(lines, ours.split("\n")), _find_hunks(lines, theirs.split("\n"))

    def touch(one: _Hunk[str], another: _Hunk[str]) -> bool:
        if not undoing or (one.lines and another.lines):
            return one.adjoins(another)
        return one.start < another.end and another.start < one.end

    kept_hunks = [hunk for hunk in mine if not any(touch(hunk, one) and hunk != one for one in other)]
    lost = ["\n".join(hunk.lines) for hunk in mine if hunk not in kept_hunks]
    out: list[str] = []
    at = 0
    for hunk in sorted({*kept_hunks, *other}):
        out += lines[at : hunk.start]
        out += hunk.lines
        at = max(at, hunk.end)
    out += lines[at:]
    return MergeResult(text="\n".join(out), lost=tuple(lost))


def apply_change(base: bytes, ours: bytes, theirs: bytes) -> LineMerge:
    """Apply to our version what their version changes in the base.

    Changes must not overlap; the same change on both sides counts once. Where they do, nothing is decided.
    """
    base_lines, our_lines, their_lines = (data.splitlines(keepends=True) for data in (base, ours, theirs))
    our_hunks = _find_hunks(base_lines, our_lines)
    pending = list(our_hunks)
    merged, conflicts = list[bytes](), list[tuple[int, int]]()
    copied = shift = 0
    for hunk in _find_hunks(base_lines, their_lines):
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


def _find_hunks(base: Sequence[AnyStr], changed: Sequence[AnyStr]) -> list[_Hunk[AnyStr]]:
    codes = SequenceMatcher(None, base, changed, autojunk=False).get_opcodes()
    return [_Hunk(start, end, tuple(changed[j:k])) for tag, start, end, j, k in codes if tag != "equal"]
