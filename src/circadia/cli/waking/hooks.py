"""`circadia hooks`: inbound webhooks."""

from typing import Annotated, Final

import typer

from circadia.cli.agents.coordination import settings_of
from circadia.cli.arguments import Limit
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, list_output, local_time
from circadia.schemas.hooks import HookDeliveryView, HookView

app = typer.Typer(cls=NounGroup)

HookName = Annotated[str, typer.Argument(metavar="HOOK", help="Name of the hook.")]
_COLUMNS: Final = ("hook", "agent", "signature", "secret", "effect", "filter", "from", "state")


@app.callback(epilog="Example: circadia hooks")
def hooks(server: RemoteServer) -> Output:
    """List the inbound webhooks: who signs them, and which agent gets their messages."""
    listed = server.ask(lambda client: client.list_hooks())
    nothing = "there is no hook; make one with `circadia hooks set HOOK agent=AGENT signature=github secret_env=NAME`"
    return list_output(listed, listed, _COLUMNS, _row, nothing=nothing)


@app.command(epilog="Example: circadia hooks show github")
def show(server: RemoteServer, hook: HookName) -> Output:
    """Show a hook with all its keys."""
    found = server.ask(lambda client: client.show_hook(hook))
    keys = found.model_dump(mode="json")
    return Output(found, "\n".join(f"{key}: {value}" for key, value in keys.items() if value not in (None, "", {})))


@app.command(
    "set", epilog="Example: circadia hooks set github agent=triage signature=github secret_env=GITHUB_HOOK_SECRET"
)
def set_hook(
    server: RemoteServer,
    hook: HookName,
    keys: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE...", help="Keys of the hook, with values as in the configuration file."),
    ],
) -> Output:
    """Create or replace a hook. Keys that you leave out get their defaults."""
    stored = server.ask(lambda client: client.set_hook(hook, settings_of(keys)))
    text = f"{stored.name}: the sender posts to {stored.path}, for {stored.agent or f'the event {stored.event}'}"
    return Output(stored, f"{text}; the secret is in {stored.secret_env} at the server")


@app.command(epilog="Example: circadia hooks delete github")
def delete(server: RemoteServer, hook: HookName) -> Output:
    """Delete a hook; its sender gets 404 from then on."""
    server.ask(lambda client: client.delete_hook(hook))
    return Output({"deleted": hook}, f"hook {hook} is deleted")


@app.command(epilog="Example: circadia hooks deliveries github")
def deliveries(server: RemoteServer, hook: HookName, limit: Limit = 50) -> Output:
    """List the last deliveries that a hook accepted, newest first. Filtered and refused ones leave no row."""
    rows = server.ask(lambda client: client.list_hook_deliveries(hook, limit=min(limit, 1_000)))
    columns = ("delivery", "accepted", "message", "wake")
    return list_output(rows, rows, columns, _delivery_row, nothing="this hook has accepted nothing")


def _row(hook: HookView) -> tuple[object, ...]:
    effect = f"{hook.priority} message" if hook.wake is None else f"wake: {hook.wake}"
    if hook.event is not None:
        effect = f"event {hook.event}" if hook.agent is None else f"{effect}, event {hook.event}"
    place, state = "file" if hook.in_file else hook.created_by, "on" if hook.enabled else "off"
    conditions = len(hook.filter) or "none"
    return (hook.name, hook.agent or "", hook.signature, hook.secret_env, effect, conditions, place, state)


def _delivery_row(row: HookDeliveryView) -> tuple[object, ...]:
    return (row.delivery, local_time(row.at), row.message or "", row.wake or "")
