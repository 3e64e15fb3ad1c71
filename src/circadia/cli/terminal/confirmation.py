"""How a command asks a person before it deletes."""

from typing import Annotated

import typer

from circadia.cli.terminal.output import note
from circadia.errors import InvalidRequest

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
"""The option of a command that asks first."""


def require_person(as_json: bool) -> None:
    """Raise InvalidRequest: the output is for a program, which cannot be asked."""
    if as_json:
        raise InvalidRequest("nobody can be asked with --json; add --yes")


def confirm(what: str, question: str) -> None:
    """Tell what would go and ask; end the command unless the answer is yes."""
    typer.echo(what, err=True)
    if not typer.confirm(f"{question} There is no undo.", err=True):
        note("nothing was changed")
        raise typer.Exit(1)
