"""The data folder and its default."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from circadia.errors import ConfigError

DATA_VARIABLE: Final = "CIRCADIA_DATA"

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", envvar=DATA_VARIABLE, help="Data folder; defaults to `~/.local/share/circadia`."
    ),
]


def data_folder(given: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the given folder, or the user's default one (XDG Base Directory Specification 0.8).

    Raises:
        ConfigError: the folder is below the home folder and there is none, as in some containers.
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
