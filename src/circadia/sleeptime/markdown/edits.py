"""Edits of a Markdown memory file, in the file's own style. What an edit does not name stays byte for byte.

Each result is parsed again before it is returned: an edit that would change how another entry reads is refused.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby, takewhile
from pathlib import PurePosixPath
from typing import Final

from circadia.errors import Conflict, InvalidRequest
from circadia.sleeptime.markdown.entries import (
    BOM,
    BlockKind,
    Document,
    MarkdownBlock,
    is_keep,
    label_of,
    parse_entries,
    render_scalar,
)

_SOURCE: Final = re.compile(rb"<!-- circadia: session [^\s,<>]{1,800}, line \d{1,9}, \d{4}-\d\d-\d\d -->")
_NO_ID: Final = re.compile(r"[\s,<>]")
_BULLET: Final = re.compile(r"^[-*+]\s+")
"""A mark with which a text may begin, as the entries around it do; an edit puts its file's own there."""
_BLANK_LINE: Final = re.compile(rb"\n[ \t]*\r?\n")
_MARKER: Final = re.compile(rb" {0,3}(?:[-*+]|(\d{1,9})[.)])[ \t]{1,4}(?=\S)")
_LINE_ENDS: Final = b"\r\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryAddition:
    text: str
    headings: tuple[str, ...] | None = None
    """The headings of its section, outermost first; none for the end of the file."""
    source: str = ""
    """As `render_source` returns it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryChange:
    """A new text for an entry, which keeps its source unless there is a new one; or its removal."""

    entry: MarkdownBlock
    text: str | None = None
    source: str = ""


Edit = EntryAddition | EntryChange
_Wanted = tuple[bytes, bool | None]
"""An entry as it is to read, and whether it is pinned; none for a new one, which its section may pin."""


def render_source(session: str, line: int, day: date) -> str:
    """Return the comment behind an entry that says where it was stated: the line of a transcript, and the day."""
    return f"<!-- circadia: session {_NO_ID.sub('_', session[:200])}, line {line}, {day.isoformat()} -->"


def source_comment(document: Document, entry: MarkdownBlock) -> str:
    """Return the comment that names the source of an entry; empty without one."""
    match = _SOURCE.search(document.raw(entry))
    return match[0].decode("utf-8", "replace") if match else ""


def apply_edits(document: Document, edits: Sequence[Edit]) -> bytes:
    """Return the file's new bytes: first without what is removed, then with what is added, in the order given.

    Raises Conflict: an entry is pinned, the file is read-only or has changed, or other text would change its meaning.
    Raises InvalidRequest: a text is empty or no entry, or the file has no such section.
    """
    if edits:
        check_editable(document)
    changes = [edit for edit in edits if isinstance(edit, EntryChange)]
    additions = [edit for edit in edits if isinstance(edit, EntryAddition)]
    if any(change.entry.is_entry for change in changes):
        document = _change_entries(document, [change for change in changes if change.entry.is_entry])
    for headings, group in groupby(additions, key=lambda addition: addition.headings):
        document = _add_entries(document, headings, list(group))
    for change in changes:
        if change.entry.kind == BlockKind.DESCRIPTION:
            document = _change_description(document, change)
    return document.data


def _change_description(document: Document, edit: EntryChange) -> Document:
    place, text = document.description, " ".join((edit.text or "").split())
    if place is None or document.raw(place) != document.raw(edit.entry):
        raise Conflict("its description has changed; read the file again")
    end = document.raw(place)[len(document.raw(place).rstrip(_LINE_ENDS)) :]
    line = f"description: {render_scalar(text)}".encode("utf-8", "replace") + end
    changed = parse_entries(document.data[: place.start] + line + document.data[place.end :])
    if changed.front_matter != {**document.front_matter, "description": text}:
        raise Conflict("its front matter would read differently; change its description by hand")
    return changed


def check_editable(document: Document) -> None:
    """Raises Conflict: the file is read-only or pinned."""
    if not document.is_writable:
        raise Conflict("the file is read-only; dreams leave it as it is")
    if document.is_pinned:
        raise Conflict("the file is pinned; remove `<!-- keep -->` or its key so that dreams may change it")


@dataclass(frozen=True, kw_only=True, slots=True)
class RetiredEntry:
    path: PurePosixPath
    """The file in which it stood."""
    text: bytes
    """What its file below `.circadia/retired/` gets at its end."""


def retired_entry(
    document: Document, entry: MarkdownBlock, *, path: PurePosixPath, why: str, instead: str, day: date
) -> RetiredEntry:
    """Return what `.circadia/retired/` keeps of an entry: why it went, what takes its place, and its bytes.

    `instead` names a file and line, or the source of what is newer.
    """
    head = (
        f"## {day.isoformat()}, {path} line {entry.line}",
        *([f"Section: {' / '.join(entry.headings)}"] if entry.headings else []),
        f"Why: {_one_line(why)}",
        f"Instead: {_one_line(instead)}",
    )
    text = "\n\n".join((*head, "")).encode("utf-8", "replace") + document.raw(entry).rstrip(_LINE_ENDS) + b"\n\n"
    return RetiredEntry(path=path, text=text)


def _one_line(text: str) -> str:
    """Return a text on one line, unable to open a comment: a comment pins an entry or names its source."""
    return " ".join(text.replace("<!--", "&lt;!--").split())


def read_as_entry(text: str) -> str:
    """Return what an entry with this text reads as: without a mark such as `- ` before it, and without comments."""
    entries = parse_entries(_render(_text_lines(text), b"- ", b"\n")).entries
    return entries[0].text if entries else ""


def _text_lines(text: str) -> list[str]:
    """Return the lines of a text that say something, without the mark before it.

    Of no use is `---` alone, which would make a heading of the line above.
    """
    said = [_one_line(line) for line in text.splitlines() if line.startswith("```") or any(map(str.isalnum, line))]
    return [_BULLET.sub("", line) if number == 0 else line for number, line in enumerate(said)]


def _render_entry(document: Document, text: str, source: str, marker: bytes) -> bytes:
    """Return an entry as an item with this marker, or without one as paragraphs, each of its lines in one of its own.

    A text that would not be one entry as paragraphs becomes an item.
    """
    lines = _text_lines(text)
    if not read_as_entry(text):
        raise InvalidRequest("an entry has no text; leave it out")
    if source:
        lines[0] += f" {source}"
    line_end = document.line_end
    paragraphs = b"" if marker else _render(lines, marker, line_end)
    if paragraphs and [entry.text for entry in parse_entries(paragraphs).entries] == [read_as_entry(text)]:
        return paragraphs
    is_spaced = any(_BLANK_LINE.search(document.raw(entry).rstrip()) for entry in document.entries)
    return _render(lines, marker or b"- ", line_end, is_spaced=is_spaced)


def _render(lines: Sequence[str], marker: bytes, line_end: bytes, *, is_spaced: bool = False) -> bytes:
    """Return lines as paragraphs, or as an item; `is_spaced` sets paragraphs of an item apart by blank lines."""
    indent, rendered, is_step = b" " * len(marker), b"", False
    for number, line in enumerate(lines):
        was_step, is_step = is_step, _MARKER.match(line.encode("utf-8", "replace")) is not None
        is_apart = (not marker or is_spaced) and (label_of(line) != "" or is_step != was_step)
        before = marker if number == 0 else line_end * (2 if is_apart else 1) + indent
        rendered += before + line.encode("utf-8", "replace")
    return rendered


def _change_entries(document: Document, changes: Sequence[EntryChange]) -> Document:
    by_entry = {change.entry: change for change in changes}
    blocks = set(document.blocks)
    for entry in by_entry:
        if entry not in blocks or not entry.is_entry:
            raise Conflict(f"line {entry.line} is no longer the entry {entry.text[:80]!r}; read the file again")
        if entry.is_pinned:
            raise Conflict(f"the entry {entry.text[:80]!r} in line {entry.line} is pinned with `<!-- keep -->`")
    wanted: list[_Wanted] = []
    replacements: list[tuple[MarkdownBlock, bytes | None]] = []
    for entry in document.entries:
        raw: bytes | None = document.raw(entry)
        if change := by_entry.get(entry):
            raw = None if change.text is None else _render_changed(document, entry, change.text, change.source)
            replacements.append((entry, raw))
        if raw is not None:
            wanted.append((raw, entry.is_pinned))
    for separator in (b"", document.line_end):
        changed = parse_entries(_splice(document, replacements, separator))
        if _reads_as(changed, wanted, document):
            return changed
    raise Conflict("without these entries the text around them would read differently; edit the file by hand")


def _render_changed(document: Document, entry: MarkdownBlock, text: str, source: str) -> bytes:
    raw = document.raw(entry)
    marker = _MARKER.match(raw) if entry.kind == BlockKind.ITEM else None
    source = source or source_comment(document, entry)
    rendered = _render_entry(document, text, source, marker[0] if marker else b"")
    return rendered + raw[len(raw.rstrip(_LINE_ENDS)) :]


def _splice(document: Document, replacements: Sequence[tuple[MarkdownBlock, bytes | None]], separator: bytes) -> bytes:
    """Return the file with entries replaced, or removed (None) with `separator` where no blank line is left."""
    data, spans = document.data, list[tuple[int, int, bytes | None]]()
    for entry, raw in replacements:
        start = entry.start
        if raw is None and spans and spans[-1][2] is None and not data[spans[-1][1] : start].strip():
            start = spans.pop()[0]  # blank lines between removed entries go with them
        spans.append((start, entry.end, raw))
    for start, end, raw in reversed(spans):
        above, below = data[:start], data[end:]
        data = _close_gap(above, below, separator) if raw is None else above + raw + below
    removes_end = spans[-1][2] is None and spans[-1][1] == len(document.data)
    return data.rstrip(_LINE_ENDS) if removes_end and not _has_line_end(document.data) else data


def _close_gap(above: bytes, below: bytes, separator: bytes) -> bytes:
    """Join what stood around an entry, with the longer run of blank lines; at an end of the file, the outer one."""
    bom = BOM if above.startswith(BOM) else b""
    before, after = above[len(bom) :].splitlines(keepends=True), below.splitlines(keepends=True)
    over, under = _count_blank(reversed(before)), _count_blank(after)
    begins, ends = over == len(before), under == len(after)
    if not (over or under or begins or ends):
        return above + separator + below
    if not ends and (begins or over > under):
        return above + b"".join(after[under:])
    return bom + b"".join(before[: len(before) - over]) + below


def _count_blank(lines: Iterable[bytes]) -> int:
    return sum(1 for _ in takewhile(lambda line: not line.strip(), lines))


def _has_line_end(line: bytes) -> bool:
    return line.endswith((b"\n", b"\r"))


def _reads_as(changed: Document, wanted: Sequence[_Wanted], original: Document) -> bool:
    """Return whether the entries are these, and all else what it was."""
    return (
        changed.raw_entries == [raw.rstrip(_LINE_ENDS) for raw, _ in wanted]
        and all(pinned in (None, entry.is_pinned) for entry, (_, pinned) in zip(changed.entries, wanted, strict=True))
        and _other_blocks(changed) == _other_blocks(original)
        and changed.references == original.references
    )


def _other_blocks(document: Document) -> list[tuple[BlockKind, bytes, bool]]:
    others = (block for block in document.blocks if not block.is_entry)
    return [(block.kind, document.raw(block).rstrip(_LINE_ENDS), block.is_pinned) for block in others]


def _add_entries(document: Document, headings: tuple[str, ...] | None, additions: Sequence[EntryAddition]) -> Document:
    section = _find_section(document, headings) or document.blocks
    place = section[-1].end if section else document.body_start
    if section == document.blocks:
        place = max(place, _content_end(document.data))
    for prefix, blank_lines, between in _styles(document, section, place):
        lines = [
            _render_entry(document, addition.text, addition.source, _numbered(prefix, number))
            for number, addition in enumerate(additions)
        ]
        changed = parse_entries(_insert_lines(document, place, lines, blank_lines, between))
        kept = [(entry.start < place, (document.raw(entry), entry.is_pinned)) for entry in document.entries]
        wanted: list[_Wanted] = [entry for is_before, entry in kept if is_before]
        wanted += [*((line, None) for line in lines), *(entry for is_before, entry in kept if not is_before)]
        if _reads_as(changed, wanted, document):
            return changed
    raise InvalidRequest(
        f"{additions[0].text[:80]!r} would not read as an entry: it is no plain text, or code or HTML above it is open"
    )


def _content_end(data: bytes) -> int:
    """Return the offset behind the last line that is not blank."""
    end = len(data.rstrip())
    return end + len(data[end:].splitlines(keepends=True)[0]) if 0 < end < len(data) else end


def _find_section(document: Document, headings: tuple[str, ...] | None) -> Sequence[MarkdownBlock]:
    """Return the blocks of a section from its heading to the next one; without headings, those of the whole file.

    A `<!-- keep -->` above the next heading pins the section of that one, and belongs to it.
    """
    if headings is None:
        return document.blocks
    section = [block for block in document.blocks if block.headings == headings]
    if headings and not section:
        raise InvalidRequest(f"the file has no section {' / '.join(headings)!r}")
    again = [at for at, block in enumerate(section) if block.kind == BlockKind.HEADING][1:]
    section = section[: again[0]] if again else section
    is_last = section[-1:] == list(document.blocks[-1:])
    return section[:-1] if section and not is_last and is_keep(document.data, section[-1]) else section


def _styles(document: Document, section: Sequence[MarkdownBlock], place: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield ways to write an entry behind a section: prefix, blank lines before it, blank lines between several.

    The first is the one of the entry above. Never more blank lines than follow, so that removing it restores the file.
    """
    models = [block for block in section if block.is_entry] or document.entries
    loose = int(_is_loose(document, models))
    marker = _MARKER.match(document.raw(models[-1])) if models and models[-1].kind == BlockKind.ITEM else None
    follows_item = bool(section) and section[-1].kind == BlockKind.ITEM
    rest = document.data[place:].splitlines()
    blank = next((number for number, line in enumerate(rest) if line.strip()), 1)
    if models and models[-1].kind == BlockKind.PARAGRAPH:
        yield b"", min(1, blank), 1
    prefix = marker[0] if marker else b"- "
    before = loose if follows_item else int(bool(document.data[:place].removeprefix(BOM)))
    yield prefix, min(before, blank), loose
    yield b"- ", min(before, blank), loose
    yield b"- ", 1, loose


def _is_loose(document: Document, entries: Sequence[MarkdownBlock]) -> bool:
    """Return whether a blank line separates the last two items."""
    if len(entries) < 2 or any(entry.kind != BlockKind.ITEM for entry in entries[-2:]):
        return False
    between = document.data[entries[-2].end : entries[-1].start]
    return bool(between) and not between.strip()


def _numbered(prefix: bytes, number: int) -> bytes:
    """Return the marker of the entry behind the one whose marker this is, or a later one."""
    marker = _MARKER.match(prefix + b"x")
    if marker is None or marker[1] is None:
        return prefix
    return prefix.replace(marker[1], str(int(marker[1]) + number + 1).encode(), 1)


def _insert_lines(document: Document, place: int, lines: Sequence[bytes], blank_lines: int, between: int) -> bytes:
    before, after = document.data[:place], document.data[place:]
    end = b"\r\n" if before.endswith(b"\r\n") else before[-1:]
    line_end = end if _has_line_end(end) else document.line_end
    text = line_end * blank_lines + (line_end * (between + 1)).join(lines)
    unterminated = bool(before.removeprefix(BOM)) and not _has_line_end(before)
    return before + (line_end + text if unterminated else text + line_end) + after
