"""Output of commands: tables for people, or only JSON for programs."""

import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, cast

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from circadia.characters import hidden_positions
from circadia.errors import CircadiaError, InvalidRequest

AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON.")]

_UNCUT = 10_000
"""Console width for a file or a pipe, in columns, so that no cell is cut or broken."""
_GAP = 2
_INDENT = 4
"""Columns by which a stacked row indents its second and later lines."""
_TEXT = 20
"""Least columns for a cell of several words, if it needs them; a narrower one is hard to read."""
_SHORT = 12
"""A cell of at most this many columns is never broken: a duration, an amount, a state of two words."""
_NOTHING = "–"


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or error: as wide as the terminal, or uncut without one."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, width=None if is_terminal else _UNCUT, highlight=False)


def note(text: str) -> None:
    """Print a message that is not the result, on standard error."""
    console(stderr=True).print(Text(display_text(text)))


def _encode(value: object) -> object:
    """Return an answer of the client as the REST API sends it."""
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump(mode="json", by_alias=True)


def print_json(document: object) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=_ascii(), default=_encode))


def print_json_line(document: object) -> None:
    typer.echo(json.dumps(document, ensure_ascii=_ascii(), separators=(",", ":"), default=_encode))


@dataclass(frozen=True, slots=True)
class Output:
    """What a command returns: the document that `--json` prints, and what a person sees of it instead.

    `groups` adds the option `--json` to a command that is annotated with this class, and prints its output.

    Attributes:
        show: Text, or a function of the document that returns what to print, None if it has printed all.
        status: Exit status of the command.
        error: What to raise after the output.
    """

    document: Any
    show: str | Callable[[Any], RenderableType | None]
    status: int = 0
    error: CircadiaError | None = None

    def print(self, *, as_json: bool) -> None:
        if as_json:
            print_json(self.document)
        elif isinstance(self.show, str):
            typer.echo(display_text(self.show))
        elif (shown := self.show(self.document)) is not None:
            console().print(shown)
        if self.error is not None:
            raise self.error
        if self.status:
            raise typer.Exit(self.status)


def list_output(
    document: object,
    entries: Sequence[Any],
    columns: Sequence[str],
    row: Callable[[Any], Sequence[object]],
    *,
    nothing: str,
    numbers: Sequence[str] = (),
    more: bool = False,
) -> Output:
    """Return a list with its entries as a table; `nothing` stands for an empty one, `more` says it is cut."""

    def show(_: object) -> None:
        if not entries:
            note(nothing)
            return
        console().print(table(columns, map(row, entries), numbers=numbers))
        if more:
            note(f"more than {len(entries)}; --limit shows them")

    return Output(document, show)


def require_person(as_json: bool) -> None:
    """Raise InvalidRequest if the output is for a program, which cannot answer a question."""
    if as_json:
        raise InvalidRequest("--json cannot ask for confirmation; add --yes")


def confirm(what: str, question: str) -> None:
    """Print what would be deleted and ask; end the command unless the answer is yes."""
    typer.echo(what, err=True)
    if not typer.confirm(f"{question} There is no undo.", err=True):
        note("nothing was changed")
        raise typer.Exit(1)


def escape_unencodable() -> None:
    """Let standard output escape characters that its encoding lacks, instead of failing."""
    out = cast("object", sys.stdout)
    if _ascii() and isinstance(out, io.TextIOWrapper):
        cast("io.TextIOWrapper", out).reconfigure(errors="backslashreplace")


def _ascii() -> bool:
    """Return whether standard output may lack characters, so that JSON must escape them."""
    return not (sys.stdout.encoding or "utf-8").lower().startswith("utf")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """Rows as a table if the terminal is wide enough, otherwise each row as a few lines; words are never broken.

    Attributes:
        numbers: Columns that are right-aligned and never wrapped.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Text]]
    numbers: frozenset[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        if widths is None:
            for row in self.rows:
                yield from self._stack_row(row, options.max_width)
            return
        grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for name, width in zip(self.columns, widths, strict=True):
            right = name in self.numbers
            grid.add_column(name, justify="right" if right else "left", no_wrap=right, width=width, overflow="fold")
        for row in self.rows:
            grid.add_row(*row)
        yield grid

    def _widths(self, room: int) -> list[int] | None:
        """Return the width of each column, cutting the widest first; None if the table cannot fit."""
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
        """Yield a row as lines: its first cell, then each other non-empty cell after its column name."""
        lines = [row[0].copy()]
        for name, cell in zip(self.columns[1:], row[1:], strict=True):
            if cell.plain not in ("", _NOTHING):
                entry = Text.assemble((f"{name} " if name else "", "dim"), cell)
                if lines[-1].cell_len + _GAP + entry.cell_len <= width - _INDENT:
                    lines[-1].append(" " * _GAP).append_text(entry)
                else:
                    lines.append(entry)
        yield lines[0]
        yield from (Padding(line, (0, 0, 0, _INDENT)) for line in lines[1:])


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[str] = ()) -> Listing:
    cells = [tuple(cell if isinstance(cell, Text) else Text(display_text(cell)) for cell in row) for row in rows]
    return Listing(columns=tuple(columns), rows=cells, numbers=frozenset(numbers))


def display_text(value: object) -> str:
    """Return a value as readable text, with control and hidden characters escaped.

    Names and texts come from agents and must not be able to control the reader's terminal.
    """
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, cast("Sequence[object]", value)))
    text = _NOTHING if value is None else str(value)
    hidden = set(hidden_positions(text))
    flags = (at not in hidden and (letter.isprintable() or letter == "\n") for at, letter in enumerate(text))
    return "".join(letter if is_seen else ascii(letter)[1:-1] for letter, is_seen in zip(text, flags, strict=True))


def shorten(text: str, letters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= letters else f"{line[:letters]}…"


def format_setting(value: Any) -> str:
    """Return a setting's value as it is written in the file; an empty value stays visible."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if value in ([], {}, "") else display_text(value)


def state_text(sleeping: bool) -> Text:
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


def time_since(value: datetime, now: datetime) -> str:
    return format_duration((now - value).total_seconds())


def local_time(value: datetime) -> str:
    """Return an instant in this machine's time zone, to the second."""
    return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"


def dollars(value: float) -> str:
    if 0 < value < 0.0001:
        return "<$0.0001"
    return f"${value:,.2f}" if value == 0 or value >= 1 else f"${value:.4f}"


def compact(data: Mapping[str, Any]) -> str:
    words = {
        key: value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
        for key, value in data.items()
        if value not in (None, "", [])
    }
    return " ".join(f"{key}={word}" for key, word in words.items())
