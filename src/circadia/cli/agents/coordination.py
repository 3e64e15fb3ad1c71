"""`circadia agents coordination`: how an agent may be woken, with the value and source of each setting."""

from typing import Annotated, Any, cast

import typer
from rich.text import Text

from circadia import settings
from circadia.cli.arguments import Agent, Session, full_reference
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.output import Listing, Output, compact, local_time, table
from circadia.client import Client
from circadia.errors import InvalidRequest
from circadia.records.coordination import KEYS
from circadia.schemas.agents import CoordinationView

app = typer.Typer()

_COLOURS = {"file": "green", "patch": "cyan"}


@app.command(epilog="Example: circadia agents coordination writer max_wakes_per_day=4 on_busy=refuse")
def coordination(
    server: RemoteServer,
    agent: Agent,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings to change, such as max_wakes_per_day=4; null: no limit."),
    ] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(
            "--reset", metavar="KEY", help="Undo a change, so that the value of the file or the default applies again."
        ),
    ] = None,
    session: Session = None,
) -> Output:
    """Show how an agent may be woken, with the source of each setting, or change it from the next decision on."""
    body = {full_key(key): value for key, value in settings_of(changes or []).items()}
    target = full_reference(agent, session)

    async def apply_changes(client: Client) -> CoordinationView:
        for key in reset or []:
            await client.reset_coordination(target, full_key(key))
        return await (client.change_coordination(target, body) if body else client.show_coordination(target))

    return Output(server.ask(apply_changes), _settings_table)


def _settings_table(answer: CoordinationView) -> Listing:
    rows = [
        (
            key,
            _format_value(setting.value),
            Text(setting.source, _COLOURS.get(setting.source, "dim")),
            local_time(setting.at) if setting.at else "",
        )
        for key, setting in answer.settings.items()
    ]
    return table(("key", "value", "source", "since"), rows)


def settings_of(words: list[str]) -> dict[str, Any]:
    """Return the settings from `key=value` words, with values read as YAML.

    Raises:
        InvalidRequest: a word has no key, or its value cannot be read.
    """
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidRequest(f"{word!r} is no setting; write KEY=VALUE, such as max_wakes_per_day=4")
        try:
            values[key] = settings.parse_yaml(value)
        except ValueError as error:
            raise InvalidRequest(f"{word!r}: the value cannot be read: {' '.join(str(error).split())}") from error
    return values


def full_key(key: str) -> str:
    full = [known_key for known_key in KEYS if known_key == key or known_key.endswith(f".{key}")]
    return full[0] if len(full) == 1 else key


def _format_value(value: Any) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return [compact(entry) for entry in cast("list[dict[str, Any]]", value)] or "none"
    return value
