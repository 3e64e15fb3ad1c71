"""The page that shows the week of the benchmark `week` day by day, made of its last run."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks import doc
from benchmarks.report import RESULTS, load
from benchmarks.week import ERRORS, LANGUAGES
from benchmarks.week_model import MONDAY

PAGE: Final = Path(__file__).parent.parent / "docs" / "concepts" / "a-week.md"
SHOWN_LINES: Final = 2
"""Lines of each answer that the page shows."""


def write(page: Path = PAGE, results: Path = RESULTS) -> Path:
    """Write the week of the last run between the page's markers; return its path. Raises ValueError: there are none."""
    report, _ = load("week", results)
    page.write_text(doc.replaced(page.read_text("utf-8"), "week_days", "\n".join(tell(report.figures))), "utf-8")
    return page


def tell(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the page, from the figures of the benchmark's report."""
    week = figures[LANGUAGES[0]]
    before: Sequence[str] = ()
    for number, day in enumerate(week["days"]):
        yield f"## Day {number + 1}, {MONDAY + timedelta(days=number):%A}\n"
        yield from ("| who | says |", "| --- | --- |")
        yield from (f"| {_speaker(who, trust)} | {_cell(text)} |" for who, trust, text in day["said"])
        yield from _list("The pass of that night keeps", day["kept"])
        yield from _list("It ends", day["over"])
        yield from _list("It refuses", [f"{text} ({why})" for text, why in day["refused"]])
        changed = [line for line in difflib.ndiff(before, day["block"]) if line[0] in "+-"]
        yield "\nThe block that the agent sees in each call changes:\n" if changed else "\nThe block stays.\n"
        yield from (("```diff", *changed, "```\n") if changed else ())
        before = day["block"]
    yield "## What the agent sees with a question\n"
    yield "Beside the block, a call gets what fits its question. These questions name no fact that they are about:\n"
    yield from ("| question on the last day | what the block and the context say of it |", "| --- | --- |")
    for ask, lines in week["seen"]:
        yield f"| {_cell(ask)} | {'<br>'.join(_cell(line.strip('- ')) for line in lines[:SHOWN_LINES])} |"
    errs = figures[f"{LANGUAGES[0]}, the judge errs {ERRORS:.0%}"]
    yield f"\n## With a judge that is wrong in {ERRORS:.0%}\n"
    yield "Then what is true may be refused. The step gets it back once, with the reason, and says it anew:\n"
    for number, day in enumerate(errs["days"]):
        yield from dict.fromkeys(f"* Day {number + 1}: {text} ({why})" for text, why in day["refused"])
    if any(errs["false"].values()):
        yield "\nAn old line may stand a night longer, since its correction was refused:\n"
        yield from (f"* Day {day}: {line}" for day, lines in errs["false"].items() for line in lines)


def _speaker(who: str, trust: str) -> str:
    return who if trust == "person" else f"{who} ({trust})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _list(head: str, entries: Sequence[str]) -> Iterator[str]:
    if entries:
        yield f"\n{head}:\n"
        yield from (f"* {each}" for each in entries)
