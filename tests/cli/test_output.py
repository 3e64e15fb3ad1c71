"""Tables on terminals of any width: nothing that a person copies is broken or left out."""

import io

import pytest
from rich.console import Console

from circadia.cli.terminal.output import table

COLUMNS = ("agent", "calls", "tokens", "cost", "held", "note")
ROWS = [
    ("writer-of-release-notes", 10, "1,234,567", "<$0.0001", "11 min 30 s", "told of the release by two people"),
    ("ann", 2, "8", "$0.00", "0 s", None),
]


def told(width: int) -> str:
    screen = Console(file=io.StringIO(), width=width, highlight=False, no_color=True)
    screen.print(table(COLUMNS, ROWS, numbers=COLUMNS[1:4]))
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


@pytest.mark.parametrize("width", range(30, 140, 5))
def test_words_and_numbers_are_whole_and_nothing_is_wider_than_the_terminal(width: int) -> None:
    out = told(width)
    assert max(map(len, out.splitlines())) <= width
    words = {word for row in ROWS for cell in row if cell is not None for word in str(cell).split()}
    assert words <= set(out.split())


def test_where_there_is_room_it_is_a_table_and_else_a_few_lines_for_each_row() -> None:
    assert told(120).splitlines()[0].split() == list(COLUMNS)
    narrow = told(60).splitlines()
    assert narrow[0].startswith("writer-of-release-notes  calls 10  tokens 1,234,567")
    assert narrow[-1] == "ann  calls 2  tokens 8  cost $0.00  held 0 s", "what is not there is not named"


@pytest.mark.parametrize("width", range(30, 140, 5))
def test_a_duration_stays_in_one_line(width: int) -> None:
    assert "11 min 30 s" in told(width)


def test_a_long_text_gives_way_before_words_do() -> None:
    lines = told(90).splitlines()
    assert lines[0].split() == list(COLUMNS)
    assert [line for line in lines if "writer-of-release-notes" in line]
