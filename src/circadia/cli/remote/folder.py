"""The data folder that a command means when none is named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from circadia.errors import ConfigError

DATA_VARIABLE: Final = "CIRCADIA_DATA"

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", envvar=DATA_VARIABLE, help="Data folder; by default `~/.local/share/circadia`."
    ),
]
"""The option that names the data folder."""


def data_folder(given: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the folder that was named, or else the user's own (XDG Base Directory Specification 0.8).

    Raises:
        ConfigError: it would be below a home folder, and there is none, as in some containers.
    """
    home = environment.get("XDG_DATA_HOME", "")
    base = Path(home) if home.startswith("/") else Path("~", ".local", "share")
    folder = base / "circadia" if given is None else given
    try:
        return folder.expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"there is no home folder for {str(folder)!r}; name another data folder with --data or {DATA_VARIABLE}"
        ) from error
