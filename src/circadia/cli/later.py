"""Commands whose modules are loaded when they are called: each costs its own libraries, and a list of them none."""

from collections.abc import Callable
from functools import cache
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_group

from circadia.loading import ended_by_interrupts, quick_imports


class Later(TyperCommand):
    """A name with a line of help, which stands for a command or a group of commands until that is needed."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of what it stands for, which then is the command that is called."""
        return whole(self).make_context(info_name, args, parent, **extra)


def whole(command: Any) -> Any:
    """Return what a name stands for, or any other command itself."""
    return command.callback() if isinstance(command, Later) else command


def add_group(app: typer.Typer, name: str, told: str, load: Callable[[], typer.Typer]) -> None:
    """Add a group of commands that `load` returns; `told` stands in the list."""
    app.command(name, cls=Later, help=told)(lambda: get_group(_loaded(load)))


def add_command(app: typer.Typer, name: str, told: str, load: Callable[[], typer.Typer]) -> None:
    """Add the command of this name of those that `load` returns; `told` stands in the list."""
    app.command(name, cls=Later, help=told)(lambda: get_group(_loaded(load)).commands[name])


@cache
def _loaded(load: Callable[[], typer.Typer]) -> typer.Typer:
    with ended_by_interrupts(), quick_imports():
        return load()
