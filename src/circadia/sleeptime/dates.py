"""Dates that are told from the day of a message, such as `yesterday`, as days of the calendar (SLEEP-24)."""

import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from circadia.records.episode import Episode

_ZONES: Final = ("timezone", "zone", "utc_offset")
"""Names in an episode's metadata under which a zone or an offset such as `+02:00` may stand."""
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)?")


def local(episode: Episode) -> datetime:
    """Return when it was said by the clock of whoever said it, as far as that is known; else as it was stored."""
    for name in _ZONES:
        zone = _zone(episode.metadata.get(name))
        if zone is not None:
            return episode.at.astimezone(zone)
    return episode.at


def _zone(given: object) -> tzinfo | None:
    if not isinstance(given, str) or not given:
        return None
    offset = _OFFSET.fullmatch(given)
    if offset is not None and int(offset[2]) < 24:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(ahead if offset[1] == "+" else -ahead)
    try:
        return ZoneInfo(given)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
