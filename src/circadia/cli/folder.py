"""The data folder that a command means when none is named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

DATA_VARIABLE: Final = "CIRCADIA_DATA"

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", envvar=DATA_VARIABLE, help="Data folder; by default `~/.local/share/circadia`."
    ),
]
"""The option that names the data folder."""


def data_folder(given: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the folder that was named, or else the user's own (XDG Base Directory Specification 0.8)."""
    if given is not None:
        return given.expanduser()
    home = environment.get("XDG_DATA_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".local" / "share"
    return base / "circadia"
