"""`circadia banks`: memory banks, and what is done to a whole one."""

from collections.abc import Mapping
from typing import Annotated

import typer

from circadia.cli.memory import search, transfer
from circadia.cli.remote.bank import Bank, User
from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import Limit, gather_pages
from circadia.cli.terminal.confirmation import Yes, confirm, require_person
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import AsJson, display_text, note, print_list, print_result, time_since
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.records.bank import CaptureMode
from circadia.records.conversation import display_alias
from circadia.schemas.banks import BankList, BankView, ForgottenView

app = typer.Typer(cls=NounGroup)
app.add_typer(search.app)
app.add_typer(transfer.app)


@app.callback(epilog="Example: circadia banks --template 'support-{user}'")
def banks(
    server: RemoteServer,
    template: Annotated[
        str | None, typer.Option("--template", metavar="NAME", help="Only banks made from this template.")
    ] = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
) -> None:
    """List memory banks by name, with their size and policy."""

    async def fetch_banks(client: Client) -> BankList:
        return await gather_pages(
            lambda place, count: client.list_banks(template=template, after=place, limit=count),
            key="banks",
            limit=limit,
            cursor="after",
        )

    page = server.ask(fetch_banks)
    columns = ("bank", "episodes", "end user", "captures", "hot edits", "skipped", "last written", "for")
    nothing = "no bank; create one with `circadia banks add BANK`, or bind an agent to one"
    more = page.after is not None
    print_list(page, page.banks, columns, _row, as_json=as_json, nothing=nothing, numbers=("episodes",), more=more)


def _row(bank: BankView) -> tuple[object, ...]:
    return (
        bank.name,
        bank.episodes,
        bank.end_user and display_alias(bank.end_user),
        bank.policy.capture_mode,
        "yes" if bank.policy.hot_edits else "no",
        format_skips(bank.skipped),
        "never" if bank.written_at is None else f"{time_since(bank.written_at, SystemClock().now())} ago",
        bank.description,
    )


@app.command(epilog="Example: circadia banks add team --hot-edits")
def add(
    server: RemoteServer,
    bank: Bank,
    description: Annotated[str, typer.Option("--description", metavar="TEXT", help="Purpose of the bank.")] = "",
    capture_mode: Annotated[
        CaptureMode, typer.Option("--capture-mode", help="What to keep of conversations that pass the gateway.")
    ] = CaptureMode.CONTENT,
    hot_edits: Annotated[
        bool, typer.Option("--hot-edits", help="Let agents write blocks while somebody waits.")
    ] = False,
    keep_days: Annotated[
        float | None, typer.Option("--keep-days", metavar="N", help="Delete episodes after N days; else never.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a bank. A bank that an agent is bound to is created by itself."""
    policy = {"capture_mode": capture_mode.value, "hot_edits": hot_edits, "keep_days": keep_days}
    created = server.ask(lambda client: client.create_bank(bank, description=description, policy=policy))
    text = f"created bank {created.name}; bind an agent to it with `bank: {created.name}` in its policy"
    print_result(created, text, as_json=as_json)


@app.command(epilog="Example: circadia banks delete 'support-{user}' --user ann")
def delete(server: RemoteServer, bank: Bank, user: User = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a bank with all its episodes, notes, vectors, and blocks with their versions."""
    if not yes:
        require_person(as_json)
        details = server.ask(lambda client: client.show_bank(bank, user=user))
        confirm(f"This would delete bank {display_text(details.name)} with {details.episodes} episodes.", "Delete it?")
    server.ask(lambda client: client.delete_bank(bank, user=user))
    deleted = {"deleted": {"bank": bank, "user": user}}
    print_result(deleted, f"deleted bank {bank}" + (f" of {user}" if user else ""), as_json=as_json)


@app.command(epilog="Example: circadia banks forget support --speaker ann")
def forget(
    server: RemoteServer,
    bank: Bank,
    episodes: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Episode or note to delete; may be repeated.")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="NAME", help="Only episodes of this conversation.")
    ] = None,
    speaker: Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Only this speaker.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="WHEN", help="At or after this date or time.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Before this date or time.")] = None,
    user: User = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete the episodes that match all options, with everything derived from them. Shows what would go first."""

    async def forget_episodes(client: Client, *, dry_run: bool) -> ForgottenView:
        return await client.forget_episodes(
            bank, ids=episodes or None, conversation=conversation, speaker=speaker, since=since, until=until,
            dry_run=dry_run, user=user,
        )  # fmt: skip

    if not yes:
        require_person(as_json)
        would = server.ask(lambda client: forget_episodes(client, dry_run=True))
        if not would.episodes:
            note("nothing to forget")
            return
        confirm(f"This would delete {_describe_forgotten(would)}.", "Forget them?")
    counts = server.ask(lambda client: forget_episodes(client, dry_run=False))
    print_result(counts, f"deleted {_describe_forgotten(counts)}", as_json=as_json)


def format_skips(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {why}" for why, number in sorted(counts.items())) or "0"


def _describe_forgotten(gone: ForgottenView) -> str:
    return (
        f"{gone.episodes} episodes of {display_text(gone.bank)}, {gone.notes} notes, "
        f"parts of {gone.versions} "
        "versions of blocks"
    )
