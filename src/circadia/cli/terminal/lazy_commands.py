"""Commands whose modules are loaded when they are called: each costs its own libraries, and a list of them none."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_group

from circadia.cli.terminal.lazy_imports import end_on_interrupt, quick_imports


class LazyCommand(TyperCommand):
    """A name with a line of help, which stands for a command or a group of commands until that is needed."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of what it stands for, which then is the command that is called."""
        return resolve_command(self).make_context(info_name, args, parent, **extra)


def resolve_command(command: Any) -> Any:
    """Return what a name stands for, or any other command itself."""
    return command.callback() if isinstance(command, LazyCommand) and command.callback else command


@dataclass(frozen=True, kw_only=True, slots=True)
class LazyCommandEntry:
    """A line in a list of commands."""

    name: str
    """How it is called."""
    summary: str
    """What it is for."""
    load: Callable[[], Any]
    """Returns what it stands for."""


def group(name: str, told: str, load: Callable[[], typer.Typer]) -> LazyCommandEntry:
    """Return the line of a group of commands that `load` returns."""
    return LazyCommandEntry(name=name, summary=told, load=lambda: get_group(_load_app(load)))


def command(name: str, told: str, load: Callable[[], typer.Typer]) -> LazyCommandEntry:
    """Return the line of the command of this name, of those that `load` returns."""
    return LazyCommandEntry(name=name, summary=told, load=lambda: get_group(_load_app(load)).commands[name])


def add_lazy_commands(app: typer.Typer, *listed: LazyCommandEntry) -> typer.Typer:
    """Return the group with these lines in its list."""
    for each in listed:
        app.command(each.name, cls=LazyCommand, help=each.summary)(each.load)
    return app


@cache
def _load_app(load: Callable[[], typer.Typer]) -> typer.Typer:
    with end_on_interrupt(), quick_imports():
        return _add_server_options(load())


def _add_server_options(app: typer.Typer) -> typer.Typer:
    """Give each command that takes a `server` the options of one."""
    for each in (*app.registered_commands, app.registered_callback):
        if each is not None and each.callback is not None:
            each.callback = _with_options(each.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _add_server_options(group.typer_instance)
    return app


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the fields of its `server` as parameters in place of that, before `--json`."""
    signature = inspect.signature(command)
    others = dict(signature.parameters)
    server = others.pop("server", None)
    if server is None:
        return command
    fields = inspect.signature(server.annotation).parameters

    @wraps(command)
    def wrapper(**given: Any) -> Any:
        return command(server.annotation(**{name: given.pop(name) for name in fields}), **given)

    last = [others.pop(name) for name in ("as_json",) if name in others]
    parameters = [*others.values(), *fields.values(), *last]
    vars(wrapper)["__signature__"] = signature.replace(parameters=parameters)
    return wrapper
