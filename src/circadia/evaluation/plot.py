"""Plots: bars in the terminal, and pictures if matplotlib is installed (the extra `eval`)."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
    most = max((value for values in chart.series.values() for value in values), default=0.0)
    alone = len(chart.series) == 1
    wide = max(map(len, chart.places if alone else chart.series), default=0)
    drawing = Text(f"{chart.title}\n", "bold")
    for at, place in enumerate(chart.places):
        if not alone:
            drawing.append(f"{chart.across} {place}\n", "dim")
        for number, (name, values) in enumerate(chart.series.items()):
            drawing.append(f"  {place if alone else name:<{wide}} ")
            drawing.append(_render_bar(values[at], most), _STYLES[number % len(_STYLES)])
            drawing.append(f" {values[at]:,.0f}\n")
    drawing.append(f"({chart.unit})", "dim")
    return drawing


def _render_bar(value: float, most: float) -> str:
    eighths = round(8 * WIDTH * value / most) if most > 0 else 0
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
