"""Links between the files of a memory folder, lines of an index, and the parts of a file that was too long.

A line of an index is such as `- [Title](file.md) — hook`. A file that is too long links to its next part. What stands
first stays: the tools load the beginning of an index, so a person decides by the order what they load.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from circadia.errors import Conflict
from circadia.sleeptime.markdown.edits import EntryChange, apply_edits, check_editable
from circadia.sleeptime.markdown.entries import BOM, BlockKind, Document, MarkdownBlock, parse_entries

_ESCAPED: Final = frozenset(" \t\n()<>[]%#?\\\"'`*_&")
"""Characters of a path that mean something else in a link."""
_NO_BRACKETS: Final = str.maketrans("[]\\", "()/")
LONGEST_LINE: Final = 150
"""Characters of a line, as Claude Code's own instructions ask for."""
_SEPARATOR: Final = " — "
_SEPARATORS: Final = frozenset(" \t—–-:·|•→,;")
_PART: Final = re.compile(r"-part\d{1,4}$")
_LINK_LINES: Final = 2
"""Lines of the link to the next part, with the blank line before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownLink:
    target: str
    is_first: bool
    """Whether the text begins with it."""
    rest: str
    """The text behind it."""


def find_links(text: str) -> Iterator[MarkdownLink]:
    if "](" not in text:
        return
    tokens = [token for inline in _parser().parseInline(text) for token in inline.children or ()]
    for at, token in enumerate(tokens):
        if token.type == "link_open":
            end = next(end for end in range(at, len(tokens)) if tokens[end].type == "link_close")
            yield MarkdownLink(
                target=str(token.attrs.get("href", "")),
                is_first=not _plain(tokens[:at]).strip(),
                rest=_plain(tokens[end:]),
            )


def resolve_link(path: PurePosixPath, target: str) -> PurePosixPath | None:
    """Return the path to which a link in the file at `path` leads; none for an address or what is not in the folder."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return None
    if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
        return None
    resolved = posixpath.normpath(posixpath.join(path.parent.as_posix(), unquote(parts.path)))
    return None if resolved.startswith("..") or resolved == "." else PurePosixPath(resolved)


def render_link(title: str, path: PurePosixPath, within: PurePosixPath) -> str:
    """Return a link to `path` for the file `within`."""
    target = posixpath.relpath(path.as_posix(), within.parent.as_posix())
    escaped = "".join(quote(letter) if letter in _ESCAPED else letter for letter in target)
    return f"[{title.translate(_NO_BRACKETS)}]({escaped})"


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _plain(tokens: list[Token]) -> str:
    return "".join(token.content or (" " if token.type == "softbreak" else "") for token in tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexLine:
    entry: MarkdownBlock
    target: PurePosixPath
    separator: str
    """What stands between link and hook; empty without a hook."""
    hook: str
    """What it says of the file."""


def find_index_lines(path: PurePosixPath, document: Document) -> Iterator[IndexLine]:
    """Yield the entries that begin with a link to a Markdown file of the folder."""
    for entry in document.entries:
        link = next(find_links(entry.text), None)
        target = resolve_link(path, link.target) if link is not None and link.is_first else None
        if link is not None and target is not None and target.suffix.lower() == ".md":
            hook = link.rest.lstrip("".join(_SEPARATORS))
            separator = link.rest[: len(link.rest) - len(hook)] if hook else ""
            yield IndexLine(entry=entry, target=target, separator=separator, hook=hook.strip())


def render_index_line(
    path: PurePosixPath, document: Document, *, index: PurePosixPath, like: IndexLine | None, description: str = ""
) -> str:
    """Return the text of a line for a topic file, in the style of another line."""
    link = render_link(title_of(path, document), path, index)
    separator = (like.separator if like is not None else "") or _SEPARATOR * (like is None or bool(description))
    first = next((entry.text for entry in document.entries if entry.text), "")
    hook = " ".join((description or document.front_matter.get("description") or first).split())
    room = max(LONGEST_LINE - len(link) - len(separator), 30)
    if len(hook) > room and not description:
        hook = hook[: room - 1].rstrip() + "…"
    return f"{link}{separator}{hook}" if separator and hook else link


def title_of(path: PurePosixPath, document: Document) -> str:
    heading = next((block.text for block in document.blocks if block.kind == BlockKind.HEADING and block.text), "")
    title = " ".join((document.front_matter.get("name") or heading or path.stem).split())[:80]
    words = re.sub("[_-]+", " ", title)
    return title if " " in title or words == title else words[:1].upper() + words[1:]


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitFile:
    """A file in two: what stays, without a link to the rest, and the bytes of the rest."""

    head: bytes
    tail: bytes
    links: Sequence[IndexLine]
    """Its removed links to earlier overflow."""


def whole_name(path: PurePosixPath) -> PurePosixPath:
    """Return the name of the first part."""
    return path.with_name(f"{_PART.sub('', path.stem)}{path.suffix}")


def part_name(path: PurePosixPath, number: int) -> PurePosixPath:
    """Return the name of a later part; it is no day, so that no day's notes are mistaken for it."""
    return path.with_name(f"{whole_name(path).stem}-part{number}{path.suffix}")


def is_part_of(part: PurePosixPath, path: PurePosixPath) -> bool:
    """Return whether a path names another part of the same file."""
    return part not in (path, whole_name(part)) and whole_name(part) == whole_name(path)


def split_file(path: PurePosixPath, document: Document, *, max_lines: int, max_bytes: int) -> SplitFile | None:
    """Split a file at a block so that its head fits; none if it fits already.

    Raises Conflict: it cannot be split; the message says why.
    """
    data = document.data
    if len(data) <= max_bytes and len(data.splitlines()) <= max_lines:
        return None
    check_editable(document)
    if document.references:
        raise Conflict("it defines links for several places; split it by hand")
    links = [
        line
        for line in find_index_lines(path, document)
        if is_part_of(line.target, path) and not (line.entry.is_pinned or b"<!--" in document.raw(line.entry))
        if len(document.raw(line.entry).splitlines()) == 1  # it says no more than where the part is
    ]
    if links:
        document = parse_entries(apply_edits(document, [EntryChange(entry=line.entry) for line in links]))
    texts = [render_link(title_of(path, document), part_name(path, 1000), path), *(line.entry.text for line in links)]
    room = max_bytes - sum(len(text.encode()) + 20 for text in texts)
    cut = _find_cut(document, max_lines - len(links) - _LINK_LINES, room)
    if not 0 < cut < len(document.blocks):
        raise Conflict("one entry or block in it is longer than the limit; shorten it by hand")
    pinned = next((block for block in document.blocks[cut:] if block.is_pinned), None)
    if pinned is not None:
        raise Conflict(f"line {pinned.line} is pinned and behind the limit; move it up, or unpin it")
    head = document.data[: document.blocks[cut - 1].end]
    tail = _headings_above(document, cut) + document.data[document.blocks[cut].start :]
    if [raw for part in (head, tail) for raw in parse_entries(part).raw_entries] != document.raw_entries:
        raise Conflict("its parts would read differently; split it by hand")
    return SplitFile(head=head, tail=tail, links=links)


def append_part(part: Document, tail: bytes) -> bytes:
    """Return a file with more text at its end. Raises Conflict: it may not be changed, or would hide that text."""
    check_editable(part)
    data = part.data
    if data.removeprefix(BOM).strip():
        ended = data if data.endswith((b"\n", b"\r")) else data + part.line_end
        data = ended + part.line_end
    if parse_entries(data + tail).raw_entries != [*part.raw_entries, *parse_entries(tail).raw_entries]:
        raise Conflict("the text would read differently at its end")
    return data + tail


def _find_cut(document: Document, max_lines: int, max_bytes: int) -> int:
    """Return the number of blocks that stay: as many as fit, and no heading or comment without what follows it."""
    cut = 0
    for number, block in enumerate(document.blocks, 1):
        last_line = block.line - 1 + len(document.raw(block).splitlines())
        if block.end > max_bytes or last_line > max_lines:
            break
        is_comment = block.kind == BlockKind.STRUCTURE and document.raw(block).startswith(b"<!--")
        if block.kind != BlockKind.HEADING and not is_comment:
            cut = number
    return cut


def _headings_above(document: Document, cut: int) -> bytes:
    """Return the headings of the section in which the blocks from `cut` on lie, as they are written."""
    first = document.blocks[cut]
    path = first.headings[:-1] if first.kind == BlockKind.HEADING else first.headings
    above = {block.headings: block for block in document.blocks[:cut] if block.kind == BlockKind.HEADING}
    raws: Sequence[bytes] = [document.raw(above[path[: number + 1]]) for number in range(len(path))]
    return b"".join(raw.rstrip(b"\r\n") + document.line_end * 2 for raw in raws)
