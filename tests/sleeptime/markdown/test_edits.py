"""Edits of a Markdown file in its own style; whatever they do not name stays byte for byte (DREAM-11, DREAM-12)."""

from collections.abc import Collection
from datetime import date
from pathlib import PurePosixPath

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from circadia.errors import Conflict, InvalidRequest
from circadia.sleeptime.markdown.edits import (
    EntryAddition,
    EntryChange,
    apply_edits,
    render_source,
    retired_entry,
    source_comment,
)
from circadia.sleeptime.markdown.entries import BlockKind, Document, MarkdownBlock, parse_entries
from tests.sleeptime.markdown.markdown_texts import markdown_files

pytestmark = pytest.mark.spec("DREAM-11", "DREAM-12")

SOURCE = render_source("1f3c", 120, date(2026, 11, 20))


def add(data: bytes, text: str = "new", headings: tuple[str, ...] | None = None) -> bytes:
    return apply_edits(parse_entries(data), [EntryAddition(text=text, headings=headings)])


def remove(data: bytes, *texts: str) -> bytes:
    document = parse_entries(data)
    return apply_edits(document, [EntryChange(entry=entry) for entry in document.entries if entry.text in texts])


def without_space(data: bytes) -> bytes:
    return b"".join(data.split())


def raws(document: Document, *, without: Collection[MarkdownBlock] = ()) -> list[tuple[bytes, bool]]:
    """Return the text of each block, and whether it is pinned."""
    return [(document.raw(block).rstrip(b"\r\n"), block.is_pinned) for block in document.blocks if block not in without]


def longest_gap(data: bytes) -> int:
    """Return the most blank lines in a row."""
    longest = run = 0
    for line in data.splitlines():
        run = 0 if line.strip() else run + 1
        longest = max(longest, run)
    return longest


@given(markdown_files(), st.data())
def test_adding_entries_and_removing_them_again_gives_the_same_bytes(data: bytes, draw: st.DataObject) -> None:
    document = parse_entries(data)
    assume(not document.is_pinned)
    sections = [block.headings for block in document.blocks if block.kind == BlockKind.HEADING]
    headings = draw.draw(st.sampled_from([None, *sections]))
    number = draw.draw(st.integers(1, 3))
    text = draw.draw(st.sampled_from(["a fact of ours", "# ours", "- ours", "`ours` – 日本"]))
    addition = EntryAddition(text=text, headings=headings, source=SOURCE)
    try:
        changed = parse_entries(apply_edits(document, [addition] * number))
    except InvalidRequest:
        reject()
    ours = [entry for entry in changed.entries if source_comment(changed, entry) == SOURCE]
    assert len(ours) == number
    assert raws(changed, without=ours) == raws(document)
    assume(not any(entry.is_pinned for entry in ours))
    assert apply_edits(changed, [EntryChange(entry=entry) for entry in ours]) == data


@given(markdown_files(), st.data())
def test_removing_entries_changes_nothing_else_and_leaves_no_longer_gap(data: bytes, draw: st.DataObject) -> None:
    document = parse_entries(data)
    free = [entry for entry in document.entries if not entry.is_pinned]
    assume(free and not document.is_pinned)
    chosen = draw.draw(st.lists(st.sampled_from(free), min_size=1, unique=True))
    try:
        changed = apply_edits(document, [EntryChange(entry=entry) for entry in chosen])
    except Conflict:
        return  # what stays would read differently, so nothing changes
    spans = [0, *(at for entry in document.entries if entry in chosen for at in (entry.start, entry.end)), len(data)]
    stays = b"".join(data[start:end] for start, end in zip(spans[::2], spans[1::2], strict=True))
    assert without_space(changed) == without_space(stays)
    assert longest_gap(changed) <= max(longest_gap(data), 1)
    assert raws(parse_entries(changed)) == raws(document, without=chosen)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"- new\n"),
        (b"- a", b"- a\n- new"),
        (b"* a\r\n* b\r\n", b"* a\r\n* b\r\n* new\r\n"),
        (b"-   a\n", b"-   a\n-   new\n"),
        (b"- a\n\n- b\n", b"- a\n\n- b\n\n- new\n"),
        (b"1. a\n2. b\n", b"1. a\n2. b\n3. new\n"),
        (b"# T\n", b"# T\n\n- new\n"),
        (b"One.\n\nTwo.\n", b"One.\n\nTwo.\n\nnew\n"),
        (b"- a\n\n\n", b"- a\n- new\n\n\n"),
        (b"\xef\xbb\xbf- a\r\n", b"\xef\xbb\xbf- a\r\n- new\r\n"),
        (b"- a\n```\ncode\n```\n", b"- a\n```\ncode\n```\n\n- new\n"),
        (b"---\nname: a\n---", b"---\nname: a\n---\n\n- new"),
    ],
)
def test_a_new_entry_has_the_style_of_its_file(before: bytes, after: bytes) -> None:
    assert add(before) == after
    assert remove(after, "new") == before


def test_a_new_entry_goes_to_the_end_of_its_own_section() -> None:
    data = b"# A\n- a\n\n## B\n\n* b\n\n# C\n- c\n"
    assert add(data, headings=("A",)) == b"# A\n- a\n- new\n\n## B\n\n* b\n\n# C\n- c\n"
    assert add(data, headings=("A", "B")) == b"# A\n- a\n\n## B\n\n* b\n* new\n\n# C\n- c\n"
    with pytest.raises(InvalidRequest, match="no section 'A / D'"):
        add(data, headings=("A", "D"))


def test_a_new_entry_names_its_source_and_keeps_it_through_later_edits() -> None:
    data = apply_edits(parse_entries(b"- a\n"), [EntryAddition(text="The port  is 8080.", source=SOURCE)])
    assert data == b"- a\n- The port is 8080. <!-- circadia: session 1f3c, line 120, 2026-11-20 -->\n"
    document = parse_entries(data)
    old, new = document.entries
    assert (new.text, source_comment(document, new)) == ("The port is 8080.", SOURCE)
    assert source_comment(document, old) == ""
    document = parse_entries(apply_edits(document, [EntryChange(entry=new, text="The port is 9090.")]))
    assert document.entries[1].text == "The port is 9090."
    assert source_comment(document, document.entries[1]) == SOURCE


@pytest.mark.parametrize("text", ["x <!-- keep -->", "<!-- circadia: session a, line 1, 2026-01-01 --> x", "<!-- open"])
def test_a_text_cannot_pin_itself_or_forge_a_source(text: str) -> None:
    document = parse_entries(add(b"- a\n", text))
    new = document.entries[1]
    assert not new.is_pinned
    assert source_comment(document, new) == ""
    assert new.text


@pytest.mark.parametrize("session", ["a --> b", "x, line 9, 2020-01-01", "a b\nc", "日本/2026.jsonl"])
def test_any_name_of_a_session_can_be_read_again(session: str) -> None:
    source = render_source(session, 7, date(2026, 11, 20))
    document = parse_entries(apply_edits(parse_entries(b"- a\n"), [EntryAddition(text="b", source=source)]))
    new = document.entries[1]
    assert (source_comment(document, new), new.text) == (source, "b")


@pytest.mark.parametrize(
    ("data", "text"), [(b"```\nopen\n", "a"), (b"<!-- open\n", "a"), (b"- a\n", " \n "), (b"- a\n", "---")]
)
def test_a_text_that_would_not_read_as_an_entry_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest):
        add(data, text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"A\n\nx\n\nC\n", b"A\n\nC\n"),
        (b"- a\n- x\n- c\n", b"- a\n- c\n"),
        (b"# H\n\n- x\n- b\n", b"# H\n\n- b\n"),
        (b"- a\n- x\n\n# H\n", b"- a\n\n# H\n"),
        (b"A\n\n\n\nx\n\nC\n", b"A\n\n\n\nC\n"),
        (b"- a\n- x", b"- a"),
        (b"\xef\xbb\xbf- x\r\n\r\n# H\r\n", b"\xef\xbb\xbf# H\r\n"),
        (b"para\n- x\n---\n\nend\n", b"para\n\n---\n\nend\n"),
        (b"x\n", b""),
        (b"- a\n\n- x\n\n\n- x\n\n- b\n", b"- a\n\n- b\n"),
    ],
)
def test_a_removed_entry_leaves_no_gap_and_what_stays_reads_as_before(before: bytes, after: bytes) -> None:
    assert remove(before, "x") == after


def test_an_entry_is_replaced_in_its_place_with_its_own_marker_and_line_end() -> None:
    data = b"* a\r\n* b\r\n  * nested\r\n* c"
    document = parse_entries(data)
    edits = [EntryChange(entry=document.entries[1], text="new b"), EntryChange(entry=document.entries[2])]
    assert apply_edits(document, edits) == b"* a\r\n* new b"


def change(entry: MarkdownBlock) -> list[EntryChange]:
    return [EntryChange(entry=entry), EntryChange(entry=entry, text="other")]


def test_a_pinned_entry_is_never_changed() -> None:
    document = parse_entries(b"- a\n- b <!-- keep -->\n")
    for edit in change(document.entries[1]):
        with pytest.raises(Conflict, match="line 2 is pinned"):
            apply_edits(document, [edit])
    assert apply_edits(document, [EntryChange(entry=document.entries[0])]) == b"- b <!-- keep -->\n"


def test_a_new_entry_does_not_come_between_a_pin_and_the_section_that_it_pins() -> None:
    document = parse_entries(b"# A\n- a\n<!-- keep -->\n# B\n- b\n")
    addition = EntryAddition(text="new", headings=("A",))
    assert apply_edits(document, [addition]) == b"# A\n- a\n- new\n<!-- keep -->\n# B\n- b\n"


@pytest.mark.parametrize(("data", "is_writable"), [(b"<!-- keep -->\n- a\n", True), (b"- a\n", False)])
def test_a_pinned_or_read_only_file_is_never_changed(data: bytes, is_writable: bool) -> None:
    document = parse_entries(data, is_writable=is_writable)
    for edit in [EntryAddition(text="b"), *change(document.entries[0])]:
        with pytest.raises(Conflict, match=r"pinned|read-only"):
            apply_edits(document, [edit])
    assert apply_edits(document, []) == data


def test_an_entry_of_an_older_version_of_the_file_is_refused() -> None:
    old = parse_entries(b"- a\n- b\n").entries[1]
    for data in (b"- a\n- c\n", b"- a\n", b"- 0\n- a\n- b\n"):
        with pytest.raises(Conflict, match="no longer the entry 'b'"):
            apply_edits(parse_entries(data), [EntryChange(entry=old)])


def test_a_retired_entry_says_why_it_went_and_what_takes_its_place_and_keeps_its_bytes() -> None:
    document = parse_entries(b"# Ports\n- The port is 8080 \xff.\r\n  - since May\n- b\n")
    retired = retired_entry(
        document,
        document.entries[0],
        path=PurePosixPath("notes/ports.md"),
        why="a newer message\ncontradicts it",
        instead="session 1f3c, line 120, 2026-11-20",
        day=date(2026, 11, 27),
    )
    assert retired.text == (
        b"## 2026-11-27, notes/ports.md line 2\n\nSection: Ports\n\nWhy: a newer message contradicts it\n\n"
        b"Instead: session 1f3c, line 120, 2026-11-20\n\n- The port is 8080 \xff.\r\n  - since May\n\n"
    )


def test_below_a_shorter_text_of_several_lines_and_a_removed_entry_the_blank_line_stays() -> None:
    """The lines that the replacement no longer has counted as blank ones, and the heading moved up to the list."""
    document = parse_entries(b"- one\n  more\n  again\n- two\n\n# Next\n")
    one, two = document.entries
    edits = [EntryChange(entry=one, text="new"), EntryChange(entry=two)]
    assert apply_edits(document, edits) == b"- new\n\n# Next\n"
