"""Text that each database can keep: SQLite would keep a NUL, and PostgreSQL does not."""

from collections.abc import Mapping
from typing import Final, cast

NUL: Final = "holds a NUL character (U+0000), which is not text; leave it out"
"""What is told of one, behind the name of what holds it."""


def holds_nul(given: object) -> bool:
    """Return whether a text or a key in JSON values holds a NUL, however deep that lies."""
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
