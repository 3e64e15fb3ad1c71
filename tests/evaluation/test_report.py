"""Reports and plots: on the terminal, as pictures, and as a page that shows them."""

import io
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from circadia.evaluation.report import Chart, Findings, Grid, render_bars, save, save_picture, show

WIDTH = 44

pytestmark = pytest.mark.spec("ANS-10")

LINES = Chart(
    name="cost", title="Cost", places=["1", "2"], across="questions:", unit="tokens",
    series={"none": [10, 20], "answers": [40, 5]},
)  # fmt: skip
BARS = Chart(
    name="recall", title="Recall", places=["a", "b"], across="of", unit="%", series={"r": [50, 0]}, lines=False
)
FOUND = Findings(
    title="What was found", command="circadia eval stateful", at=datetime(2026, 1, 2, tzinfo=UTC), complete=True,
    grids=[Grid(title="Numbers", columns=["arm", "cost"], rows=[["none", "10"]])], charts=[LINES, BARS],
    notes=["A note [with brackets]."], figures={"model": "scripted"},
)  # fmt: skip


def test_bars_are_as_long_as_their_numbers() -> None:
    told = render_bars(LINES).plain.splitlines()
    assert told[0] == "Cost"
    assert told[1] == "questions: 1"
    lengths = [line.count("█") for line in told if "█" in line]
    assert lengths == [WIDTH // 4, WIDTH, WIDTH // 2, WIDTH // 8]
    alone = render_bars(BARS).plain.splitlines()
    assert alone[1].startswith("  a ")
    assert "█" not in alone[2]


def test_a_page_shows_the_pictures_and_the_json_has_the_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "results"
    results, page, *pictures = save(FOUND, folder)
    assert [path.name for path in pictures] == ["cost.png", "recall.png"]
    for path in pictures:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG\r\n")
        assert len(content) > 5_000
    text = page.read_text("utf-8")
    for word in ("# What was found", "$ circadia eval stateful", "| none | 10 |", "](cost.png)", "](recall.png)"):
        assert word in text
    document = json.loads(results.read_text("utf-8"))
    assert document["model"] == "scripted"
    assert document["complete"] is True
    assert {"date", "machine", "python", "circadia"} <= document["measured_on"].keys()


def test_without_matplotlib_the_page_has_the_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert save_picture(LINES, tmp_path) is None
    _, page = save(FOUND, tmp_path)
    assert "█" in page.read_text("utf-8")


def test_what_was_found_is_written_though_a_picture_fails(tmp_path: Path) -> None:
    uneven = replace(BARS, series={"r": [1, 2, 3]})
    with pytest.raises(ValueError, match="shape"):
        save(replace(FOUND, charts=[LINES, uneven]), tmp_path)
    assert json.loads((tmp_path / "results.json").read_text("utf-8"))["complete"] is True
    page = (tmp_path / "report.md").read_text("utf-8")
    assert "| none | 10 |" in page
    assert "A note" in page


def test_the_terminal_gets_tables_bars_and_notes() -> None:
    to = Console(width=100, record=True, file=io.StringIO())
    show(FOUND, to)
    told = to.export_text()
    for word in ("Numbers", "none", "█", "A note [with brackets].", "Measured on: 2026-01-02"):
        assert word in told
