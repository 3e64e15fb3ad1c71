"""Read values of any type from other systems' formats."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from circadia.errors import InvalidRequest
from circadia.memory.episodes import MAX_CHARACTERS, MAX_NAME

_CUT_NEAR: Final = 2_000
"""Characters before the limit in which a line end is looked for."""


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[object]:
    """Return a list, or an empty one for any other value."""
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def as_name(value: object) -> str | None:
    """Return a text as a speaker's or conversation's name, cut to the allowed length; None for any other value."""
    return value[:MAX_NAME] if isinstance(value, str) and value else None


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def parse_time(value: object, number: int) -> datetime | None:
    """Parse an ISO 8601 time, in UTC without a zone. Raises InvalidRequest, with the number of the line or entry."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(cast("str", value))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{number}: {value!r:.80} is not a time in ISO 8601") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def split_text(text: str) -> Iterator[str]:
    """Yield a text in parts that fit an episode, without characters that databases cannot store; nothing if empty."""
    rest = text.replace("\0", "")
    while rest.strip():
        part = rest[:MAX_CHARACTERS]
        if len(rest) > MAX_CHARACTERS:
            end = part.rfind("\n", MAX_CHARACTERS - _CUT_NEAR)
            part = part[: end + 1] if end > 0 else part
        if part.strip():
            yield part.strip()
        rest = rest[len(part) :]
