"""`circadia memory banks`, `create`, `delete` and `forget`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import gather_pages
from circadia.cli.terminal.confirmation import Yes, confirm, require_person
from circadia.cli.terminal.output import AsJson, console, display_text, note, print_json, table, time_since
from circadia.client import Client
from circadia.client.memory_answers import BankAnswer, ForgottenAnswer
from circadia.clock import SystemClock
from circadia.records.bank import Capture
from circadia.records.end_user import display_alias

app = typer.Typer()

Bank = Annotated[str, typer.Argument(metavar="BANK", help="Name of the bank.")]
"""The bank that a command is about."""
User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="Whose bank, where BANK is a template: support-{user}.")
]
"""The end user whose bank a template means."""


@app.command(epilog="Example: circadia memory banks --template 'support-{user}'")
def banks(
    server: RemoteServer,
    template: Annotated[
        str | None, typer.Option("--template", metavar="NAME", help="Made from this template only.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="So many at most.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """List banks by name, with what each holds."""

    async def fetch_banks(client: Client) -> dict[str, Any]:
        return await gather_pages(
            lambda place, count: client.list_banks(template=template, after=place, limit=count),
            key="banks",
            limit=limit,
            cursor="after",
        )

    found = server.ask(fetch_banks)
    if as_json:
        print_json(found)
        return
    rows: list[BankAnswer] = found["banks"]
    if not rows:
        note("no bank; `circadia memory create NAME` makes one, and so does an agent that is bound to one")
        return
    now = SystemClock().now()
    columns = ("bank", "episodes", "end user", "captures", "hot edits", "skipped", "last written", "for")
    lines = [
        (
            each["name"],
            each["episodes"],
            each["end_user"] and display_alias(each["end_user"]),
            each["policy"]["capture"],
            "yes" if each["policy"]["hot_edits"] else "no",
            format_skips(each["skipped"]),
            "never" if each["written_at"] is None else f"{time_since(each['written_at'], now)} ago",
            each["description"],
        )
        for each in rows
    ]
    console().print(table(columns, lines, numbers=("episodes",)))
    if found["after"] is not None:
        note(f"more than {limit}; --limit shows them")


@app.command(epilog="Example: circadia memory create team --hot-edits")
def create(
    server: RemoteServer,
    bank: Bank,
    description: Annotated[str, typer.Option("--description", metavar="TEXT", help="What it is for.")] = "",
    capture: Annotated[
        Capture, typer.Option("--capture", help="What of the conversations that pass the gateway is kept.")
    ] = Capture.CONTENT,
    hot_edits: Annotated[
        bool, typer.Option("--hot-edits", help="Let agents write blocks while somebody waits.")
    ] = False,
    keep_days: Annotated[
        float | None, typer.Option("--keep-days", metavar="N", help="Delete episodes that are older; else never.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a bank. One that an agent is bound to makes itself."""
    policy = {"capture": capture.value, "hot_edits": hot_edits, "keep_days": keep_days}
    made = server.ask(lambda client: client.create_bank(bank, description=description, policy=policy))
    if as_json:
        print_json(made)
    else:
        note(f"bank {made['name']} is there; bind an agent to it with `bank: {made['name']}` in its policy")


@app.command(epilog="Example: circadia memory delete 'support-{user}' --user ann")
def delete(server: RemoteServer, bank: Bank, user: User = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a bank with all that it holds: episodes, notes, blocks with their versions, vectors."""
    if not yes:
        require_person(as_json)
        found = server.ask(lambda client: client.show_bank(bank, user=user))
        confirm(f"would go: bank {display_text(found['name'])} with {found['episodes']} episodes", "Delete it?")
    server.ask(lambda client: client.delete_bank(bank, user=user))
    if as_json:
        print_json({"deleted": {"bank": bank, "user": user}})
    else:
        note(f"deleted bank {display_text(bank)}" + (f" of {display_text(user)}" if user else ""))


@app.command(epilog="Example: circadia memory forget support --speaker ann")
def forget(
    server: RemoteServer,
    bank: Bank,
    episodes: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="This episode or note; may be repeated.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="NAME", help="Episodes of this conversation.")
    ] = None,
    speaker: Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Said by them.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Happened at or after this date or time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHEN", help="Happened before this date or time.")
    ] = None,
    user: User = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete episodes that meet all that is given, with all that rests on them; it tells first what would go."""

    async def forget_episodes(client: Client, *, dry_run: bool) -> ForgottenAnswer:
        return await client.forget_episodes(
            bank, ids=episodes or None, session=session, speaker=speaker, since=since, until=until, dry_run=dry_run,
            user=user,
        )  # fmt: skip

    if not yes:
        require_person(as_json)
        would = server.ask(lambda client: forget_episodes(client, dry_run=True))
        if not would["episodes"]:
            note("nothing to forget")
            return
        confirm(f"would go: {_describe_forgotten(would)}", "Forget them?")
    gone = server.ask(lambda client: forget_episodes(client, dry_run=False))
    if as_json:
        print_json(gone)
    else:
        note(f"gone: {_describe_forgotten(gone)}")


def format_skips(counts: Mapping[str, int]) -> str:
    """Return how many turns were left out, by why."""
    return ", ".join(f"{number} {why}" for why, number in sorted(counts.items())) or "0"


def _describe_forgotten(gone: ForgottenAnswer) -> str:
    return (
        f"{gone['episodes']} episodes of {display_text(gone['bank'])}, {gone['notes']} notes, "
        f"parts of {gone['versions']} "
        "versions of blocks"
    )
