"""Links between the files of a memory folder."""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

_ESCAPED: Final = frozenset(" \t\n()<>[]%#?\\\"'`*_&")
"""Characters of a path that mean something else in a link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownLink:
    title: str
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
                title=_plain(tokens[at:end]),
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


_NO_BRACKETS: Final = str.maketrans("[]\\", "()/")


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _plain(tokens: list[Token]) -> str:
    return "".join(token.content or (" " if token.type == "softbreak" else "") for token in tokens)
