"""Groups of commands: the whole list, whose modules load when called, and nouns, which list without a command."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from circadia.cli.terminal.lazy_imports import end_on_interrupt, quick_imports
from circadia.cli.terminal.output import AsJson, Output
from circadia.suggestions import did_you_mean


class LazyGroup(TyperGroup):
    """A group that imports the module of a command when the command is called, after click's lazy groups.

    `--help` shows the lines below, so that it need not import any module.
    """

    sections: ClassVar[Mapping[str, Mapping[str, tuple[str, str]]]]
    """The commands below each heading: the module of `circadia.cli` with its `app`, and the first line of its help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for heading, listed in self.sections.items():
            for name, (_, summary) in listed.items():
                self.add_command(TyperCommand(name=name, help=summary, rich_help_panel=heading))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}{self._suggest_command(args)}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and self.load_command(args[0]), rest

    def _suggest_command(self, args: list[str]) -> str:
        """Return commands that end in the same word, or else resemble the first one; it may be a heading."""
        headings = {heading.lower().replace("-", ""): list(listed) for heading, listed in self.sections.items()}
        names = headings.get(args[0], list(self.commands))
        below = [f"{name} {word}" for name in names for word in getattr(self.load_command(name), "commands", ())]
        if same := [command for command in below if command.split()[1:] == args[1:2]]:
            return did_you_mean(" ".join(args[:2]), same)
        return did_you_mean(args[0], names if args[0] in headings else [*names, *below])

    def load_command(self, name: str) -> Any:
        (module,) = [listed[name][0] for listed in self.sections.values() if name in listed]
        with end_on_interrupt(), quick_imports():
            group = get_group(_add_options(importlib.import_module(f"circadia.cli.{module}").app))
        return group.commands.get(name, group)


class NounGroup(TyperGroup):
    """A command with others below it: it runs unless its first word names one of them."""

    allow_interspersed_args = True

    def __init__(self, **attributes: Any) -> None:
        attributes |= {"invoke_without_command": True, "subcommand_metavar": "| COMMAND [ARGS]..."}
        super().__init__(**attributes)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        command = self.commands.get(args[0]) if args else None
        if command is None:
            return super().make_context(info_name, args, parent, **extra)
        return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Refuse the words that are left after the arguments, as the first word is no command."""
        word = ctx.params.get("bank") or args[0]
        if word in self.commands:
            ctx.fail(f"Write {word!r} before the options")
        ctx.fail(f"No such command {word!r}{did_you_mean(word, self.commands)}")


def _add_options(app: typer.Typer) -> typer.Typer:
    for command in (*app.registered_commands, app.registered_callback):
        if command is not None and command.callback is not None:
            command.callback = _with_options(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _add_options(group.typer_instance)
    return app


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the options of its server, and with `--json` if it returns an `Output`.

    The fields of the class of the parameter `server` replace it. `--json` is last; a command with the parameter
    `as_json` gets its value too.
    """
    signature = inspect.signature(command)
    others = dict(signature.parameters)
    returns_output = signature.return_annotation in (Output, Output | None)
    if hasattr(command, "__wrapped__") or not (returns_output or "server" in others):
        return command
    server, json = others.pop("server", None), others.pop("as_json", None)
    fields: Mapping[str, inspect.Parameter] = {}
    if server is not None:
        fields = inspect.signature(server.annotation).parameters
    takes_json = json is not None
    if json is None and returns_output:
        json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)

    @wraps(command)
    def wrapper(**values: Any) -> None:
        if server is not None:
            values["server"] = server.annotation(**{name: values.pop(name) for name in fields})
        as_json = values["as_json"] if takes_json else values.pop("as_json", False)
        output = command(**values)
        if isinstance(output, Output):
            output.print(as_json=as_json)

    parameters = [*others.values(), *fields.values(), *([] if json is None else [json])]
    vars(wrapper)["__signature__"] = signature.replace(parameters=parameters)
    return wrapper
