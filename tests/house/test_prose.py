"""The docs are plain prose: lines and cells that fit a screen, and no phrase that reads as if translated."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import DOCS, pages, shown

LINE_CHARACTERS = 120
CELL_WORDS = 25
TABLE_COLUMNS = 5
SPEC = DOCS / "spec"

BANNED = (
    r"so many at most",
    r"stands? (?:where|in|on|at|behind|beside|below|first)",
    r"befalls?",
    r"(?:is|are|was|were|be|being|been) told",
    r"tells",
    r"that is said",
    r"signs? of life",
    r"each of them",
    r"for ever",
    r"anew",
    r"leave to reach",
    r"whatever (?:becomes|became) of",
    r"what (?:is|was) there (?:already )?is",
    r"all (?:else )?that (?:there )?is",
    r"asked of",
    r"one's",
)
"""Phrases that nobody from the field writes, as patterns of whole words."""
_BANNED = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.I)
_BLOCK = re.compile(r"^( *)```.*?^\1``` *$", re.M | re.S)
_MEASURED = re.compile(r"^<!-- (\w+): begin -->$.*?^<!-- \1: end -->$", re.M | re.S)


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def written_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that a person wrote, with their numbers: no code, and no table that a benchmark wrote."""
    text = _BLOCK.sub(_blank, _MEASURED.sub(_blank, text))
    yield from enumerate(text.splitlines(), 1)


def is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


def long_lines(text: str) -> list[int]:
    """Return the numbers of the lines of prose that are too long; a line without a space cannot be broken."""
    return [
        number
        for number, line in written_lines(text)
        if len(line) > LINE_CHARACTERS and not is_row(line) and " " in line.strip(" *")
    ]


def long_cells(text: str) -> list[int]:
    """Return the numbers of the rows with a cell of too many words."""
    rows = ((number, line.strip().strip("|").split("|")) for number, line in written_lines(text) if is_row(line))
    return [number for number, cells in rows if any(len(cell.split()) > CELL_WORDS for cell in cells)]


def wide_rows(text: str) -> list[int]:
    """Return the numbers of the rows of a table that is wider than a page."""
    return [
        number
        for number, line in written_lines(text)
        if is_row(line) and len(re.findall(r"(?<!\\)\|", line.strip())) - 1 > TABLE_COLUMNS
    ]


def banned_phrases(text: str) -> list[str]:
    """Return the banned phrases in a text, also those that a line break parts."""
    joined = " ".join(line for _, line in written_lines(text))
    return [match[0] for match in _BANNED.finditer(re.sub(r"\s+", " ", joined))]


def pages_for_a_screen() -> list[Path]:
    return [page for page in pages() if SPEC not in page.parents]


def test_no_line_of_prose_is_longer_than_120_characters() -> None:
    assert not [
        f"{shown(page)}:{number}" for page in pages_for_a_screen() for number in long_lines(page.read_text("utf-8"))
    ]


def test_no_cell_of_a_hand_written_table_has_more_than_25_words() -> None:
    assert not [
        f"{shown(page)}:{number}" for page in pages_for_a_screen() for number in long_cells(page.read_text("utf-8"))
    ]


@pytest.mark.spec("SHIP-13")
def test_no_hand_written_table_has_more_than_five_columns() -> None:
    assert not [f"{shown(page)}:{number}" for page in pages() for number in wide_rows(page.read_text("utf-8"))]
    assert wide_rows("| a | b | c | d | e | f |\n| a | b | c | d \\| e | f |\n") == [1]


def test_no_page_has_a_banned_phrase() -> None:
    assert not [f"{shown(page)}: {phrase}" for page in pages() for phrase in banned_phrases(page.read_text("utf-8"))]


@pytest.mark.parametrize(
    "text", ["It is told why.", "One page\nbefalls it.", "* a lot, so many at most", "It stands where"]
)
def test_a_banned_phrase_is_found_in_prose(text: str) -> None:
    assert banned_phrases(text)


def test_code_and_measured_tables_are_not_prose() -> None:
    measured = "<!-- proxy: begin -->\nIt is told.\n<!-- proxy: end -->\n"
    code = f"```text\nIt is told. {'long ' * 40}\n```\n"
    assert not banned_phrases(measured + code)
    assert not long_lines(measured + code)


def test_long_lines_and_cells_are_found() -> None:
    assert long_lines("short\n" + "word " * 30) == [2]
    assert long_cells("| a | b |\n| --- | --- |\n| " + "word " * 26 + "| b |\n") == [3]
    assert not long_cells("| " + "word " * 25 + "| b |\n")
