"""Writes the tables of the last runs into docs/operations/benchmarks.md, between its markers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.report import RESULTS, Report, load, told

DOC: Final = Path(__file__).parent.parent / "docs" / "operations" / "benchmarks.md"


def write(page: Path = DOC, results: Path = RESULTS) -> Path:
    """Replace what stands between the markers of each benchmark that has a result; return the path.

    Raises:
        ValueError: the page lacks a marker.
    """
    text = page.read_text("utf-8")
    for name in sorted(path.stem for path in results.glob("*.json")):
        report, machine = load(name, results)
        text = replaced(text, name, section(report, machine))
    page.write_text(text, "utf-8")
    return page


def replaced(text: str, name: str, content: str) -> str:
    """Return the text with `content` between the markers of `name`. Raises ValueError: there are none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the page lacks the markers {begin} and {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def section(report: Report, machine: dict[str, str]) -> str:
    """Return the report in Markdown."""
    parts = [f"{report.title}.", _table(report.columns, report.rows)]
    if report.goals:
        goals = [[goal.what, *told(goal), goal.verdict] for goal in report.goals]
        parts.append(_table(["figure", "goal", "found", "verdict"], goals))
    parts.append("\n".join(f"* {note}" for note in report.notes))
    parts.append("Measured on: " + "; ".join(f"{value}" for value in machine.values()) + ".")
    return "\n\n".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in columns[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, rule, *rows))
