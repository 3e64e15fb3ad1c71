"""Tables on terminals of any width."""

import io

import pytest
from rich.console import Console

from circadia.cli.output import table

COLUMNS = ("wake", "asked", "agent", "decision", "why")
ROWS = [
    ("wak_01a204344b757aba8d340bdf8978", "2026-11-22 17:01:05", "helper", "admitted", ""),
    (
        "wak_01a2042ae9473d00ee3914239fcc",
        "2026-11-22 16:50:50",
        "writer",
        "refused",
        "limit reached: three wakes a day",
    ),
]


def printed(width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table(COLUMNS, ROWS))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.spec("WAKE-71")
@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_keys_and_words_stay_whole_and_no_line_is_too_long(width: int) -> None:
    lines = printed(width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for row in ROWS:
        assert [word for cell in row for word in cell.split() if word not in words] == []


def test_what_fits_is_a_table_and_what_does_not_names_each_value() -> None:
    assert printed(200)[0].split() == list(COLUMNS)
    assert len(printed(200)) == 1 + len(ROWS)
    narrow = printed(60)
    assert narrow[0] == ROWS[0][0]
    assert narrow[1] == "    asked 2026-11-22 17:01:05  agent helper  decision"
    assert not any("why" in line for line in narrow[: narrow.index(ROWS[1][0])]), "what is empty is not named"
