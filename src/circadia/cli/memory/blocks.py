"""`circadia memory blocks`, `block set`, `history`, `diff`, `undo` and `context`."""

import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from circadia.cli.memory.banks import Bank, User
from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.output import AsJson, console, display_text, local_time, note, print_json, table
from circadia.client.memory_answers import BlockAnswer
from circadia.errors import InvalidRequest, NotFound

app = typer.Typer()
block = typer.Typer(no_args_is_help=True, help="Write blocks.")
app.add_typer(block, name="block")

Label = Annotated[str, typer.Argument(metavar="LABEL", help="Name of the block.")]
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


@app.command(epilog="Example: circadia memory blocks team")
def blocks(server: RemoteServer, bank: Bank, user: User = None, as_json: AsJson = False) -> None:
    """Show the blocks of a bank: what its agents have learned, and always or sometimes see."""
    found = server.ask(lambda client: client.list_blocks(bank, user=user))
    if as_json:
        print_json(found)
        return
    if not found:
        note("no block; `circadia memory block set BANK LABEL TEXT` writes one")
        return
    columns = ("block", "version", "characters", "flags", "by", "when", "text")
    console().print(table(columns, [_row(each) for each in found], numbers=("version", "characters")))


def _row(each: BlockAnswer) -> tuple[object, ...]:
    flags = [name for name in ("pinned", "read_only") if each[name]]
    size = f"{len(each['value'])}/{each['limit']}"
    return (each["label"], each["version"], size, flags, each["by"], local_time(each["at"]), each["value"])


@block.command("set", epilog="Example: circadia memory block set team human 'Ann lives in Porto.' --expected-version 3")
def set_block(
    server: RemoteServer,
    bank: Bank,
    label: Label,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The text; `-` reads standard input; else it stays.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Read the text from this file.")] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What it is for; whoever writes it reads this.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Characters that it may have.")
    ] = None,
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--no-pinned", help="Always in the context, or only where it fits.")
    ] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only/--no-read-only", help="Only people may write it.")
    ] = None,
    expected_version: Annotated[
        int | None,
        typer.Option("--expected-version", min=0, metavar="N", help="Write only if this is the version; 0 for none."),
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="What for.")] = "",
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Write a version of a block, the first one too; what is not given stays as it was."""
    value = _value(text, file)
    made = server.ask(
        lambda client: client.write_block(
            bank, label, value, description=description, limit=limit, pinned=pinned, read_only=read_only,
            expected_version=expected_version, why=why, user=user,
        )
    )  # fmt: skip
    if as_json:
        print_json(made)
    else:
        note(f"block {made['label']} of {made['bank']} is at version {made['version']}")


def _value(text: str | None, file: Path | None) -> str | None:
    if file is None:
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if text == "-" else text
    if text is not None:
        raise InvalidRequest("give the text or --file, not both")
    try:
        return file.expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {str(file)!r} as text: {error}") from error


@app.command(epilog="Example: circadia memory history team human")
def history(server: RemoteServer, bank: Bank, label: Label, user: User = None, as_json: AsJson = False) -> None:
    """List all versions of a block, oldest first."""
    found = server.ask(lambda client: client.list_versions(bank, label, user=user))
    if as_json:
        print_json(found)
        return
    columns = ("version", "from", "when", "by", "why", "text")
    rows = [
        (
            each["version"],
            each["parent"],
            local_time(each["at"]),
            each["by"],
            each["why"],
            Text("deleted", "red") if each["deleted"] else each["value"],
        )
        for each in found
    ]
    console().print(table(columns, rows, numbers=("version", "from")))


@app.command(epilog="Example: circadia memory diff team human 2 5")
def diff(
    server: RemoteServer,
    bank: Bank,
    label: Label,
    old: Annotated[
        int | None, typer.Argument(metavar="[OLD]", help="This version; by default the one that the new was made from.")
    ] = None,
    new: Annotated[
        int | None, typer.Argument(metavar="[NEW]", help="With this one; by default the present one.")
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show what is different between two versions of a block, as a unified diff."""
    found = server.ask(lambda client: client.list_versions(bank, label, user=user))
    after = found[-1] if new is None else _version(found, new)
    before = _version(found, old) if old is not None else _version(found, after["parent"]) if after["parent"] else None
    lines = list(_lines(before, after))
    if as_json:
        versions = {"old": before and before["version"], "new": after["version"]}
        print_json({"bank": bank, "label": label, **versions, "diff": lines})
    elif lines:
        for line in lines:
            console().print(
                Text(display_text(line), "bold" if line[:3] in ("+++", "---") else _COLOURS.get(line[:1], ""))
            )
    else:
        note("the texts are the same")


def _version(found: Sequence[BlockAnswer], number: int) -> BlockAnswer:
    for each in found:
        if each["version"] == number:
            return each
    raise NotFound(f"block {found[0]['label']!r} has no version {number}; it has 1 to {found[-1]['version']}")


def _lines(before: BlockAnswer | None, after: BlockAnswer) -> Iterable[str]:
    label = after["label"]
    name = "nothing" if before is None else f"{label} {before['version']}"
    old = [] if before is None else before["value"].split("\n")
    return difflib.unified_diff(old, after["value"].split("\n"), name, f"{label} {after['version']}", lineterm="")


@app.command(epilog="Example: circadia memory undo team human")
def undo(
    server: RemoteServer,
    bank: Bank,
    label: Label,
    to: Annotated[
        int | None, typer.Option("--to", min=1, metavar="N", help="Back to this version; else to the one before.")
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier version of a block the present one again; what was undone stays in the history."""
    made = server.ask(lambda client: client.undo_block(bank, label, to=to, user=user))
    if as_json:
        print_json(made)
    else:
        note(f"block {made['label']} of {made['bank']} is at version {made['version']}: {made['why']}")


@app.command(epilog="Example: circadia memory context team 'when is the release'")
def context(
    server: RemoteServer,
    bank: Bank,
    question: Annotated[
        str | None, typer.Argument(metavar="[QUESTION]", help="What is asked; without it, blocks only.")
    ] = None,
    stable_tokens: Annotated[
        int | None, typer.Option("--stable-tokens", min=0, metavar="N", help="Tokens for blocks that are pinned.")
    ] = None,
    fitting_tokens: Annotated[
        int | None, typer.Option("--fitting-tokens", min=0, metavar="N", help="Tokens for what fits the question.")
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show what a bank says in a prompt: the stable part, and what fits a question."""
    made = server.ask(
        lambda client: client.show_context(
            bank, question, stable_tokens=stable_tokens, fitting_tokens=fitting_tokens, user=user
        )
    )  # fmt: skip
    if as_json:
        print_json(made)
        return
    out = console()
    for title, text in (("for the system side", made["stable"]), ("for the last user turn", made["fitting"])):
        out.print(Text(f"── {title} ──", "bold cyan"))
        out.print(Text(display_text(text)) if text else Text("nothing", "dim"))
    if made["left_out"]:
        note(f"no room for the blocks {', '.join(made['left_out'])}; --stable-tokens gives more")
