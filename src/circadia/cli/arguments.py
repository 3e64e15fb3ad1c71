"""Arguments and options of several commands: agents as `name` or `session:name`, banks, end users, limits."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, cast

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
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="Maximum number of rows.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")]


def _complete_command(ctx: typer.Context, incomplete: str) -> Sequence[str]:
    commands: dict[str, Any] = getattr(ctx.command, "commands", {})
    return [name for name in commands if name.startswith(incomplete)]


_BANK_TO_LIST: Any = typer.Argument(metavar="BANK", help="Bank or template name.", autocompletion=_complete_command)
"""The argument of a list, in whose place a shell completes the commands below the list."""
Bank = Annotated[str, typer.Argument(metavar="BANK", help="Bank or template name.")]
BankToList = Annotated[str, _BANK_TO_LIST]
BankToListIfAny = Annotated[str | None, _BANK_TO_LIST]
User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="End user, if BANK is a template such as support-{user}.")
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


def read_json_object(option: str, text: str | None) -> Mapping[str, Any] | None:
    """Return the JSON object that an option has. Raises InvalidRequest: it is none."""
    if text is None:
        return None
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"{option} takes a JSON object: {error}") from error
    if not isinstance(document, dict):
        raise InvalidRequest(f'{option} takes a JSON object, such as {{"tags": "work"}}, not {text!r:.40}')
    return cast("Mapping[str, Any]", document)
