"""Which bytes of a Markdown file are entries, what they say, and which of them are pinned (DREAM-12)."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from circadia.sleeptime.markdown.entries import BOM, Document, parse_entries
from tests.sleeptime.markdown.markdown_texts import markdown_files

pytestmark = pytest.mark.spec("DREAM-12")

NOTES = b"""\
---
name: Release freeze
metadata:
  type: project
---

# Project

No risky merges.
Until the release.

<!-- a comment -->
- first
  - nested

  more of the first
- second <!-- circadia: session 1f3c, line 120, 2026-11-20 -->

## Rules
1. one
2. two

| a | b |
|---|---|
| 1 | 2 |

```
- no entry
```

> quoted
"""


def texts(document: Document) -> list[str]:
    return [entry.text for entry in document.entries]


def pinned(data: bytes) -> list[str]:
    return [entry.text for entry in parse_entries(data).entries if entry.is_pinned]


def join_pieces(document: Document) -> bytes:
    """Return the blocks of a file with what lies before, between and behind them."""
    ends = [0, *(block.end for block in document.blocks)]
    starts = [*(block.start for block in document.blocks), len(document.data)]
    between = [document.data[end:start] for end, start in zip(ends, starts, strict=True)]
    return b"".join(
        piece for pair in zip(between, [*map(document.raw, document.blocks), b""], strict=True) for piece in pair
    )


@given(markdown_files() | st.binary())
@example(b"\xef\xbb\xbf- a\r\n\r- b\xff\xfe\n\x00- c")
def test_the_pieces_of_any_file_are_its_bytes_and_each_block_is_whole_lines(data: bytes) -> None:
    document = parse_entries(data)
    assert join_pieces(document) == data
    lines, end = data.removeprefix(BOM).splitlines(keepends=True), 0
    for block in document.blocks:
        raw = document.raw(block)
        assert end <= block.start < block.end <= len(data)
        assert raw == b"".join(lines[block.line - 1 :][: len(raw.splitlines())])
        end = block.end


def test_list_items_with_their_nested_lines_and_paragraphs_are_entries_and_all_else_is_structure() -> None:
    document = parse_entries(NOTES)
    assert texts(document) == [
        "No risky merges.\nUntil the release.", "first\nnested\nmore of the first", "second", "one", "two",
    ]  # fmt: skip
    assert document.raw(document.entries[1]) == b"- first\n  - nested\n\n  more of the first\n"
    assert [entry.line for entry in document.entries] == [9, 13, 17, 20, 21]
    assert [entry.headings for entry in document.entries] == [("Project",)] * 3 + [("Project", "Rules")] * 2
    assert document.front_matter == {"name": "Release freeze", "type": "project"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"- a\n- b <!-- keep -->\n- c\n", ["b"]),
        (b"- a\n  <!--keep-->\n- b\n", ["a"]),
        (b"Text.\n\n<!-- keep -->\nMine.\n\nTheirs.\n", ["Mine."]),
        (b"Text.\n\n<!-- keep -->\n\n- a\n- b\n\nTheirs.\n", ["a", "b"]),
        (b"Text.\n\n<!-- keep -->\n## Mine\n- a\n\n### Part\n- b\n\n## Theirs\n- c\n", ["a", "b"]),
        (b"- keep this\n- <!-- kept --> b\n", []),
    ],
)
def test_a_comment_pins_the_entry_around_it_or_the_list_or_section_behind_it(data: bytes, expected: list[str]) -> None:
    assert pinned(data) == expected
    assert not parse_entries(data).is_pinned


@pytest.mark.parametrize(
    "data",
    [
        b"<!-- keep -->\n\n# Title\n- a\n",
        b"---\nname: a # <!-- keep -->\n---\n- a\n",
        b"---\nkeep: true\n---\n- a\n",
        b"\xef\xbb\xbf---\r\ndescription: of Letta\r\nread_only: true\r\n---\r\n- a\r\n",
    ],
)
def test_the_first_comment_or_the_front_matter_pins_a_whole_file(data: bytes) -> None:
    assert parse_entries(data).is_pinned


@pytest.mark.parametrize(
    "front",
    [
        b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n<<: [*c, *c]",
        b"- a list",
        b"[" * 2_000,
        b"name: [open",
        b"name: \xff",
        b"!!python/object/apply:os.system ['false']",
        b"x: " + b"y" * 30_000,
    ],
)
def test_front_matter_that_is_no_mapping_or_an_attack_says_nothing_and_stays(front: bytes) -> None:
    data = b"---\n" + front + b"\n---\n\n- an entry\n"
    document = parse_entries(data)
    assert document.front_matter == {}
    assert texts(document) == ["an entry"]
    assert join_pieces(document) == data


@pytest.mark.parametrize(
    "piece",
    ["- a\n", "- ", "> ", "a\n\n", "<!-- ", "- <!-- ", "[a]: b\n", "|a", "```\n", "1) a\n2. b\n", "*", "[", "\t", "#"],
)  # fmt: skip
@pytest.mark.usefixtures("frozen_heap")
def test_a_file_of_one_repeated_piece_takes_a_time_in_proportion_to_its_size(piece: str) -> None:
    def measure(size: int) -> float:
        data = (piece * (size // len(piece))).encode()
        began = time.thread_time()
        parse_entries(data)
        return time.thread_time() - began

    assert measure(20_000) < max(0.1, 40 * measure(2_000))


def test_front_matter_that_is_too_large_or_too_deep_is_not_parsed_at_all() -> None:
    """Its description was looked for all the same: 24 kB of brackets took 0.35 s, and a file may have 1 MB."""
    for more in (b"[%b]" % (b"[]," * 101), b"x" * 8_001):
        document = parse_entries(b"---\ndescription: a\nb: %b\n---\n" % more)
        assert (document.front_matter, document.description) == ({}, None)
