"""The entries of a Markdown memory file: what they say, and which bytes of the file they are.

Only the block structure is parsed, by markdown-it-py. Blocks are spans of whole lines, so all bytes of a file survive:
line ends, byte order mark, invalid UTF-8. A paragraph that begins with a bold label, such as `**Why:**`, belongs to the
entry above it, and so do the steps below a paragraph that ends with a colon.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import accumulate
from typing import Any, Final

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

BOM: Final = b"\xef\xbb\xbf"
_FENCE: Final = b"---"
_MAX_FRONT_MATTER_BYTES: Final = 8_000
"""Bytes of front matter to parse."""
_MAX_BRACKETS: Final = 100
"""PyYAML takes quadratic time with the depth of brackets."""
_KEEP: Final = re.compile(rb"<!--[ \t]*keep[ \t]*-->")
_LABEL: Final = re.compile(r"\*\*([^*\n]{1,40}):\*\*|\*\*([^*\n]{1,40})\*\*:")
_STEP: Final = re.compile(rb" {0,3}\d{1,9}[.)][ \t]")
_YAML_BREAKS: Final = str.maketrans("\x85\u2028\u2029", "   ")
"""Characters that break a line in YAML, and none in a file."""
_TRUE: Final = frozenset(("true", "yes", "on"))
_PINS: Final = ("keep", "read_only")
"""Keys of the front matter that pin a file; Letta's MemFS writes `read_only`."""


_DEFAULT_KEYS: Final = frozenset(("name", "description", "type"))
"""What Claude Code writes."""


class BlockKind(StrEnum):
    ITEM = "item"
    """A list item of the top level, with its nested lines."""
    PARAGRAPH = "paragraph"
    HEADING = "heading"
    STRUCTURE = "structure"
    """A table, code, quotation, comment or other HTML."""
    DESCRIPTION = "description"
    """The `description` of the front matter, which is none of the blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownBlock:
    """A block of the top level. Items and paragraphs are entries; dreams change nothing else."""

    kind: BlockKind
    start: int
    end: int
    """Span in the file's bytes, of whole lines, without the blank lines around it."""
    line: int
    """Line number in the file, from 1."""
    headings: tuple[str, ...]
    """The headings above it, outermost first; of a heading, with its own."""
    text: str
    """What it says, without list marker and comments."""
    is_pinned: bool

    @property
    def is_entry(self) -> bool:
        return self.kind in (BlockKind.ITEM, BlockKind.PARAGRAPH)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A Markdown file. Blocks are in order and do not overlap; blank lines and front matter lie between them."""

    data: bytes
    blocks: Sequence[MarkdownBlock]
    front_matter: Mapping[str, str]
    """Its scalars, and those below `metadata`."""
    description: MarkdownBlock | None
    body_start: int
    """Offset of the first byte behind byte order mark and front matter."""
    is_pinned: bool
    is_writable: bool = True
    references: tuple[str, ...] = ()
    """Targets of links that are defined in another place than where they are used."""

    @property
    def is_fixed(self) -> bool:
        """Whether dreams leave the whole file as it is."""
        return self.is_pinned or not self.is_writable

    @property
    def entries(self) -> Sequence[MarkdownBlock]:
        return [block for block in self.blocks if block.is_entry]

    @property
    def raw_entries(self) -> Sequence[bytes]:
        """The bytes of the entries, without the ends of their last lines."""
        return [self.raw(entry).rstrip(b"\r\n") for entry in self.entries]

    @property
    def line_end(self) -> bytes:
        """Return the end of its first line, a line feed if it has none."""
        first = self.data.splitlines(keepends=True)[:1]
        return first[0][len(first[0].rstrip(b"\r\n")) :] or b"\n" if first else b"\n"

    def raw(self, block: MarkdownBlock) -> bytes:
        return self.data[block.start : block.end]


def parse_entries(data: bytes, *, is_writable: bool = True) -> Document:
    """Parse any bytes; the spans of the blocks, and what lies between them, are all of them."""
    bom = len(BOM) if data.startswith(BOM) else 0
    lines = data[bom:].splitlines(keepends=True)
    starts = [*accumulate(map(len, lines), initial=bom)]
    head = _count_front_matter_lines(lines)
    front = data[bom : starts[head]]
    node = _front_matter_node(b"".join(lines[1 : head - 1]))
    front_matter = _scalars(node)
    body = data[starts[head] :]
    environment: dict[str, dict[str, dict[str, str]]] = {}
    tokens = _parser().parse(body.decode("utf-8", "replace"), environment)
    blocks = _join_parts(data, _BlockReader(data, lines, starts, head).read_blocks(tokens))
    begins_pinned = bool(blocks) and is_keep(data, blocks[0])
    return Document(
        data=data,
        blocks=blocks,
        front_matter=front_matter,
        description=_find_description(node, starts),
        body_start=starts[head],
        is_pinned=begins_pinned
        or _KEEP.search(front) is not None
        or any(front_matter.get(key, "").lower() in _TRUE for key in _PINS),
        is_writable=is_writable,
        references=tuple(reference["href"] for reference in environment.get("references", {}).values()),
    )


def _find_description(node: object, starts: Sequence[int]) -> MarkdownBlock | None:
    """Return the description in front matter, with the lines that it takes; `starts` are the offsets of the lines."""
    for key, value in _fields(node):
        if key.value == "description" and isinstance(value, yaml.ScalarNode) and value.value.strip():
            first: int = key.start_mark.line + 1  # below the fence
            last: int = value.end_mark.line + 1 + (value.end_mark.column > 0)
            text = " ".join(value.value.split())
            return MarkdownBlock(
                kind=BlockKind.DESCRIPTION, start=starts[first], end=starts[last], line=first + 1, headings=(),
                text=text, is_pinned=False,
            )  # fmt: skip
    return None


def render_front_matter(like: Sequence[Document], *, name: str, description: str, kind: str) -> bytes:
    """Return front matter with those of the keys name, description and type that the files `like` it have in common.

    Without such a file it has all three; where most have no front matter, there is none.
    """
    heads = [document for document in like if document.front_matter]
    if 2 * len(heads) < len(like):
        return b""
    keys = frozenset[str].intersection(*(frozenset(head.front_matter) for head in heads)) if heads else _DEFAULT_KEYS
    is_nested = not heads or any(b"\nmetadata:" in head.data[: head.body_start] for head in heads)
    values = {"name": name, "description": description, "type": kind}
    lines = [f"{key}: {render_scalar(text)}" for key, text in values.items() if key in keys]
    if is_nested and "type" in keys:
        lines[-1:] = ["metadata:", f"  {lines[-1]}"]
    return "\n".join(("---", *lines, "---", "")).encode() if lines else b""


def render_scalar(text: str) -> str:
    """Return a text on one line as a value in front matter: plain where YAML reads it so, else in quotes."""
    line = " ".join(text.split())
    is_plain = _scalars(_front_matter_node(f"a: {line}".encode("utf-8", "replace"))).get("a") == line
    return line if is_plain else json.dumps(line, ensure_ascii=False)


def without_comments(text: str) -> str:
    """Return a text without its HTML comments; one that does not end goes on to the end of the text."""
    first, *others = text.split("<!--")
    return first + "".join(other.partition("-->")[2] for other in others)


def label_of(text: str) -> str:
    """Return the bold label that a text begins with, such as `Why`; empty without one."""
    match = _LABEL.match(text)
    return (match[1] or match[2]) if match else ""


def _join_parts(data: bytes, blocks: Iterable[MarkdownBlock]) -> list[MarkdownBlock]:
    """Return the blocks with each labelled paragraph, and each step of a procedure, in the entry that it belongs to."""
    joined: list[MarkdownBlock] = []
    has_steps = False
    for block in blocks:
        above = joined[-1] if joined and joined[-1].is_entry and block.is_entry else None
        is_step = _STEP.match(data, block.start) is not None and block.kind == BlockKind.ITEM
        is_introduction = above is not None and above.kind == BlockKind.PARAGRAPH and above.text.endswith(":")
        has_steps = is_step and above is not None and (has_steps or is_introduction)
        if (
            above is not None
            and above.text
            and (has_steps or (block.kind == BlockKind.PARAGRAPH and label_of(block.text)))
        ):
            pinned = above.is_pinned or block.is_pinned
            joined[-1] = replace(above, end=block.end, text=f"{above.text}\n{block.text}", is_pinned=pinned)
        else:
            joined.append(block)
    return joined


class _BlockReader:
    """Turns the tokens of a parsed body into blocks with their spans."""

    def __init__(self, data: bytes, lines: Sequence[bytes], starts: Sequence[int], head: int) -> None:
        self._data = data
        self._lines = lines
        self._starts = starts
        self._head = head
        self._path: list[tuple[int, str]] = []
        """Levels and texts of the headings above."""
        self._pinned_level = 0
        """Level of the heading whose whole section is pinned; 0 without one."""

    def read_blocks(self, tokens: Sequence[Token]) -> Iterator[MarkdownBlock]:
        keep = False
        for group in _group(tokens, 0):
            parts = _group(group[1:-1], 1) if group[0].type.endswith("list_open") else (group,)
            blocks = [self._build_block(part, keep) for part in parts]
            yield from blocks
            keep = is_keep(self._data, blocks[-1])

    def _build_block(self, tokens: Sequence[Token], keep: bool) -> MarkdownBlock:
        first, last = (self._head + number for number in tokens[0].map or (0, 0))
        while last > first + 1 and not self._lines[last - 1].strip():
            last -= 1
        texts = (token.content.rstrip("\n") for token in tokens)
        lines = without_comments("\n".join(filter(None, texts))).strip().splitlines()
        text = "\n".join(line.rstrip() for line in lines)
        kind = _KINDS.get(tokens[0].type.removesuffix("_open"), BlockKind.STRUCTURE)
        if kind == BlockKind.HEADING:
            self._enter_section(int(tokens[0].tag[1:]), text, keep)
        start, end = self._starts[first], self._starts[last]
        return MarkdownBlock(
            kind=kind,
            start=start,
            end=end,
            line=first + 1,
            headings=tuple(heading for _level, heading in self._path),
            text=text,
            is_pinned=keep or self._pinned_level > 0 or _KEEP.search(self._data, start, end) is not None,
        )

    def _enter_section(self, level: int, text: str, keep: bool) -> None:
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, text))
        if level <= self._pinned_level:
            self._pinned_level = 0
        if keep and not self._pinned_level:
            self._pinned_level = level


_KINDS: Final = {"list_item": BlockKind.ITEM, "paragraph": BlockKind.PARAGRAPH, "heading": BlockKind.HEADING}


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table").disable("inline")


def _group(tokens: Iterable[Token], level: int) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each block at a level."""
    group: list[Token] = []
    for token in tokens:
        group.append(token)
        if token.level == level and token.nesting <= 0:
            yield group
            group = []


def is_keep(data: bytes, block: MarkdownBlock) -> bool:
    """Return whether a block is the comment that pins the next one."""
    return block.kind == BlockKind.STRUCTURE and _KEEP.fullmatch(data[block.start : block.end].strip()) is not None


def _count_front_matter_lines(lines: Sequence[bytes]) -> int:
    if lines and lines[0].rstrip() == _FENCE:
        for number, line in enumerate(lines[1:], 2):
            if line.rstrip() in (_FENCE, b"..."):
                return number
    return 0


def _front_matter_node(text: bytes) -> object:
    """Return the root of what stands in front matter, None if it is none or too large. Nothing is built from it."""
    if len(text) > _MAX_FRONT_MATTER_BYTES or text.count(b"[") + text.count(b"{") > _MAX_BRACKETS:
        return None
    try:
        loader: Any = yaml.SafeLoader(text.decode().translate(_YAML_BREAKS))
        return loader.get_single_node()
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return None


def _fields(node: object) -> Sequence[tuple[Any, Any]]:
    return node.value if isinstance(node, yaml.MappingNode) else ()


def _scalars(node: object, within: Sequence[str] = ("metadata",)) -> dict[str, str]:
    """Return the scalars of a mapping as they are written, and those of mappings in the fields `within`."""
    found: dict[str, str] = {}
    for key, value in _fields(node):
        if isinstance(value, yaml.ScalarNode):
            found[str(key.value)] = str(value.value)
        elif key.value in within:
            found = _scalars(value, ()) | found
    return found
