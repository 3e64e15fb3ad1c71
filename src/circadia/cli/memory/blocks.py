"""`circadia blocks`: labelled pieces of the learned context, with their versions."""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from circadia.cli.arguments import Bank, BankToList, User
from circadia.cli.connection import RemoteServer
from circadia.cli.memory.episodes import text_or_stdin
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, console, display_text, list_output, local_time, note
from circadia.errors import InvalidRequest, NotFound
from circadia.schemas.banks import BlockView

app = typer.Typer(cls=NounGroup)

Label = Annotated[str, typer.Argument(metavar="LABEL", help="Block label.")]
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


@app.callback(epilog="Example: circadia blocks team")
def blocks(server: RemoteServer, bank: BankToList, user: User = None) -> Output:
    """List the blocks of a bank: what its agents have learned and see in their context."""
    rows = server.ask(lambda client: client.list_blocks(bank, user=user))
    columns = ("block", "version", "characters", "flags", "by", "when", "text")
    nothing = "no block; `circadia blocks write BANK LABEL TEXT` writes one"
    return list_output(rows, rows, columns, _row, nothing=nothing, numbers=("version", "characters"))


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
) -> Output:
    """Write a new version of a block, or its first. Whatever you omit stays as it was."""
    value = _value(text, file)
    written = server.ask(
        lambda client: client.write_block(
            bank, label, value, description=description, limit=limit, pinned=pinned, read_only=read_only,
            expected_version=expected_version, why=why, user=user,
        )
    )  # fmt: skip
    return Output(written, f"block {written.label} of {written.bank} is at version {written.version}")


def _value(text: str | None, file: Path | None) -> str | None:
    if file is None:
        return None if text is None else text_or_stdin(text)
    if text is not None:
        raise InvalidRequest("give either the text or --file, not both")
    try:
        return file.expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {str(file)!r} as text: {error}") from error


@app.command(epilog="Example: circadia blocks history team human")
def history(server: RemoteServer, bank: Bank, label: Label, user: User = None) -> Output:
    """List all versions of a block, oldest first."""
    versions = server.ask(lambda client: client.list_versions(bank, label, user=user))
    columns = ("version", "from", "when", "by", "why", "text")
    return list_output(versions, versions, columns, _version_row, nothing="no version", numbers=columns[:2])


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
) -> Output:
    """Show the difference between two versions of a block as a unified diff."""
    all_versions = server.ask(lambda client: client.list_versions(bank, label, user=user))
    after = all_versions[-1] if new is None else _version(all_versions, new)
    earlier = after.parent or None if old is None else old
    before = None if earlier is None else _version(all_versions, earlier)
    lines = list(_lines(before, after))

    def show(_: object) -> None:
        if not lines:
            note("the texts are the same")
        for line in lines:
            style = "bold" if line[:3] in ("+++", "---") else _COLOURS.get(line[:1], "")
            console().print(Text(display_text(line), style))

    versions = {"old": before and before.version, "new": after.version}
    return Output({"bank": bank, "label": label, **versions, "diff": lines}, show)


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
) -> Output:
    """Restore an earlier version of a block. The undone version stays in the history."""
    written = server.ask(lambda client: client.undo_block(bank, label, to=to, user=user))
    return Output(written, f"block {written.label} of {written.bank} is at version {written.version}: {written.why}")
