"""Commands whose modules load when they are called, so that `--help` and other commands need not wait for them."""

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
    """A name and a help line in place of a command or group, until it is called."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return resolve_command(self).make_context(info_name, args, parent, **extra)


def resolve_command(command: Any) -> Any:
    """Return the real command behind a `LazyCommand`; return any other command unchanged."""
    return command.callback() if isinstance(command, LazyCommand) and command.callback else command


@dataclass(frozen=True, kw_only=True, slots=True)
class LazyCommandEntry:
    """A command or group in a list, and how to load it."""

    name: str
    summary: str
    load: Callable[[], Any]


def group(name: str, told: str, load: Callable[[], typer.Typer]) -> LazyCommandEntry:
    return LazyCommandEntry(name=name, summary=told, load=lambda: get_group(_load_app(load)))


def command(name: str, told: str, load: Callable[[], typer.Typer]) -> LazyCommandEntry:
    return LazyCommandEntry(name=name, summary=told, load=lambda: get_group(_load_app(load)).commands[name])


def add_lazy_commands(app: typer.Typer, *listed: LazyCommandEntry) -> typer.Typer:
    for each in listed:
        app.command(each.name, cls=LazyCommand, help=each.summary)(each.load)
    return app


@cache
def _load_app(load: Callable[[], typer.Typer]) -> typer.Typer:
    with end_on_interrupt(), quick_imports():
        return _add_server_options(load())


def _add_server_options(app: typer.Typer) -> typer.Typer:
    for each in (*app.registered_commands, app.registered_callback):
        if each is not None and each.callback is not None:
            each.callback = _with_options(each.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _add_server_options(group.typer_instance)
    return app


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with its `server` parameter replaced by that class's fields, placed before `--json`."""
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
