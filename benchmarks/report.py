"""What a benchmark found: a table, goals with their figures, and the numbers behind them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine

RESULTS: Final = Path(__file__).with_name("results")


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """One figure that was promised."""

    what: str
    """What is measured."""
    limit: float
    """The promised bound."""
    unit: str
    """Unit of the bound and of the figure."""
    found: float | None
    """What was measured; none if it could not be."""
    bound: Literal["at most", "at least"] = "at most"
    """Which side of the bound is good."""

    @property
    def met(self) -> bool | None:
        """Whether the figure keeps the promise; none if there is no figure."""
        if self.found is None:
            return None
        return self.found <= self.limit if self.bound == "at most" else self.found >= self.limit

    @property
    def verdict(self) -> str:
        """The same in a word."""
        return {True: "met", False: "MISSED", None: "not measured"}[self.met]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What one benchmark found."""

    name: str
    """Which benchmark."""
    title: str
    """What the table shows."""
    columns: Sequence[str]
    """Heads of the table; the first column is text, the others are numbers."""
    rows: Sequence[Sequence[str]]
    """Lines of the table."""
    goals: Sequence[Goal]
    """The promised figures."""
    notes: Sequence[str] = ()
    """What a reader must know to read the table."""
    figures: dict[str, Any] = field(default_factory=dict[str, Any])
    """The numbers behind the table."""


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    table = Table(title=report.title, title_justify="left")
    for index, column in enumerate(report.columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=not index)
    for row in report.rows:
        table.add_row(*row)
    console.print(table)
    goals = Table(title="Goals", title_justify="left")
    for column in ("figure", "goal", "found", ""):
        goals.add_column(column, justify="left" if column in ("figure", "") else "right")
    for goal in report.goals:
        style = {True: "green", False: "red", None: "yellow"}[goal.met]
        goals.add_row(goal.what, *told(goal), f"[{style}]{goal.verdict}[/]")
    if report.goals:
        console.print(goals)
    for note in report.notes:
        console.print(f"* {note}", highlight=False, markup=False)


def told(goal: Goal) -> tuple[str, str]:
    """Return the goal and what was found, with units."""
    sign = "≤" if goal.bound == "at most" else "≥"
    found = "–" if goal.found is None else f"{number(goal.found)} {goal.unit}"
    return f"{sign} {goal.limit:g} {goal.unit}", found


def number(value: float) -> str:
    """Return three significant digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def save(report: Report, folder: Path = RESULTS) -> Path:
    """Write the report as JSON, with the machine that it comes from; return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.name}.json"
    goals = [{**asdict(goal), "met": goal.met} for goal in report.goals]
    path.write_text(json.dumps({**asdict(report), "goals": goals, "machine": machine()}, indent=1) + "\n", "utf-8")
    return path


def load(name: str, folder: Path = RESULTS) -> tuple[Report, dict[str, str]]:
    """Return a saved report and the machine that it comes from. Raises FileNotFoundError: it never ran."""
    raw = json.loads((folder / f"{name}.json").read_text("utf-8"))
    goals = [Goal(**{key: value for key, value in goal.items() if key != "met"}) for goal in raw.pop("goals")]
    found: dict[str, str] = raw.pop("machine")
    return Report(**raw, goals=goals), found
