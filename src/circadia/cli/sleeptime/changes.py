"""`circadia passes diff`: the changes of a pass."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from circadia.cli.remote.bank import User
from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.output import AsJson, console, display_text, note, print_json
from circadia.client import Client
from circadia.errors import NotFound
from circadia.records.change import ChangeState
from circadia.schemas.passes import ChangeView

app = typer.Typer()

PassOrBank = Annotated[
    str, typer.Argument(metavar="PASS", help="Pass ID, or a bank or template name for its newest pass.")
]

_LINES: Final = {"+": "green", "-": "red", "@": "cyan"}
_SIGNS: Final = {
    "add_note": ("+", "green", "note"), "retire_note": ("-", "red", "note"),
    "demote_episode": ("~", "yellow", "episode"), "write_block": ("~", "cyan", "block"),
    "flag": ("!", "magenta", "flag"),
}  # fmt: skip


@app.command(epilog="Example: circadia passes diff team")
def diff(
    server: RemoteServer,
    run: PassOrBank,
    state: Annotated[ChangeState | None, typer.Option("--state", help="Only changes in this state.")] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show what a pass changed or proposes: notes and blocks before and after, with the reason."""
    stands = None if state is None else state.value

    async def fetch_changes(client: Client) -> list[ChangeView]:
        return await fetch_all_changes(client, await resolve_pass_key(client, run, user), stands)

    changes = server.ask(fetch_changes)
    if as_json:
        print_json({"changes": changes})
    elif changes:
        print_changes(changes)
    else:
        note("no change")


async def resolve_pass_key(client: Client, run: str, user: str | None) -> str:
    """Return the given id, or the id of the newest pass over the given bank. Raises NotFound if it has none."""
    if run.startswith("pas_"):
        return run
    newest = (await client.list_passes(run, limit=1, user=user)).passes
    if not newest:
        raise NotFound(f"there was no pass over {run!r} yet")
    return newest[0].id


async def fetch_all_changes(client: Client, run: str, state: str | None = None) -> list[ChangeView]:
    changes: list[ChangeView] = []
    after: int | None = 0
    while after is not None:
        page = await client.list_changes(run, state=state, after=after)
        changes += page.changes
        after = page.after
    return changes


def print_changes(changes: Sequence[ChangeView]) -> None:
    out = console()
    for change in changes:
        for line in _lines(change):
            out.print(line)


def _lines(each: ChangeView) -> Iterator[Text]:
    sign, colour, noun = _SIGNS.get(each.kind, ("?", "", each.kind))
    dim = "dim " if each.state in ("refused", "undone") else ""
    head = f"{sign} {noun} {each.target}"
    labels = {"published": f"{each.number}", "staged": f"staged {each.number}"}  # for --change
    state = f" [{labels.get(each.state, each.state)}]"
    yield Text.assemble((display_text(head), f"{dim}bold {colour}"), (f"{state} {each.operation}", "dim"))
    before, after = each.before or {}, each.after or {}
    match each.kind:
        case "write_block":
            for line in _unified(str(before.get("value", "")), str(after.get("value", ""))):
                yield Text(f"    {display_text(line)}", f"{dim}{_LINES.get(line[:1], '')}")
        case "add_note" | "flag":
            yield from _indented(after.get("text"), "+", f"{dim}{colour}")
        case "retire_note":
            yield from _indented(before.get("text"), "-", f"{dim}{colour}")
        case "demote_episode":
            yield Text(
                f"    counts × {after.get('weight')}, shown by {display_text(after.get('evidence'))}", f"{dim}{colour}"
            )
        case _:
            pass
    if after.get("evidence") and each.kind == "add_note":
        yield Text(f"    from {display_text(after['evidence'])}", "dim")
    if each.why:
        yield Text(f"    {'refused: ' if each.state == 'refused' else ''}{display_text(each.why)}", "dim italic")


def _indented(text: Any, sign: str, style: str) -> Iterator[Text]:
    for line in display_text(text or "").split("\n"):
        yield Text(f"    {sign}{line}", style)


def _unified(before: str, after: str) -> Iterator[str]:
    old = before.split("\n") if before else []
    new = after.split("\n") if after else []
    lines = difflib.unified_diff(old, new, lineterm="")
    return (line for line in lines if line[:4] not in ("--- ", "+++ "))
