"""Names of agents as people type them: `name`, or `session:name`."""

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from circadia.errors import InvalidRequest

DEFAULT_SESSION: Final = "default"

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="Agent, as `name` or `session:name`.")]
OnlySession = Annotated[str | None, typer.Option("--session", metavar="NAME", help="Only this session.")]
OnlyAgent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Only agents with this name, in any session.")
]
Session = Annotated[
    str | None,
    typer.Option("--session", metavar="NAME", help="Session of agents named without one; defaults to `default`."),
]


def split_reference(reference: str, session: str | None) -> tuple[str, str]:
    """Return the session and the agent name of a reference. Raises InvalidRequest if it contradicts --session."""
    prefix, colon, name = reference.rpartition(":")
    if not name or (colon and not prefix):
        raise InvalidRequest(f"{reference!r} names no agent; write `name` or `session:name`")
    if prefix and session is not None and prefix != session:
        raise InvalidRequest(f"{reference!r} names session {prefix!r}, but --session says {session!r}; use one of them")
    return prefix or session or DEFAULT_SESSION, name


def full_reference(reference: str, session: str | None) -> str:
    """Return a reference as `session:name`. Raises InvalidRequest as `split_reference` does."""
    return ":".join(split_reference(reference, session))


def group_by_session(references: Iterable[str], session: str | None) -> dict[str, list[str]]:
    """Return the agent names by session, in the order given. Raises InvalidRequest as `split_reference` does."""
    names: dict[str, list[str]] = {}
    for reference in references:
        where, name = split_reference(reference, session)
        names.setdefault(where, []).append(name)
    return names


def split_list(text: str | None) -> list[str] | None:
    return None if text is None else [word for word in (part.strip() for part in text.split(",")) if word]
