"""How commands print: a table for people, or JSON and nothing else for programs."""

import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, cast

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from circadia.visibility import hidden_positions

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
"""The option that every command with a result has."""

_UNCUT = 10_000
"""Width of what goes to a file or a pipe, in columns: no cell is cut or broken there."""
_GAP = 2
"""Columns between two cells."""
_INDENT = 4
"""Columns that the further lines of a row are set in by, where it has no room in a table."""
_TEXT = 20
"""Columns that a cell of several words gets in a table, if it needs as many; in fewer nobody reads it."""
_SHORT = 12
"""Columns of a cell that is never broken: a duration, an amount, a state of two words."""
_NOTHING = "–"
"""What stands for no value."""


def console() -> Console:
    """Return what prints to standard output: as wide as the terminal, or uncut where there is none."""
    return Console(width=None if sys.stdout.isatty() else _UNCUT, highlight=False)


def note(text: str) -> None:
    """Tell a person something that is not the result, on standard error; a terminal breaks it between words."""
    Console(stderr=True, width=None if sys.stderr.isatty() else _UNCUT, highlight=False).print(Text(display_text(text)))


def print_json(document: object) -> None:
    """Print a document as indented JSON."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=_ascii(), default=str))


def print_json_line(document: object) -> None:
    """Print a document as one line, for streams."""
    typer.echo(json.dumps(document, ensure_ascii=_ascii(), separators=(",", ":"), default=str))


def escape_unencodable() -> None:
    """Have standard output write what its encoding has no letters for as escapes, instead of failing at it."""
    out = cast("object", sys.stdout)
    if _ascii() and isinstance(out, io.TextIOWrapper):
        cast("io.TextIOWrapper", out).reconfigure(errors="backslashreplace")


def _ascii() -> bool:
    """Whether the encoding of standard output lacks letters; JSON then takes escapes of its own."""
    return not (sys.stdout.encoding or "utf-8").lower().startswith("utf")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """Rows, as a table where the terminal has room for one, else each as a few lines: ids and words are never broken.

    Attributes:
        columns: Names of the columns.
        rows: Cells for each.
        numbers: Columns that are set to the right, in one piece.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Text]]
    numbers: frozenset[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what fits the width of the terminal."""
        widths = self._widths(options.max_width)
        if widths is None:
            for row in self.rows:
                yield from self._stack_row(row, options.max_width)
            return
        made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for name, width in zip(self.columns, widths, strict=True):
            right = name in self.numbers
            made.add_column(name, justify="right" if right else "left", no_wrap=right, width=width, overflow="fold")
        for row in self.rows:
            made.add_row(*row)
        yield made

    def _widths(self, room: int) -> list[int] | None:
        """Return the width of each column, the widest cut first; none where words have no room, or texts too little."""
        whole: list[int] = []
        least: list[int] = []
        for number, name in enumerate(self.columns):
            lines = [line for text in (name, *(row[number].plain for row in self.rows)) for line in text.split("\n")]
            whole.append(max(map(cell_len, lines)))
            word = max((cell_len(word) for line in lines for word in line.split()), default=0)
            text = whole[-1] if whole[-1] <= _SHORT else word if whole[-1] <= _TEXT else max(word, _TEXT)
            least.append(whole[-1] if name in self.numbers else text)
        room -= _GAP * (len(self.columns) - 1)
        for most in range(min(room, max(whole)), 0, -1):
            cut = [max(few, min(all_, most)) for few, all_ in zip(least, whole, strict=True)]
            if sum(cut) <= room:
                return cut
        return None

    def _stack_row(self, row: Sequence[Text], width: int) -> Iterable[RenderableType]:
        """Yield a row as lines: its first cell, then each other that says something behind its name."""
        lines = [row[0].copy()]
        for name, cell in zip(self.columns[1:], row[1:], strict=True):
            if cell.plain not in ("", _NOTHING):
                told = Text.assemble((f"{name} " if name else "", "dim"), cell)
                if lines[-1].cell_len + _GAP + told.cell_len <= width - _INDENT:
                    lines[-1].append(" " * _GAP).append_text(told)
                else:
                    lines.append(told)
        yield lines[0]
        yield from (Padding(line, (0, 0, 0, _INDENT)) for line in lines[1:])


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[str] = ()) -> Listing:
    """Return rows of plain text for people; the columns `numbers` are set to the right."""
    cells = [tuple(cell if isinstance(cell, Text) else Text(display_text(cell)) for cell in row) for row in rows]
    return Listing(columns=tuple(columns), rows=cells, numbers=frozenset(numbers))


def display_text(value: object) -> str:
    """Return a value as a person reads it, with what would steer a terminal written as an escape.

    Names and texts come from agents: they must not be able to move the reader's cursor.
    """
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, cast("Sequence[object]", value)))
    text = _NOTHING if value is None else str(value)
    hidden = set(hidden_positions(text))
    seen = (at not in hidden and (each.isprintable() or each == "\n") for at, each in enumerate(text))
    return "".join(each if is_seen else ascii(each)[1:-1] for each, is_seen in zip(text, seen, strict=True))


def shorten(text: str, letters: int) -> str:
    """Return a text in one line, cut where it has more letters than these."""
    line = " ".join(text.split())
    return line if len(line) <= letters else f"{line[:letters]}…"


def format_setting(value: Any) -> str:
    """Return the value of a setting as the file has it; what is empty can be seen."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if value in ([], {}, "") else display_text(value)


def state_text(sleeping: bool) -> Text:
    """Return an agent's state, in colour."""
    return Text("asleep", "blue") if sleeping else Text("awake", "green")


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units: `3 h 5 min`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def parse_instant(value: str) -> datetime:
    """Return an instant of the REST API."""
    return datetime.fromisoformat(value)


def time_since(value: str, now: datetime) -> str:
    """Return how long ago an instant of the REST API was, for people."""
    return format_duration((now - parse_instant(value)).total_seconds())


def local_time(value: str) -> str:
    """Return an instant of the REST API in this machine's time zone, to the second."""
    return f"{parse_instant(value).astimezone():%Y-%m-%d %H:%M:%S}"


def dollars(value: float) -> str:
    """Return an amount in US dollars, with as many digits as small amounts need."""
    if 0 < value < 0.0001:
        return "<$0.0001"
    return f"${value:,.2f}" if value == 0 or value >= 1 else f"${value:.4f}"


def compact(data: dict[str, Any]) -> str:
    """Return the rest of an event as `key=value` words."""
    return " ".join(f"{key}={_word(value)}" for key, value in data.items() if value not in (None, "", []))


def _word(value: Any) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
