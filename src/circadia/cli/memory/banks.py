"""`circadia banks`: memory banks, what one knows and how it knows it, and what is done to a whole one."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer
from rich.text import Text

from circadia.cli.arguments import Bank, Limit, User, Yes, read_json_object
from circadia.cli.connection import RemoteServer
from circadia.cli.memory import transfer
from circadia.cli.memory.episodes import LETTERS, TRUSTS
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    AsJson,
    Output,
    confirm,
    console,
    display_text,
    list_output,
    local_time,
    note,
    require_person,
    shorten,
    table,
    time_since,
)
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.records.bank import CaptureMode, Trust
from circadia.records.conversation import display_alias
from circadia.records.index_entry import Layer
from circadia.records.note import NoteState
from circadia.schemas.banks import BankView, ContextView, ForgottenView, HitList, HitView
from circadia.schemas.passes import NoteDetail, NoteView

app = typer.Typer(cls=NounGroup)
app.add_typer(transfer.app)

BAR: Final = 16
"""Length of the best hit's bar, in characters."""
COLOURS: Final = {
    "words": "green", "meaning": "cyan", "window": "blue", "answer": "bright_blue", "statement": "white",
    "speaker": "magenta", "standout": "bright_cyan", "days": "bright_yellow", "recency": "yellow", "importance": "red",
}  # fmt: skip

SaidBy = Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Only this speaker.")]
Within = Annotated[str | None, typer.Option("--conversation", metavar="NAME", help="Only this conversation.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Of this kind only; may be repeated.")]
Trusts = Annotated[list[Trust] | None, typer.Option("--trust", help="Only this source; may be repeated.")]
Where = Annotated[
    str | None, typer.Option("--where", metavar="JSON", help="Only episodes whose metadata match this filter.")
]
Since = Annotated[str | None, typer.Option("--since", metavar="WHEN", help="At or after this date or time.")]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Before this date or time.")]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="WHEN", help="What had happened and was valid at this date or time.")
]
Layers = Annotated[list[Layer] | None, typer.Option("--layer", help="Only this layer; both by default.")]
Also = Annotated[
    list[str] | None, typer.Option("--also", metavar="BANK", help="Further bank to read with it; may be repeated.")
]
Recency = Annotated[float, typer.Option("--recency", metavar="N", help="Score added to something that happens now.")]
HalfLife = Annotated[
    float, typer.Option("--half-life-days", metavar="N", help="Days after which --recency counts half.")
]
Importance = Annotated[float, typer.Option("--importance", metavar="N", help="Score added to the most important.")]


@app.callback(epilog="Example: circadia banks --template 'support-{user}'")
def banks(
    server: RemoteServer,
    template: Annotated[
        str | None, typer.Option("--template", metavar="NAME", help="Only banks made from this template.")
    ] = None,
    limit: Limit = 1000,
) -> Output:
    """List memory banks by name, with their size and policy."""
    page = server.list_pages(
        lambda client, place, count: client.list_banks(template=template, after=place, limit=count),
        "banks",
        limit=limit,
        cursor="after",
    )
    columns = ("bank", "episodes", "end user", "captures", "hot edits", "skipped", "passes", "last written", "for")
    nothing = "no bank; create one with `circadia banks add BANK`, or bind an agent to one"
    more = page.after is not None
    return list_output(page, page.banks, columns, _row, nothing=nothing, numbers=("episodes",), more=more)


def _row(bank: BankView) -> tuple[object, ...]:
    return (
        bank.name,
        bank.episodes,
        bank.end_user and display_alias(bank.end_user),
        bank.policy.capture_mode,
        "yes" if bank.policy.hot_edits else "no",
        format_skips(bank.skipped),
        bank.model or "no model",
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
    mission: Annotated[
        str, typer.Option("--mission", metavar="TEXT", help="What to remember, in two sentences that each pass reads.")
    ] = "",
    hot_edits: Annotated[
        bool, typer.Option("--hot-edits", help="Let agents write blocks while somebody waits.")
    ] = False,
    keep_days: Annotated[
        float | None, typer.Option("--keep-days", metavar="N", help="Delete episodes after N days; else never.")
    ] = None,
) -> Output:
    """Create a bank. A bank that an agent is bound to is created by itself."""
    policy = {
        "mission": mission, "capture_mode": capture_mode.value, "hot_edits": hot_edits, "keep_days": keep_days,
    }  # fmt: skip
    created = server.ask(lambda client: client.create_bank(bank, description=description, policy=policy))
    text = f"created bank {created.name}; bind an agent to it with `bank: {created.name}` in its policy"
    return Output(created, text)


@app.command(epilog="Example: circadia banks mission team 'A law firm. Remember deadlines, never health.'")
def mission(
    server: RemoteServer,
    bank: Bank,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The new mission, or '' for none; without it, show the mission."),
    ] = None,
    user: User = None,
) -> Output:
    """Show or set a bank's mission: what to remember, in two sentences that every pass and every judge reads."""

    async def find_or_change(client: Client) -> BankView:
        if text is None:
            return await client.show_bank(bank, user=user)
        return await client.change_bank(bank, policy={"mission": text}, user=user)

    found = server.ask(find_or_change)
    return Output(found, display_text(found.policy.mission) or f"{display_text(found.name)} has no mission")


@app.command(epilog="Example: circadia banks delete 'support-{user}' --user ann")
def delete(server: RemoteServer, bank: Bank, user: User = None, yes: Yes = False, as_json: AsJson = False) -> Output:
    """Delete a bank with all its episodes, notes, vectors, and blocks with their versions."""
    if not yes:
        require_person(as_json)
        details = server.ask(lambda client: client.show_bank(bank, user=user))
        confirm(f"This would delete bank {display_text(details.name)} with {details.episodes} episodes.", "Delete it?")
    server.ask(lambda client: client.delete_bank(bank, user=user))
    return Output({"deleted": {"bank": bank, "user": user}}, f"deleted bank {bank}" + (f" of {user}" if user else ""))


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
    speaker: SaidBy = None,
    since: Since = None,
    until: Until = None,
    user: User = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> Output | None:
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
            return None
        confirm(f"This would delete {_describe_forgotten(would)}.", "Forget them?")
    counts = server.ask(lambda client: forget_episodes(client, dry_run=False))
    return Output(counts, f"deleted {_describe_forgotten(counts)}")


def format_skips(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {why}" for why, number in sorted(counts.items())) or "0"


def _describe_forgotten(gone: ForgottenView) -> str:
    name = display_text(gone.bank)
    copies = f", {gone.copies} copies of notes in other banks" if gone.copies else ""
    return (
        f"{gone.episodes} episodes of {name}, {gone.notes} notes, parts of {gone.versions} versions of blocks{copies}"
    )


@app.command(epilog="Example: circadia banks search team 'when is the release' --trust person --trust agent")
def search(
    server: RemoteServer,
    bank: Bank,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question or words to search for.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, metavar="N", help="Maximum number of rows.")] = 10,
    speaker: SaidBy = None,
    conversation: Within = None,
    kinds: Kinds = None,
    trusts: Trusts = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    layers: Layers = None,
    recency: Recency = 0.0,
    half_life_days: HalfLife = 30.0,
    importance: Importance = 0.0,
    user: User = None,
    also: Also = None,
) -> Output:
    """Search episodes and notes, and show the parts of each score."""
    answer = server.ask(
        lambda client: client.search_bank(
            bank, question, limit=limit, speaker=speaker, conversation=conversation, kinds=kinds or (), since=since,
            until=until, trusts=[trust_level.value for trust_level in trusts or ()],
            layers=[layer.value for layer in layers or ()], recency=recency, half_life_days=half_life_days,
            importance=importance, where=read_json_object("--where", where), as_of=as_of, user=user, also=also or (),
        )
    )  # fmt: skip
    return Output(answer, _show_hits)


def _note_left_out(banks: Sequence[str]) -> None:
    if banks:
        note(f"left out, since they do not exist or you may not open them: {', '.join(map(display_text, banks))}")


def _show_hits(answer: HitList) -> None:
    hits = answer.hits
    _note_left_out(answer.left_out_banks)
    if not hits:
        note("nothing found")
        return
    best = max(hit.score for hit in hits)
    names = [name for name in COLOURS if any(name in hit.parts for hit in hits)]
    if any(hit.parts.get("weight", 1) != 1 for hit in hits):
        names.append("weight")
    several = any(hit.bank != answer.bank for hit in hits)
    rows = [
        (
            f"{hit.score:.3f}",
            bar(hit.parts, best),
            *(f"{hit.parts[name]:.2f}" if name in hit.parts else "" for name in names),
            *([display_text(hit.bank)] if several else []),
            hit.speaker or hit.kind,
            Text(hit.trust, TRUSTS[hit.trust]),
            local_time(hit.at)[:10],
            hit.id if hit.passage is None else f"{hit.id} {hit.passage}/{hit.passages}",
            shorten(hit.text, LETTERS) + _describe_hit(hit),
        )
        for hit in hits
    ]
    columns = ("score", "why", *names, *(["bank"] if several else []), "who", "trust", "day", "id", "text")
    out = console()
    out.print(table(columns, rows, numbers=("score", *names)))
    legend = Text("why: ")
    for name in names:
        legend.append(f"█ {name}  ", COLOURS.get(name, "dim")) if name in COLOURS else legend.append("× weight", "dim")
    out.print(legend)


def _describe_hit(hit: HitView) -> str:
    if hit.superseded:
        return " (no longer valid)"
    return f" ({hit.times} times)" if hit.times > 1 else ""


def bar(parts: Mapping[str, float], best: float) -> Text:
    """Return a bar scaled to the best score, with a colour for each part of the score."""
    weight = parts.get("weight", 1.0)
    line, end = Text(), 0.0
    for name, colour in COLOURS.items():
        start, end = end, end + weight * parts.get(name, 0.0)
        line.append("█" * (round(BAR * end / best) - round(BAR * start / best)), colour)
    return line


@app.command(epilog="Example: circadia banks context team 'when is the release'")
def context(
    server: RemoteServer,
    bank: Bank,
    question: Annotated[
        str | None, typer.Argument(metavar="[QUESTION]", help="Question; without it, only blocks are shown.")
    ] = None,
    stable_tokens: Annotated[
        int | None, typer.Option("--stable-tokens", min=0, metavar="N", help="Tokens for pinned blocks.")
    ] = None,
    fitting_tokens: Annotated[
        int | None, typer.Option("--fitting-tokens", min=0, metavar="N", help="Tokens for what fits the question.")
    ] = None,
    where: Where = None,
    as_of: AsOf = None,
    user: User = None,
    also: Also = None,
) -> Output:
    """Show what a bank adds to a prompt: the stable part, and what fits a question."""
    parts = server.ask(
        lambda client: client.show_context(
            bank,
            question,
            stable_tokens=stable_tokens,
            fitting_tokens=fitting_tokens,
            where=read_json_object("--where", where),
            as_of=as_of,
            user=user,
            also=also or (),
        )
    )
    return Output(parts, _show_context)


def _show_context(parts: ContextView) -> None:
    out = console()
    for title, text in (("for the system side", parts.stable), ("behind the newest user turn", parts.fitting)):
        out.print(Text(f"── {title} ──", "bold cyan"))
        out.print(Text(display_text(text)) if text else Text("nothing", "dim"))
    _note_left_out(parts.left_out_banks)
    if parts.left_out:
        note(f"no room for the blocks {', '.join(parts.left_out)}; raise --stable-tokens")


@app.command(epilog="Example: circadia banks notes team --state retired")
def notes(
    server: RemoteServer,
    bank: Bank,
    state: Annotated[
        NoteState | None, typer.Option("--state", help="Only notes in searches, or only retired ones; both by default.")
    ] = None,
    limit: Limit = 50,
    user: User = None,
) -> Output:
    """List the notes of a bank, newest first."""
    page = server.list_pages(
        lambda client, place, count: client.list_notes(
            bank, state=state and state.value, after=int(place or 0), limit=count, user=user
        ),
        "notes",
        limit=limit,
        cursor="after",
    )
    columns, numbers = ("note", "when", "kind", "trust", "importance", "sources", "retired", "text"), ("sources",)
    more = page.after is not None
    return list_output(page, page.notes, columns, _note_row, nothing="no note", numbers=numbers, more=more)


def _note_row(each: NoteView) -> tuple[object, ...]:
    retired = "" if each.retired_at is None else local_time(each.retired_at)
    importance = "" if each.importance is None else f"{each.importance:.2f}"
    trust = Text(each.trust, TRUSTS[each.trust])
    shown = shorten(each.text, LETTERS)
    return (each.id, local_time(each.at), each.kind, trust, importance, each.evidence_count, retired, shown)


@app.command(epilog="Example: circadia banks promote me-ann not_3f2a --to team")
def promote(
    server: RemoteServer,
    bank: Bank,
    note_key: Annotated[str, typer.Argument(metavar="NOTE", help="Note ID, as searches show it.")],
    to: Annotated[str, typer.Option("--to", metavar="BANK", help="Bank that gets the copy.")],
    user: User = None,
) -> Output:
    """Copy a note into another bank, once. The copy is forgotten with the note."""
    copy = server.ask(lambda client: client.promote_note(bank, note_key, to=to, user=user))
    state = "is" if copy.new else "was already"
    return Output(copy, f"{note_key} {state} in {copy.bank} as {copy.id}")


@app.command(epilog="Example: circadia banks explain team not_3f2a")
def explain(
    server: RemoteServer,
    bank: Bank,
    note_key: Annotated[str, typer.Argument(metavar="NOTE", help="Note ID, as searches show it.")],
    user: User = None,
) -> Output:
    """Show where a note comes from: the episodes that support it, and what passes did to it."""
    return Output(server.ask(lambda client: client.explain_note(bank, note_key, user=user)), _show_note)


def _show_note(answer: NoteDetail) -> None:
    out = console()
    out.print(Text(display_text(answer.text), "bold"))
    away = "" if answer.retired_at is None else f", retired {local_time(answer.retired_at)}"
    away += "" if answer.valid_to is None else f", valid until {local_time(answer.valid_to)}"
    origin = f"made by pass {answer.pass_id}" if answer.pass_id else "made by hand"
    out.print(Text(f"{answer.kind}, trust {answer.trust}, {origin} at {local_time(answer.created_at)}{away}", "dim"))
    for episode in answer.evidence:
        out.print(
            Text.assemble(
                (f"  {episode.id} {local_time(episode.at)} ", "dim"),
                f"{display_text(episode.speaker)}: {display_text(episode.text)}",
            )
        )
    for change in answer.changes:
        out.print(Text(f"  {change.pass_id} {change.kind} {change.state}: {display_text(change.why)}", "cyan"))
