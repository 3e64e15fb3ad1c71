"""What a demo is there to show: one that has not shown it says so, and ends with a status that is not 0."""

from collections.abc import Mapping, Sequence
from typing import Final

import typer

UNSHOWN: Final = 1
"""Exit status of a demo that has not shown its point."""


def missing_points(points: Mapping[str, bool]) -> Sequence[str]:
    """Return the points that were not shown."""
    return [point for point, shown in points.items() if not shown]


def conclude(missing: Sequence[str]) -> None:
    """End the demo; if something was not shown, say what, on standard error."""
    for point in missing:
        typer.echo(f"Not shown: {point}", err=True)
    if missing:
        raise typer.Exit(UNSHOWN)
