"""`circadia memory add`, `search`, `views` and `show`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, cast

import typer
from rich.text import Text

from circadia.cli.memory.banks import Bank, User
from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.output import (
    AsJson,
    compact,
    console,
    display_text,
    local_time,
    note,
    print_json,
    shorten,
    table,
)
from circadia.client import Client
from circadia.client.memory_answers import HitAnswer, ReadyAnswer
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind
from circadia.records.index_entry import Layer

app = typer.Typer()

BAR: Final = 16
"""Length of the best hit's bar, in characters."""
LETTERS: Final = 100
COLOURS: Final = {
    "words": "green", "meaning": "cyan", "around": "blue", "speaker": "magenta", "recency": "yellow",
    "importance": "red",
}  # fmt: skip
TRUSTS: Final = {"person": "", "agent": "dim", "tool": "yellow", "external": "red"}

Session = Annotated[str | None, typer.Option("--session", metavar="NAME", help="Conversation of the episode.")]
Speaker = Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Speaker of the text.")]

SaidBy = Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Only this speaker.")]
Within = Annotated[str | None, typer.Option("--session", metavar="NAME", help="Only this conversation.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Of this kind only; may be repeated.")]
Trusts = Annotated[list[Trust] | None, typer.Option("--trust", help="Only this source; may be repeated.")]
Since = Annotated[str | None, typer.Option("--since", metavar="WHEN", help="At or after this date or time.")]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Before this date or time.")]
Layers = Annotated[list[Layer] | None, typer.Option("--layer", help="Only this layer; both by default.")]
Recency = Annotated[float, typer.Option("--recency", metavar="N", help="Score added to something that happens now.")]
HalfLife = Annotated[
    float, typer.Option("--half-life-days", metavar="N", help="Days after which --recency counts half.")
]
Importance = Annotated[float, typer.Option("--importance", metavar="N", help="Score added to the most important.")]


@app.command(epilog="Example: circadia memory add team 'The release is on Friday.' --speaker ann")
def add(
    server: RemoteServer,
    bank: Bank,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text to remember; `-` reads standard input.")],
    speaker: Speaker = None,
    session: Session = None,
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
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Store an episode. It is on disk when the command ends, and no model is called."""
    content = sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if text == "-" else text
    stored = server.ask(
        lambda client: client.remember(
            bank, content, speaker=speaker, session=session, kind=kind.value, trust=trust and trust.value, at=at,
            importance=importance, key=key, user=user,
        )
    )  # fmt: skip
    if as_json:
        print_json(stored)
    else:
        note(f"{stored['id']} {'is stored' if stored['new'] else 'was there already'} in {stored['bank']}")


@app.command(epilog="Example: circadia memory search team 'when is the release' --trust person --trust agent")
def search(
    server: RemoteServer,
    bank: Bank,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question or words to search for.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, metavar="N", help="Maximum number of rows.")] = 10,
    speaker: SaidBy = None,
    session: Within = None,
    kinds: Kinds = None,
    trusts: Trusts = None,
    since: Since = None,
    until: Until = None,
    layers: Layers = None,
    recency: Recency = 0.0,
    half_life_days: HalfLife = 30.0,
    importance: Importance = 0.0,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Search episodes and notes, and show the parts of each score."""
    answer = server.ask(
        lambda client: client.search_bank(
            bank, question, limit=limit, speaker=speaker, session=session, kinds=kinds or (), since=since, until=until,
            trusts=[each.value for each in trusts or ()], layers=[each.value for each in layers or ()],
            recency=recency, half_life_days=half_life_days, importance=importance, user=user,
        )
    )  # fmt: skip
    if as_json:
        print_json(answer)
    elif answer["hits"]:
        _show_hits(answer["hits"])
    else:
        note("nothing found")


@app.command(epilog="Example: circadia memory views team")
def views(
    server: RemoteServer,
    bank: Bank,
    hits: Annotated[int, typer.Option("--hits", min=0, max=100, metavar="N", help="Maximum hits per view.")] = 1,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show the views that passes keep ready: frequent questions, and notes by subject."""
    answer = server.ask(lambda client: client.list_views(bank, hits=hits, user=user))
    if as_json:
        print_json(answer)
    elif answer["views"]:
        columns = ("kind", "text", "filters", "asked", "state", "says")
        console().print(table(columns, [_view(each) for each in answer["views"]], numbers=("asked",)))
    else:
        note("nothing is ready yet; a pass keeps questions ready that were asked more than once")


def _view(each: ReadyAnswer) -> tuple[object, ...]:
    state = "ready" if each["current"] else "counted" if each["made_at"] is None else "waits for a pass"
    says = "\n".join(shorten(hit["text"], LETTERS) for hit in each["hits"])
    return (each["kind"], shorten(each["text"], LETTERS), compact(each["filters"]), each["asked"] or "", state, says)


@app.command(epilog="Example: circadia memory show team --limit 5")
def show(
    server: RemoteServer,
    bank: Bank,
    episode: Annotated[
        str | None, typer.Argument(metavar="[EPISODE]", help="Episode ID; without it, the newest episodes are listed.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="NAME", help="Only this conversation.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, metavar="N", help="Maximum number of rows.")] = 20,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show an episode with all its fields, or the newest episodes of a bank."""

    async def fetch_episodes(client: Client) -> Mapping[str, Any]:
        if episode is not None:
            return cast("Mapping[str, Any]", await client.show_episode(bank, episode, user=user))
        page = await client.list_episodes(bank, session=session, order="newest", limit=limit, user=user)
        return cast("Mapping[str, Any]", page)

    answer = server.ask(fetch_episodes)
    if as_json:
        print_json(answer)
    elif episode is not None:
        _show_episode(answer)
    elif answer["episodes"]:
        columns = ("episode", "when", "speaker", "kind", "trust", "session", "text")
        console().print(table(columns, [_row(each) for each in answer["episodes"]]))
    else:
        note("no episode")


def _row(each: Mapping[str, Any]) -> tuple[object, ...]:
    weak = f" (stale × {_weight(each):.2g})" if each["stale"] else ""
    trust = Text(each["trust"], TRUSTS[each["trust"]])
    when = local_time(each["at"])
    text = shorten(each["text"], LETTERS) + weak
    return (each["id"], when, each["speaker"], each["kind"], trust, each["session"], text)


def _weight(episode: Mapping[str, Any]) -> float:
    weight = 1.0
    for each in episode["stale"]:
        weight *= each["weight"]
    return weight


def _show_episode(episode: Mapping[str, Any]) -> None:
    out = console()
    lines = [(Text(name, "dim"), value) for name, value in episode.items() if name not in ("text", "stale")]
    out.print(table(("", ""), lines, numbers=()))
    for each in episode["stale"]:
        out.print(
            Text(
                display_text(f"stale × {each['weight']:g} by {each['by']}: {each['reason']} ({each['evidence']})"),
                "yellow",
            )
        )
    out.print()
    out.print(Text(display_text(episode["text"])))


def _show_hits(hits: Sequence[HitAnswer]) -> None:
    best = max(each["score"] for each in hits)
    names = [name for name in COLOURS if any(name in each["parts"] for each in hits)]
    if any(each["parts"].get("weight", 1) != 1 for each in hits):
        names.append("weight")
    rows = [
        (
            f"{each['score']:.3f}",
            bar(each["parts"], best),
            *(f"{each['parts'][name]:.2f}" if name in each["parts"] else "" for name in names),
            each["speaker"] or each["kind"],
            Text(each["trust"], TRUSTS[each["trust"]]),
            local_time(each["at"])[:10],
            each["id"],
            shorten(each["text"], LETTERS),
        )
        for each in hits
    ]
    columns = ("score", "why", *names, "who", "trust", "day", "id", "text")
    out = console()
    out.print(table(columns, rows, numbers=("score", *names)))
    legend = Text("why: ")
    for name in names:
        legend.append(f"█ {name}  ", COLOURS.get(name, "dim")) if name in COLOURS else legend.append("× weight", "dim")
    out.print(legend)


def bar(parts: Mapping[str, float], best: float) -> Text:
    """Return a bar scaled to the best score, with a colour for each part of the score."""
    weight = parts.get("weight", 1.0)
    line, end = Text(), 0.0
    for name, colour in COLOURS.items():
        start, end = end, end + weight * parts.get(name, 0.0)
        line.append("█" * (round(BAR * end / best) - round(BAR * start / best)), colour)
    return line
