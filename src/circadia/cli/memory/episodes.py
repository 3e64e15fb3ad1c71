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
"""Characters of the best hit's bar."""
LETTERS: Final = 100
COLOURS: Final = {
    "words": "green", "meaning": "cyan", "around": "blue", "speaker": "magenta", "recency": "yellow",
    "importance": "red",
}  # fmt: skip
"""Parts of a score."""
TRUSTS: Final = {"person": "", "agent": "dim", "tool": "yellow", "external": "red"}

Session = Annotated[str | None, typer.Option("--session", metavar="NAME", help="The conversation that it belongs to.")]
Speaker = Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Who said it.")]

SaidBy = Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Said by them only.")]
Within = Annotated[str | None, typer.Option("--session", metavar="NAME", help="In this conversation only.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Of this kind only; may be repeated.")]
Trusts = Annotated[list[Trust] | None, typer.Option("--trust", help="From this source only; may be repeated.")]
Since = Annotated[str | None, typer.Option("--since", metavar="WHEN", help="Happened at or after this date or time.")]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Happened before this date or time.")]
Layers = Annotated[list[Layer] | None, typer.Option("--layer", help="In this layer only; both by default.")]
Recency = Annotated[float, typer.Option("--recency", metavar="N", help="What something that happens now gets.")]
HalfLife = Annotated[
    float, typer.Option("--half-life-days", metavar="N", help="Days after which half of --recency is left.")
]
Importance = Annotated[float, typer.Option("--importance", metavar="N", help="What the most important gets.")]


@app.command(epilog="Example: circadia memory add team 'The release is on Friday.' --speaker ann")
def add(
    server: RemoteServer,
    bank: Bank,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember; `-` reads standard input.")],
    speaker: Speaker = None,
    session: Session = None,
    kind: Annotated[EpisodeKind, typer.Option("--kind", help="What happened.")] = EpisodeKind.FACT,
    trust: Annotated[
        Trust | None, typer.Option("--trust", help="Where it came from; `person` for the operator, else `agent`.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="WHEN", help="When it happened, with zone; else now.")
    ] = None,
    importance: Annotated[float | None, typer.Option("--importance", metavar="N", help="0 to 1.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="A call that is repeated with it stores one.")
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Remember something: it is on the disk when the command ends, and no model is called."""
    said = sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if text == "-" else text
    made = server.ask(
        lambda client: client.remember(
            bank, said, speaker=speaker, session=session, kind=kind.value, trust=trust and trust.value, at=at,
            importance=importance, key=key, user=user,
        )
    )  # fmt: skip
    if as_json:
        print_json(made)
    else:
        note(f"{made['id']} {'is remembered' if made['new'] else 'was there already'} in {made['bank']}")


@app.command(epilog="Example: circadia memory search team 'when is the release' --trust person --trust agent")
def search(
    server: RemoteServer,
    bank: Bank,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What is looked for, in words.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, metavar="N", help="So many at most.")] = 10,
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
    """Find episodes and notes, and show why each was found: the parts of its score."""
    found = server.ask(
        lambda client: client.search_bank(
            bank, question, limit=limit, speaker=speaker, session=session, kinds=kinds or (), since=since, until=until,
            trusts=[each.value for each in trusts or ()], layers=[each.value for each in layers or ()],
            recency=recency, half_life_days=half_life_days, importance=importance, user=user,
        )
    )  # fmt: skip
    if as_json:
        print_json(found)
    elif found["hits"]:
        _show_hits(found["hits"])
    else:
        note("nothing found")


@app.command(epilog="Example: circadia memory views team")
def views(
    server: RemoteServer,
    bank: Bank,
    hits: Annotated[int, typer.Option("--hits", min=0, max=100, metavar="N", help="So many of each at most.")] = 1,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show what is asked often and what notes say by subject, as passes keep it ready."""
    found = server.ask(lambda client: client.list_views(bank, hits=hits, user=user))
    if as_json:
        print_json(found)
    elif found["views"]:
        columns = ("kind", "text", "filters", "asked", "state", "says")
        console().print(table(columns, [_view(each) for each in found["views"]], numbers=("asked",)))
    else:
        note("nothing is ready yet; a pass keeps ready what was asked more than once")


def _view(each: ReadyAnswer) -> tuple[object, ...]:
    state = "ready" if each["current"] else "counted" if each["made_at"] is None else "waits for a pass"
    says = "\n".join(shorten(hit["text"], LETTERS) for hit in each["hits"])
    return (each["kind"], shorten(each["text"], LETTERS), compact(each["filters"]), each["asked"] or "", state, says)


@app.command(epilog="Example: circadia memory show team --limit 5")
def show(
    server: RemoteServer,
    bank: Bank,
    episode: Annotated[
        str | None, typer.Argument(metavar="[EPISODE]", help="Id of an episode; without it, the newest are listed.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="NAME", help="Of this conversation only.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, metavar="N", help="So many at most.")] = 20,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show an episode with all that is known of it, or the newest episodes of a bank."""

    async def fetch_episodes(client: Client) -> Mapping[str, Any]:
        if episode is not None:
            return cast("Mapping[str, Any]", await client.show_episode(bank, episode, user=user))
        page = await client.list_episodes(bank, session=session, order="newest", limit=limit, user=user)
        return cast("Mapping[str, Any]", page)

    found = server.ask(fetch_episodes)
    if as_json:
        print_json(found)
    elif episode is not None:
        _show_episode(found)
    elif found["episodes"]:
        columns = ("episode", "when", "speaker", "kind", "trust", "session", "text")
        console().print(table(columns, [_row(each) for each in found["episodes"]]))
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


def _show_episode(found: Mapping[str, Any]) -> None:
    out = console()
    lines = [(Text(name, "dim"), value) for name, value in found.items() if name not in ("text", "stale")]
    out.print(table(("", ""), lines, numbers=()))
    for each in found["stale"]:
        out.print(
            Text(
                display_text(f"stale × {each['weight']:g} by {each['by']}: {each['reason']} ({each['evidence']})"),
                "yellow",
            )
        )
    out.print()
    out.print(Text(display_text(found["text"])))


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
    """Return a bar as long as the score is beside the best one's, with a colour for each part."""
    weight = parts.get("weight", 1.0)
    made, end = Text(), 0.0
    for name, colour in COLOURS.items():
        start, end = end, end + weight * parts.get(name, 0.0)
        made.append("█" * (round(BAR * end / best) - round(BAR * start / best)), colour)
    return made
