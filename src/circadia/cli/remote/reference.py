"""Names of agents as people type them: `name`, or `session:name`."""

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from circadia.errors import InvalidRequest

DEFAULT_SESSION: Final = "default"

Session = Annotated[
    str | None,
    typer.Option("--session", metavar="NAME", help="Session of agents that are named without one; else `default`."),
]
"""The option that names the session."""


def split_reference(reference: str, session: str | None) -> tuple[str, str]:
    """Return the session and the name that a reference stands for.

    Raises:
        InvalidRequest: it names no agent, or another session than the option.
    """
    given, colon, name = reference.rpartition(":")
    if not name or (colon and not given):
        raise InvalidRequest(f"{reference!r} names no agent; write `name` or `session:name`")
    if given and session is not None and given != session:
        raise InvalidRequest(f"{reference!r} names session {given!r}, but --session says {session!r}; use one of them")
    return given or session or DEFAULT_SESSION, name


def full_reference(reference: str, session: str | None) -> str:
    """Return `session:name` for a reference.

    Raises:
        InvalidRequest: see `parted`.
    """
    return ":".join(split_reference(reference, session))


def group_by_session(references: Iterable[str], session: str | None) -> dict[str, list[str]]:
    """Return the names under the session of each, in the order given.

    Raises:
        InvalidRequest: see `parted`.
    """
    found: dict[str, list[str]] = {}
    for reference in references:
        where, name = split_reference(reference, session)
        found.setdefault(where, []).append(name)
    return found


def split_list(text: str | None) -> list[str] | None:
    """Return the words of a list that is written with commas, or none."""
    return None if text is None else [word for word in (each.strip() for each in text.split(",")) if word]
