"""The points that a demo must show: if one is missing, the demo says so and exits with status 1."""

from collections.abc import Mapping, Sequence
from typing import Final

import typer

UNSHOWN: Final = 1


def missing_points(points: Mapping[str, bool]) -> Sequence[str]:
    return [point for point, is_shown in points.items() if not is_shown]


def conclude(missing: Sequence[str]) -> None:
    """End the demo; print missing points on standard error and exit with status `UNSHOWN`."""
    for point in missing:
        typer.echo(f"Not shown: {point}", err=True)
    if missing:
        raise typer.Exit(UNSHOWN)
