"""`circadia episodes`: the raw things that happened."""

import math
import sys
from typing import Annotated, Final

import typer
from rich.text import Text

from circadia.cli.arguments import Bank, BankToList, User, read_json_object
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, console, display_text, list_output, local_time, shorten, table
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind
from circadia.schemas.banks import EpisodeView, ForgottenEpisodeView

app = typer.Typer(cls=NounGroup)

LETTERS: Final = 100
TRUSTS: Final = {"person": "", "agent": "dim", "tool": "yellow", "external": "red"}

Conversation = Annotated[
    str | None, typer.Option("--conversation", metavar="NAME", help="Conversation of the episode.")
]
Speaker = Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Speaker of the text.")]


def text_or_stdin(text: str) -> str:
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if text == "-" else text


@app.command(epilog="Example: circadia episodes add team 'The release is on Friday.' --speaker ann")
def add(
    server: RemoteServer,
    bank: Bank,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text to remember; `-` reads standard input.")],
    speaker: Speaker = None,
    conversation: Conversation = None,
    kind: Annotated[EpisodeKind, typer.Option("--kind", help="Episode kind.")] = EpisodeKind.FACT,
    trust: Annotated[
        Trust | None, typer.Option("--trust", help="Source; by default `person` for the operator, else `agent`.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="WHEN", help="Time of the episode, with time zone; defaults to now.")
    ] = None,
    importance: Annotated[float | None, typer.Option("--importance", metavar="N", help="From 0 to 1.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Idempotency key: stores a repeat only once.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Further data, such as tags: a JSON object.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="When to forget it, with time zone.")
    ] = None,
    user: User = None,
) -> Output:
    """Store an episode. It is on disk when the command ends, and no model is called."""
    content = text_or_stdin(text)
    stored = server.ask(
        lambda client: client.remember(
            bank, content, speaker=speaker, conversation=conversation, kind=kind.value, trust=trust and trust.value,
            at=at, importance=importance, key=key, expires_at=expires, user=user,
            metadata=read_json_object("--metadata", metadata),
        )
    )  # fmt: skip
    text = f"{stored.id} {'is stored' if stored.new else 'was there already'} in {stored.bank}"
    return Output(stored, text)


@app.callback(epilog="Example: circadia episodes team --limit 5")
def episodes(
    server: RemoteServer,
    bank: BankToList,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="NAME", help="Only this conversation.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, metavar="N", help="Maximum number of rows.")] = 20,
    user: User = None,
) -> Output:
    """List the episodes of a bank, newest first."""
    page = server.ask(
        lambda client: client.list_episodes(bank, conversation=conversation, order="newest", limit=limit, user=user)
    )
    columns = ("episode", "when", "speaker", "kind", "trust", "conversation", "text")
    return list_output(page, page.episodes, columns, _row, nothing="no episode")


@app.command(epilog="Example: circadia episodes show team epi_0cwd4f7k2m")
def show(
    server: RemoteServer,
    bank: Bank,
    episode: Annotated[str, typer.Argument(metavar="EPISODE", help="Episode ID.")],
    user: User = None,
) -> Output:
    """Show an episode with all its fields."""
    return Output(server.ask(lambda client: client.show_episode(bank, episode, user=user)), _show_episode)


@app.command(epilog="Example: circadia episodes forgotten support --user ann")
def forgotten(server: RemoteServer, bank: Bank, user: User = None) -> Output:
    """List what agents have forgotten for their end users and you can restore, the last first."""
    page = server.ask(lambda client: client.list_forgotten(bank, user=user))
    columns = ("episode", "forgotten", "by", "restorable until", "speaker", "conversation", "text")
    return list_output(page, page.episodes, columns, _forgotten_row, nothing="no forgotten episode")


@app.command(epilog="Example: circadia episodes restore team epi_0cwd4f7k2m")
def restore(
    server: RemoteServer,
    bank: Bank,
    episode: Annotated[str, typer.Argument(metavar="EPISODE", help="Episode ID.")],
    user: User = None,
) -> Output:
    """Restore an episode that an agent has forgotten; the next pass reads it again."""
    restored = server.ask(lambda client: client.restore_forgotten(bank, episode, user=user))
    return Output(restored, f"{restored.id} is in {restored.bank} again; the next pass reads it again")


def _forgotten_row(each: ForgottenEpisodeView) -> tuple[object, ...]:
    times = local_time(each.forgotten_at), each.by, local_time(each.restorable_until)
    return (each.id, *times, each.speaker, each.conversation, shorten(each.text, LETTERS))


def _row(each: EpisodeView) -> tuple[object, ...]:
    weak = f" (stale × {math.prod(mark.weight for mark in each.stale):.2g})" if each.stale else ""
    trust = Text(each.trust, TRUSTS[each.trust])
    text = shorten(each.text, LETTERS) + weak
    return (each.id, local_time(each.at), each.speaker, each.kind, trust, each.conversation, text)


def _show_episode(episode: EpisodeView) -> None:
    out = console()
    lines = [
        (Text(name, "dim"), value)
        for name, value in episode.model_dump(mode="json").items()
        if name not in ("text", "stale")
    ]
    out.print(table(("", ""), lines, numbers=()))
    for mark in episode.stale:
        out.print(
            Text(display_text(f"stale × {mark.weight:g} by {mark.by}: {mark.reason} ({mark.evidence})"), "yellow")
        )
    out.print()
    out.print(Text(display_text(episode.text)))
