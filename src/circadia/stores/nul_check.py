"""Check for NUL characters, which SQLite would store and PostgreSQL does not."""

from collections.abc import Mapping
from typing import Final, cast

NUL: Final = "holds a NUL character (U+0000), which is not text; leave it out"
"""Message about such a value, to follow its name."""


def holds_nul(given: object) -> bool:
    """Return whether any text or key in JSON values contains a NUL, at any depth."""
    waiting = [given]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and "\0" in value:
            return True
        if isinstance(value, Mapping):
            waiting.extend(cast("Mapping[str, object]", value).keys())
            waiting.extend(cast("Mapping[str, object]", value).values())
        elif isinstance(value, list):
            waiting.extend(cast("list[object]", value))
    return False
