"""The passages of an episode: what is indexed, embedded, found and shown of a long text (MEM-30).

A text is cut at paragraphs and sentences, by the rules of Unicode for all scripts (`semantic-text-splitter`). What a
person quotes, in a fence or behind `>`, is cut off from their own words and has trust `external` (MEM-14).
`python -m benchmarks passages` prints what a passage costs.
"""

import asyncio
import importlib
import re
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markdown_it import MarkdownIt

from circadia.memory import languages
from circadia.memory.search.terms import stored_terms
from circadia.records.bank import Trust
from circadia.records.episode import PASSAGE, Episode, Passage, decode_passages, encode_passages, list_passages
from circadia.records.index_entry import IndexEntry

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

IN_LOOP: Final = 2_048
"""Bytes of a text that is split in the event loop; longer ones are split in a thread."""
WINDOW: Final = 4_096
"""Characters that are split at once: the splitter keeps other threads waiting, 14 ms for as much Thai."""
QUOTED_LINES: Final = 3
"""Lines that a person may quote as their own words."""
MAX_QUOTES: Final = 50
"""Quotations of a text; one with more is a quotation as a whole."""
_MAY_QUOTE: Final = re.compile(r"```|~~~|^[ \t]*>", re.M)
_MARKED: Final = re.compile(r"[ \t]*>")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class IndexedText(NamedTuple):
    """What an index keeps of an episode's text."""

    terms: bytes
    """See `stored_terms`; with passages, the terms of the heading and then those of each passage."""
    passages: bytes | None
    """By `encode_passages`; none if the text is one passage with the trust of its episode."""


async def index_text(heading: str, text: str, trust: Trust) -> IndexedText:
    """Return what an index keeps of a text; `heading` is found with each of its passages."""
    await languages.ensure_loaded()
    if len(text) <= IN_LOOP and len(text.encode()) <= IN_LOOP:
        return index_text_nowait(heading, text, trust)
    return await asyncio.to_thread(index_text_nowait, heading, text, trust)


def index_text_nowait(heading: str, text: str, trust: Trust) -> IndexedText:
    passages = split_text(text, trust)
    if not passages:
        return IndexedText(stored_terms(f"{heading}{text}", text), None)
    terms = array("I", stored_terms(heading))
    placed: list[Passage] = []
    for passage in passages:
        placed.append(passage._replace(terms=len(terms)))
        part = text[passage.start : passage.end]
        terms.frombytes(stored_terms(part, part))
    return IndexedText(terms.tobytes(), encode_passages(placed))


def split_text(text: str, trust: Trust) -> Sequence[Passage]:
    """Return the passages of a text, without their terms; none if it is one that its episode's trust holds for."""
    may_quote = trust is Trust.PERSON and _MAY_QUOTE.search(text) is not None
    quotes: Sequence[tuple[int, int]] = _find_quotes(text) if may_quote else ()
    if not quotes and len(text) <= PASSAGE:
        return ()
    passages: list[Passage] = []
    at = 0
    for start, end in [*quotes, (len(text), len(text))]:
        passages += _split_text(text, at, start, trust)
        passages += _split_text(text, start, end, Trust.EXTERNAL)
        at = end
    return passages


def find_passages(episode: Episode) -> Sequence[Passage]:
    """Return an episode's passages, of a text that is not split yet, too; none if it is one."""
    return list_passages(episode) or split_text(episode.text, episode.trust)


def split_entry(entry: IndexEntry) -> Sequence[IndexEntry]:
    """Return a row's passages as rows of their own, in order, without vectors."""
    if entry.passages is None:
        return (entry,)
    passages = decode_passages(entry.passages)
    heading = entry.terms[: 4 * passages[0].terms]
    ends = [*(passage.terms for passage in passages[1:]), len(entry.terms)]
    return [
        entry._replace(
            text=entry.text[passage.start : passage.end],
            start=passage.start,
            trust=passage.trust.value,
            terms=heading + entry.terms[4 * passage.terms : 4 * end],
            vector=None,
        )
        for passage, end in zip(passages, ends, strict=True)
    ]


def passage_texts(text: str, passages: bytes | None) -> Sequence[str]:
    """Return the texts of an episode's passages, in order."""
    if passages is None:
        return (text,)
    return [text[passage.start : passage.end] for passage in decode_passages(passages)]


def _split_text(text: str, first: int, last: int, trust: Trust) -> Iterator[Passage]:
    """Yield the passages of a part of a text, without the spaces around them."""
    starts = [first, *_find_cuts(text, first, last)] if last - first > PASSAGE else [first]
    for start, end in zip(starts, [*starts[1:], last], strict=True):
        part = text[start:end]
        if part.strip():
            yield Passage(start + len(part) - len(part.lstrip()), start + len(part.rstrip()), 0, trust)


def _find_cuts(text: str, first: int, last: int) -> Iterator[int]:
    """Yield where the passages of a part of a text begin, but the first."""
    while last - first > PASSAGE:
        chunks = _splitter().chunk_indices(text[first : min(first + WINDOW, last)])
        if len(chunks) < 2:
            return
        begins = [first + begin for begin, _ in chunks[1:]]
        yield from begins
        if last - first <= WINDOW:
            return
        first = begins[-1]  # what follows the window may belong to its last passage


def _find_quotes(text: str) -> Sequence[tuple[int, int]]:
    """Return where the quotations of a text begin and end: fences, and lines behind `>`."""
    begins = [0, *(line_end.end() for line_end in _LINE_END.finditer(text)), len(text)]
    quotes: list[tuple[int, int]] = []
    upto = 0
    for token in _markdown().parse(text):
        if token.type not in ("fence", "blockquote_open") or token.map is None or token.map[0] < upto:
            continue
        first, upto = token.map
        last = upto
        if token.type == "blockquote_open":  # lines without a mark directly below are the person's
            while last > first and not _MARKED.match(text, begins[last - 1]):
                last -= 1
        lines = token.content.count("\n") if token.type == "fence" else last - first
        if lines > QUOTED_LINES:
            quotes.append((begins[first], begins[min(last, len(begins) - 1)]))
    return quotes if len(quotes) <= MAX_QUOTES else [(0, len(text))]


@cache
def _splitter() -> "TextSplitter":
    package: Any = importlib.import_module("semantic_text_splitter")  # here, since a server without memory needs none
    splitter: TextSplitter = package.TextSplitter(PASSAGE, trim=False)
    return splitter


@cache
def _markdown() -> MarkdownIt:
    """Return a parser of blocks that finds quotations, in lists too, and nothing else."""
    markdown = MarkdownIt("zero").enable(["fence", "blockquote", "list"])
    markdown.core.ruler.enableOnly(["normalize", "block"])
    return markdown
