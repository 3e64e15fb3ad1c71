"""The findings of an evaluation as tables and notes: in the terminal, as JSON, and as Markdown."""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from circadia.evaluation.plot import Chart, render_bars, save_picture

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
