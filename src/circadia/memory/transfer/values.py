"""What the readers of other systems' formats have in common: values that may be of any type."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from circadia.errors import InvalidRequest
from circadia.memory.episodes import MAX_CHARACTERS, MAX_NAME

_CUT_NEAR: Final = 2_000
"""Characters before the end of a part in which a line's end is looked for."""


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object of JSON, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[object]:
    """Return the value if it is a list, else an empty one."""
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def as_name(value: object) -> str | None:
    """Return the value as a speaker's or a session's name, cut to the length that one may have; none if it is none."""
    return value[:MAX_NAME] if isinstance(value, str) and value else None


def parse_time(value: object, number: int) -> datetime | None:
    """Return the time that an ISO 8601 text tells, UTC if it names no zone.

    Raises:
        InvalidRequest: it is no time; with the number of its line or entry.
    """
    if value is None:
        return None
    try:
        told = datetime.fromisoformat(cast("str", value))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{number}: {value!r:.80} is no time in ISO 8601") from error
    return told if told.tzinfo else told.replace(tzinfo=UTC)


def split_text(text: str) -> Iterator[str]:
    """Yield a text in parts that episodes have room for, without what no database can hold; nothing if it is empty."""
    rest = text.replace("\0", "")
    while rest.strip():
        part = rest[:MAX_CHARACTERS]
        if len(rest) > MAX_CHARACTERS:
            end = part.rfind("\n", MAX_CHARACTERS - _CUT_NEAR)
            part = part[: end + 1] if end > 0 else part
        if part.strip():
            yield part.strip()
        rest = rest[len(part) :]
