"""The question that a command asks before it deletes."""

from typing import Annotated

import typer

from circadia.cli.terminal.output import note
from circadia.errors import InvalidRequest

Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")]


def require_person(as_json: bool) -> None:
    """Raise InvalidRequest if the output is for a program, which cannot answer a question."""
    if as_json:
        raise InvalidRequest("--json cannot ask for confirmation; add --yes")


def confirm(what: str, question: str) -> None:
    """Print what would be deleted and ask; end the command unless the answer is yes."""
    typer.echo(what, err=True)
    if not typer.confirm(f"{question} There is no undo.", err=True):
        note("nothing was changed")
        raise typer.Exit(1)
