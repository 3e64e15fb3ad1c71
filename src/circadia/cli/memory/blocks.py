"""`circadia blocks`: labelled pieces of the learned context, with their versions."""

import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from circadia.cli.remote.bank import Bank, BankToList, User
from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    AsJson,
    console,
    display_text,
    local_time,
    note,
    print_json,
    print_list,
    print_result,
)
from circadia.errors import InvalidRequest, NotFound
from circadia.schemas.banks import BlockView

app = typer.Typer(cls=NounGroup)

Label = Annotated[str, typer.Argument(metavar="LABEL", help="Block label.")]
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


@app.callback(epilog="Example: circadia blocks team")
def blocks(server: RemoteServer, bank: BankToList, user: User = None, as_json: AsJson = False) -> None:
    """List the blocks of a bank: what its agents have learned and see in their context."""
    rows = server.ask(lambda client: client.list_blocks(bank, user=user))
    columns = ("block", "version", "characters", "flags", "by", "when", "text")
    nothing = "no block; `circadia blocks write BANK LABEL TEXT` writes one"
    print_list(rows, rows, columns, _row, as_json=as_json, nothing=nothing, numbers=("version", "characters"))


def _row(each: BlockView) -> tuple[object, ...]:
    flags = [name for name in ("pinned", "read_only") if getattr(each, name)]
    size = f"{len(each.value)}/{each.limit}"
    return (each.label, each.version, size, flags, each.by, local_time(each.at), each.value)


@app.command(epilog="Example: circadia blocks write team human 'Ann lives in Porto.' --expected-version 3")
def write(
    server: RemoteServer,
    bank: Bank,
    label: Label,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="New text; `-` reads standard input; else unchanged.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Read the text from this file.")] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="Purpose of the block, shown to its writers.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Maximum number of characters.")
    ] = None,
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--no-pinned", help="Always in the context, or only where it fits.")
    ] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only/--no-read-only", help="Let only people write the block.")
    ] = None,
    expected_version: Annotated[
        int | None,
        typer.Option("--expected-version", min=0, metavar="N", help="Required current version; 0 for a new block."),
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason for the change.")] = "",
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Write a new version of a block, or its first. Whatever you omit stays as it was."""
    value = _value(text, file)
    written = server.ask(
        lambda client: client.write_block(
            bank, label, value, description=description, limit=limit, pinned=pinned, read_only=read_only,
            expected_version=expected_version, why=why, user=user,
        )
    )  # fmt: skip
    text = f"block {written.label} of {written.bank} is at version {written.version}"
    print_result(written, text, as_json=as_json)


def _value(text: str | None, file: Path | None) -> str | None:
    if file is None:
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if text == "-" else text
    if text is not None:
        raise InvalidRequest("give either the text or --file, not both")
    try:
        return file.expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {str(file)!r} as text: {error}") from error


@app.command(epilog="Example: circadia blocks history team human")
def history(server: RemoteServer, bank: Bank, label: Label, user: User = None, as_json: AsJson = False) -> None:
    """List all versions of a block, oldest first."""
    versions = server.ask(lambda client: client.list_versions(bank, label, user=user))
    columns = ("version", "from", "when", "by", "why", "text")
    numbers = ("version", "from")
    print_list(versions, versions, columns, _version_row, as_json=as_json, nothing="no version", numbers=numbers)


def _version_row(each: BlockView) -> tuple[object, ...]:
    text = Text("deleted", "red") if each.deleted else each.value
    return each.version, each.parent, local_time(each.at), each.by, each.why, text


@app.command(epilog="Example: circadia blocks diff team human 2 5")
def diff(
    server: RemoteServer,
    bank: Bank,
    label: Label,
    old: Annotated[
        int | None, typer.Argument(metavar="[OLD]", help="Old version; defaults to the one that NEW was made from.")
    ] = None,
    new: Annotated[
        int | None, typer.Argument(metavar="[NEW]", help="New version; defaults to the current one.")
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show the difference between two versions of a block as a unified diff."""
    all_versions = server.ask(lambda client: client.list_versions(bank, label, user=user))
    after = all_versions[-1] if new is None else _version(all_versions, new)
    before = (
        _version(all_versions, old)
        if old is not None
        else _version(all_versions, after.parent)
        if after.parent
        else None
    )
    lines = list(_lines(before, after))
    if as_json:
        versions = {"old": before and before.version, "new": after.version}
        print_json({"bank": bank, "label": label, **versions, "diff": lines})
    elif lines:
        for line in lines:
            console().print(
                Text(display_text(line), "bold" if line[:3] in ("+++", "---") else _COLOURS.get(line[:1], ""))
            )
    else:
        note("the texts are the same")


def _version(versions: Sequence[BlockView], number: int) -> BlockView:
    for version in versions:
        if version.version == number:
            return version
    raise NotFound(f"block {versions[0].label!r} has no version {number}; it has 1 to {versions[-1].version}")


def _lines(before: BlockView | None, after: BlockView) -> Iterable[str]:
    label = after.label
    name = "nothing" if before is None else f"{label} {before.version}"
    old = [] if before is None else before.value.split("\n")
    return difflib.unified_diff(old, after.value.split("\n"), name, f"{label} {after.version}", lineterm="")


@app.command(epilog="Example: circadia blocks undo team human")
def undo(
    server: RemoteServer,
    bank: Bank,
    label: Label,
    to: Annotated[
        int | None, typer.Option("--to", min=1, metavar="N", help="Version to restore; defaults to the previous one.")
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Restore an earlier version of a block. The undone version stays in the history."""
    written = server.ask(lambda client: client.undo_block(bank, label, to=to, user=user))
    text = f"block {written.label} of {written.bank} is at version {written.version}: {written.why}"
    print_result(written, text, as_json=as_json)
