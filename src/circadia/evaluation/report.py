"""The findings of an evaluation as tables, notes and charts: in the terminal, as JSON, as Markdown and as pictures."""

import importlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

PICTURE: Final = ".png"
WIDTH: Final = 44
"""Characters of the longest bar."""
COLOURS: Final = ("#4c566a", "#2e7d32", "#1565c0", "#ef6c00", "#c62828", "#6a1b9a")
_STYLES: Final = ("white", "green", "blue", "yellow", "red", "magenta")
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Several series over the same categories."""

    name: str
    """Of the picture file, without suffix."""
    title: str
    places: Sequence[str]
    """Category labels, from left to right."""
    across: str
    unit: str
    series: Mapping[str, Sequence[float]]
    lines: bool = True
    """Whether the picture has lines instead of bars."""


def render_bars(chart: Chart) -> Text:
    longest_value = max((value for values in chart.series.values() for value in values), default=0.0)
    alone = len(chart.series) == 1
    wide = max(map(len, chart.places if alone else chart.series), default=0)
    drawing = Text(f"{chart.title}\n", "bold")
    for at, place in enumerate(chart.places):
        if not alone:
            drawing.append(f"{chart.across} {place}\n", "dim")
        for number, (name, values) in enumerate(chart.series.items()):
            drawing.append(f"  {place if alone else name:<{wide}} ")
            drawing.append(_render_bar(values[at], longest_value), _STYLES[number % len(_STYLES)])
            drawing.append(f" {values[at]:,.0f}\n")
    drawing.append(f"({chart.unit})", "dim")
    return drawing


def _render_bar(value: float, longest_value: float) -> str:
    eighths = round(8 * WIDTH * value / longest_value) if longest_value > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def save_picture(chart: Chart, folder: Path) -> Path | None:
    """Write a chart as a PNG and return its path; None without matplotlib."""
    try:  # not pyplot, which has global state and needs a display
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        return None
    figure: Any = figures.Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes: Any = figure.subplots()
    places = range(len(chart.places))
    wide = 0.8 / max(len(chart.series), 1)
    for at, (name, values) in enumerate(chart.series.items()):
        colour = COLOURS[at % len(COLOURS)]
        if chart.lines:
            axes.plot(places, values, marker="o", label=name, color=colour)
        else:
            axes.bar([place - 0.4 + wide * (at + 0.5) for place in places], values, wide, label=name, color=colour)
    axes.set_xticks(list(places), list(chart.places))
    axes.set_xlabel(chart.across.rstrip(":"))
    axes.set_ylabel(chart.unit)
    axes.set_ylim(bottom=0)
    axes.set_title(chart.title, loc="left", fontsize=10)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(fontsize=8, loc="outside right upper")
    path = folder / f"{chart.name}{PICTURE}"
    figure.savefig(path)
    return path


MARKDOWN = "report.md"
RESULTS = "results.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A table with text in its first column and numbers in the others."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    title: str
    command: str
    at: datetime
    complete: bool
    """Whether the run was finished."""
    grids: Sequence[Grid]
    charts: Sequence[Chart]
    notes: Sequence[str]
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def document(self) -> Mapping[str, Any]:
        return {
            "title": self.title, "command": self.command, "measured_on": describe_machine(self.at),
            "complete": self.complete, **self.figures, "notes": list(self.notes),
        }  # fmt: skip


def describe_machine(at: datetime) -> Mapping[str, str]:
    return {
        "date": at.date().isoformat(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "circadia": f"Circadia {version('circadia')}",
    }


def show(found: Findings, console: Console) -> None:
    for grid in found.grids:
        table = Table(title=grid.title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
        for at, column in enumerate(grid.columns):
            table.add_column(column, justify="right" if at else "left", no_wrap=True)
        for row in grid.rows:
            table.add_row(*row)
        console.print(table)
        console.print()
    for chart in found.charts:
        console.print(render_bars(chart))
        console.print()
    for note in _list_notes(found):
        console.print(f"* {note}", highlight=False, markup=False, soft_wrap=True)


def save(found: Findings, folder: Path) -> Sequence[Path]:
    """Write results.json, report.md and, if matplotlib is installed, a PNG of each chart; return their paths.

    The page is written with bars first, so that nothing is lost if drawing a picture fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results, page = folder / RESULTS, folder / MARKDOWN
    results.write_text(json.dumps(found.document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    page.write_text("\n".join(_render_page(found, [])), "utf-8")
    pictures = [path for chart in found.charts if (path := save_picture(chart, folder)) is not None]
    page.write_text("\n".join(_render_page(found, pictures)), "utf-8")
    return [results, page, *pictures]


def _render_page(found: Findings, pictures: Sequence[Path]) -> Iterator[str]:
    yield from (f"# {found.title}", "", "```", f"$ {found.command}", "```", "")
    for grid in found.grids:
        yield from (f"## {grid.title}", "")
        yield "| " + " | ".join(grid.columns) + " |"
        yield "| --- |" + " ---: |" * (len(grid.columns) - 1)
        yield from ("| " + " | ".join(row) + " |" for row in grid.rows)
        yield ""
    named = {path.stem: path.name for path in pictures}
    for chart in found.charts:
        yield from (f"## {chart.title}", "")
        if chart.name in named:
            yield from (f"![{chart.title}]({named[chart.name]})", "")
        else:
            yield from ("```", render_bars(chart).plain, "```", "")
    yield from (f"* {note}" for note in _list_notes(found))
    yield ""


def _list_notes(found: Findings) -> Iterator[str]:
    if not found.complete:
        yield "The run was interrupted; these are the results until then."
    yield from found.notes
    yield "Measured on: " + "; ".join(describe_machine(found.at).values()) + "."
