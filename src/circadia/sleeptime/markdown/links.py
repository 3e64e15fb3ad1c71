"""Links between the files of a memory folder, and lines of an index, such as `- [Title](file.md) — hook`."""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from circadia.sleeptime.markdown.entries import BlockKind, Document, MarkdownBlock

_ESCAPED: Final = frozenset(" \t\n()<>[]%#?\\\"'`*_&")
"""Characters of a path that mean something else in a link."""
_NO_BRACKETS: Final = str.maketrans("[]\\", "()/")
LONGEST_LINE: Final = 150
"""Characters of a line, as Claude Code's own instructions ask for."""
_SEPARATOR: Final = " — "
_SEPARATORS: Final = frozenset(" \t—–-:·|•→,;")


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
    return " ".join((document.front_matter.get("name") or heading or path.stem).split())[:80]
