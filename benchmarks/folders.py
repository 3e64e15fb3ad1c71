"""Where the benchmarks keep what is costly to make: compiled tools and the peers' environments."""

import os
from pathlib import Path


def cache() -> Path:
    """Return the folder; it may be deleted at any time."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "circadia-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
