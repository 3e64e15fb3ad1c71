"""Lines of an index, such as `- [Title](file.md) — hook`, each for a topic file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from circadia.sleeptime.markdown.entries import BlockKind, Document, MarkdownBlock
from circadia.sleeptime.markdown.links import find_links, render_link, resolve_link

LONGEST_LINE: Final = 150
"""Characters of a line, as Claude Code's own instructions ask for."""
_SEPARATOR: Final = " — "
_SEPARATORS: Final = frozenset(" \t—–-:·|•→,;")


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexLine:
    entry: MarkdownBlock
    target: PurePosixPath
    separator: str
    """What stands between link and hook; empty without a hook."""


def find_index_lines(path: PurePosixPath, document: Document) -> Iterator[IndexLine]:
    """Yield the entries that begin with a link to a Markdown file of the folder."""
    for entry in document.entries:
        link = next(find_links(entry.text), None)
        target = resolve_link(path, link.target) if link is not None and link.is_first else None
        if link is not None and target is not None and target.suffix.lower() == ".md":
            hook = link.rest.lstrip("".join(_SEPARATORS))
            separator = link.rest[: len(link.rest) - len(hook)] if hook else ""
            yield IndexLine(entry=entry, target=target, separator=separator)


def render_index_line(path: PurePosixPath, document: Document, *, index: PurePosixPath, like: IndexLine | None) -> str:
    """Return the text of a line for a topic file, in the style of another line."""
    link = render_link(title_of(path, document), path, index)
    separator = like.separator if like is not None else _SEPARATOR
    first = next((entry.text for entry in document.entries if entry.text), "")
    hook = " ".join((document.front_matter.get("description") or first).split())
    room = max(LONGEST_LINE - len(link) - len(separator), 30)
    if len(hook) > room:
        hook = hook[: room - 1].rstrip() + "…"
    return f"{link}{separator}{hook}" if separator and hook else link


def title_of(path: PurePosixPath, document: Document) -> str:
    heading = next((block.text for block in document.blocks if block.kind == BlockKind.HEADING and block.text), "")
    return " ".join((document.front_matter.get("name") or heading or path.stem).split())[:80]
