"""How texts must be that go to a model or come from it: plain words, nothing hidden, nothing that poses as a prompt.

What a model has written is held to it at the publication, whatever operation proposes it (SLEEP-50).
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

from circadia.ids import EpisodeId
from circadia.memory.redaction import redacted
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode's categories of what nobody sees: controls, zero widths, direction marks, tags, private and unassigned."""
_POSES: Final = re.compile(
    r"(?im)"
    r"^[\s>*#_\-|]{0,20}(?:system|assistant|developer|tool)[\s*_]{0,5}:"
    r"|</?\s{0,3}(?:[a-z]{1,20}:)?(?:circadia|data|system|assistant|user|human|developer|tool|function|invoke|parameter|instruction"
    r"|memory|prompt|antml|script|style|iframe|img|svg|object|embed|form|link|meta|a\s)[^<>\n]{0,200}>"
    r"|<\|[^|\n]{0,40}\|>|\[/?INST\]|<</?SYS>>"  # marks of templates that models are trained with
    r"|```|~~~|!\[[^\]\n]{0,200}\]\("  # fences and pictures of Markdown
    r"|^\s{0,3}#{1,6}\s"  # its headings: those of blocks look like that
)
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9+/=_-]{80,}")
"""No word and no address, but something encoded."""


def plain(text: str) -> str:
    """Return a text without what nobody sees; the ends of its lines stay."""
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text  # Unicode's `Other` is not printable, which is all that is hidden
    kept = (each if each in "\n\t" or unicodedata.category(each) not in _HIDDEN else "" for each in text)
    return "".join(kept)


def one_line(text: str) -> str:
    """Return a text in one line, without what nobody sees: no part of it can begin a line of a prompt."""
    return plain(" ".join(text.split()))


def unfit(text: str) -> str:
    """Return why a model's text may not be kept, empty if it may."""
    if plain(text) != text:
        return "it has characters that nobody sees"
    if redacted(text) != text:
        return "it has a secret"
    posing = _POSES.search(text)
    if posing is not None:
        return f"it has {posing[0].strip()[:40]!r}, which poses as a part of a prompt"
    if _LONG_WORD.search(text):
        return "it has something encoded"
    return ""


def worded(change: Change, _: Mapping[EpisodeId, Episode]) -> str:
    """Return what is wrong with the words of a change: a rule of publications."""
    return next((wrong for text in _written(change) if (wrong := unfit(text))), "")


def _written(change: Change) -> Iterator[str]:
    """Return the texts that a model wrote; of a block only the lines that were not there."""
    after = change.after or {}
    if change.kind in (ChangeKind.ADD_NOTE, ChangeKind.FLAG):
        yield str(after.get("text", ""))
    elif change.kind is ChangeKind.WRITE_BLOCK:
        before = set(str((change.before or {}).get("value", "")).split("\n"))
        yield from (line for line in str(after.get("value", "")).split("\n") if line not in before)
