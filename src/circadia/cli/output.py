"""How commands print: a table for people, or JSON and nothing else for programs."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, cast

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
"""The option that every command with a result has."""

_GAP: Final = 2
"""Columns between two cells."""
_LEAST: Final = 24
"""Width of a last column that can still be read."""
_UNCUT = 10_000
"""Width of what goes to a file or a pipe, in columns: no cell is cut or broken there."""


def console() -> Console:
    """Return what prints to standard output: as wide as the terminal, or uncut where there is none."""
    return Console(width=None if sys.stdout.isatty() else _UNCUT, highlight=False)


def note(text: str) -> None:
    """Tell a person something that is not the result, on standard error."""
    typer.echo(shown(text), err=True)


def print_json(document: object) -> None:
    """Print a document as indented JSON."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def print_json_line(document: object) -> None:
    """Print a document as one line, for streams."""
    typer.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str))


class Fitting(Table):
    """A table; where it does not fit though its last column is narrow, each row stands on lines of its own.

    So a key stays whole and can be copied, and no word is broken.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print it."""
        cells = [[str(column.header), *map(str, column.cells)] for column in self.columns]
        widths = [max(map(cell_len, held)) + _GAP for held in cells]
        if widths and sum(widths[:-1]) + _least(cells[-1]) <= options.max_width:
            for column in self.columns[:-1]:
                column.no_wrap = True
            yield from super().__rich_console__(console, options)
            return
        for row in zip(*(column.cells for column in self.columns), strict=True):
            yield cast("Text", row[0])
            named = zip(self.columns[1:], row[1:], strict=True)
            said = [Text.assemble(f"{column.header} ", cast("Text", cell)) for column, cell in named if str(cell)]
            yield Padding(Text("  ").join(said), (0, 0, 0, 4))


def _least(column: Sequence[str]) -> int:
    """Return how narrow a last column may be: as its longest word if it is narrow anyway."""
    if max(map(cell_len, column)) > _LEAST:
        return _LEAST
    return max((cell_len(word) for cell in column for word in cell.split()), default=0)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[str] = ()) -> Table:
    """Return a table of plain text; the columns `numbers` are set to the right."""
    made = Fitting(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        right = name in numbers
        made.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(shown(cell)) for cell in row))
    return made


def shown(value: object) -> str:
    """Return a value as a person reads it, with what would steer a terminal written as an escape.

    Names and texts come from agents: they must not be able to move the reader's cursor.
    """
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, cast("Sequence[object]", value)))
    text = "–" if value is None else str(value)
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)


def state(sleeping: bool) -> Text:
    """Return an agent's state, in colour."""
    return Text("asleep", "blue") if sleeping else Text("awake", "green")


def lasted(seconds: float) -> str:
    """Return a duration in its two largest units: `3 h 5 min`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def instant(value: str) -> datetime:
    """Return an instant of the REST API."""
    return datetime.fromisoformat(value)


def since(value: str, now: datetime) -> str:
    """Return how long ago an instant of the REST API was, for people."""
    return lasted((now - instant(value)).total_seconds())


def local_time(value: str) -> str:
    """Return an instant of the REST API in this machine's time zone, to the second."""
    return f"{instant(value).astimezone():%Y-%m-%d %H:%M:%S}"


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
