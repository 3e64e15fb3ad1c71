"""`circadia answers list`, `explain`, `test`, `stats` and `drop`: questions that are expected, answered ahead."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from circadia.cli.memory.banks import Bank, User
from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import gather_pages
from circadia.cli.terminal.confirmation import Yes, confirm, require_person
from circadia.cli.terminal.output import (
    AsJson,
    console,
    display_text,
    dollars,
    format_duration,
    local_time,
    note,
    parse_instant,
    print_json,
    shorten,
    table,
)
from circadia.client import Client
from circadia.client.ready_answers import AnswerStatsAnswer, ReadyAnswerAnswer, TestedAnswer
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.records.end_user import display_alias

app = typer.Typer(no_args_is_help=True, help="Questions that are expected next, answered ahead.")

Answer = Annotated[str, typer.Argument(metavar="ANSWER", help="Id of a ready answer.")]
OfAgent = Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Those of this agent only.")]

_LETTERS: Final = 70
_COLOURS: Final = {"hit": "green", "hint": "yellow", "miss": "red"}
_DAYS: Final = ("day", "served", "hints", "misses", "made", "used", "wasted", "wasted tokens", "right", "wrong")


@app.callback()
def answers() -> None:
    """Questions that are expected next, answered ahead."""


@app.command("list", epilog="Example: circadia answers list support --agent helper")
def list_(
    server: RemoteServer,
    bank: Bank,
    agent: OfAgent = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="So many at most.")] = 100,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """List the ready answers of a bank, and which of them stand."""

    async def fetch_answers(client: Client) -> dict[str, Any]:
        return await gather_pages(
            lambda place, count: client.list_answers(bank, agent=agent, after=place, limit=count, user=user),
            key="answers",
            limit=limit,
            cursor="after",
        )

    found = server.ask(fetch_answers)
    if as_json:
        print_json(found)
        return
    rows: Sequence[ReadyAnswerAnswer] = found["answers"]
    if not rows:
        note("no answer is ready; passes make them where an agent with a bank has been asked something")
        return
    now = SystemClock().now()
    lines = [
        (
            each["id"],
            each["agent"],
            each["end_user"] and display_alias(each["end_user"]),
            shorten(each["question"], _LETTERS),
            shorten(each["text"], _LETTERS),
            f"{each['confidence']:.2f}",
            each["uses"],
            format_duration((parse_instant(each["expires_at"]) - now).total_seconds()),
            Text("yes", "green") if each["stands"] else Text(display_text(each["why_not"]), "red"),
        )
        for each in rows
    ]
    columns = ("answer", "agent", "for", "question", "text", "likely", "uses", "holds", "stands")
    console().print(table(columns, lines, numbers=("likely", "uses")))
    if found["after"] is not None:
        note(f"more than {limit}; --limit shows them")


@app.command(epilog="Example: circadia answers explain support ans_01a2…")
def explain(server: RemoteServer, bank: Bank, answer: Answer, user: User = None, as_json: AsJson = False) -> None:
    """Show a ready answer: its phrasings, what it rests on, what it took, and whether it stands."""
    found = server.ask(lambda client: client.show_answer(bank, answer, user=user))
    if as_json:
        print_json(found)
        return
    blocks = ", ".join(f"{label} (version {version})" for label, version in found["blocks"].items())
    rows = [
        ("question", found["question"]),
        ("other wordings", "\n".join(found["phrasings"][1:]) or "none"),
        ("answer", found["text"]),
        ("reasoning", found["reasoning"] or "none was told"),
        ("for", f"{found['agent']}, {found['end_user'] or 'whoever asks'}"),
        ("likely", f"{found['confidence']:.2f}"),
        ("stands", "yes" if found["stands"] else f"no: {found['why_not']}"),
        ("rests on", f"{blocks or 'no block'}; {len(found['notes'])} notes, {len(found['episodes'])} episodes"),
        ("made", f"{local_time(found['made_at'])} by {found['pass_id'] or 'nobody known'}"),
        ("holds until", local_time(found["expires_at"])),
        ("took", f"{found['tokens']:,} tokens, {_price(found['usd'])}, {found['seconds']:.1f} s"),
        ("uses", f"{found['uses']}" + ("" if found["used_at"] is None else f", last {local_time(found['used_at'])}")),
    ]
    console().print(table((found["id"], ""), rows))


@app.command("test", epilog="Example: circadia answers test support helper 'When do you open on Sunday?'")
def try_(
    server: RemoteServer,
    bank: Bank,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Whose call it would be.")],
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")],
    end_user: Annotated[
        str | None, typer.Option("--for", metavar="NAME", help="The end user for whom the agent would be asked.")
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Tell what would become of a question, and why; nothing is asked, counted or changed."""
    found = server.ask(lambda client: client.try_answers(bank, agent, question, end_user=end_user, user=user))
    if as_json:
        print_json(found)
    else:
        _show_test(found)


@app.command(epilog="Example: circadia answers stats support --days 30")
def stats(
    server: RemoteServer,
    bank: Bank,
    days: Annotated[int, typer.Option("--days", min=1, max=366, metavar="N", help="So many days back.")] = 14,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show how often ready answers were of use, were right, and went to waste."""
    found = server.ask(lambda client: client.answer_stats(bank, days=days, user=user))
    if as_json:
        print_json(found)
    else:
        _show_stats(found)


@app.command(epilog="Example: circadia answers drop support ans_01a2…")
def drop(
    server: RemoteServer,
    bank: Bank,
    answer: Annotated[str | None, typer.Argument(metavar="[ANSWER]", help="Id of a ready answer.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of the bank, or of the agent that is named.")] = False,
    agent: OfAgent = None,
    yes: Yes = False,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Drop a ready answer, or all: they are found no more from the next call on."""
    if (answer is None) != every or (agent is not None and not every):
        raise InvalidRequest("name one answer, or say --all (with --agent for those of one agent)")
    if answer is not None:
        server.ask(lambda client: client.drop_answer(bank, answer, user=user))
        dropped = {"bank": bank, "dropped": 1}
    else:
        if not yes:
            require_person(as_json)
            confirm(f"would go: all ready answers of {display_text(agent or bank)}", "Drop them?")
        dropped = dict(server.ask(lambda client: client.drop_answers(bank, agent=agent, user=user)))
    if as_json:
        print_json(dropped)
    else:
        note(f"{dropped['dropped']} dropped")


def _show_test(found: TestedAnswer) -> None:
    said = Text(found["outcome"], _COLOURS.get(found["outcome"], ""))
    console().print(Text.assemble(said, f" for {display_text(found['agent'])} in mode {found['mode']}"))
    if not found["frames"]:
        note(
            "no call of this agent for this end user is known, so nothing is ready for it; they are noted as they pass"
        )
        note("the gateway while there is a model for passes: the setting `sleeptime.model`")
        return
    if not found["trusted"]:
        note("too many sampled answers were wrong: nothing is served until they are right again")
    for step in found["steps"]:
        note(display_text(step))
    if found["answer"] is not None:
        console().print(Text(display_text(found["answer"]["text"])))
    lines = [
        (
            Text(each["outcome"], _COLOURS.get(each["outcome"], "")),
            f"{each['similarity']:.2f}",
            each["kind"],
            shorten(each["phrasing"], _LETTERS),
            each["answer"],
        )
        for each in found["matches"]
    ]
    if lines:
        columns = ("outcome", "similarity", "kind", "compared with", "answer")
        console().print(table(columns, lines, numbers=("similarity",)))


def _show_stats(found: AnswerStatsAnswer) -> None:
    rows = [
        ("ready", found["live"]),
        ("answered", _share(found["hit_rate"])),
        ("given a hint", _share(found["hint_rate"])),
        (f"right, of {found['samples']} sampled", _share(found["precision"])),
        ("used, of those made", _share(found["used_share"])),
        ("wasted", f"{found['wasted_tokens']:,} tokens"),
    ]
    rows += [
        (
            f"judge, {display_text(each['agent'])}",
            f"{each['waits']} of the last {each['lookups']} lookups waited; bar {each['bar']:.2f}"
            + ("; not asked for a minute: too slow" if each["breaker_open"] else ""),
        )
        for each in found["judge"]
    ]
    console().print(table((display_text(found["bank"]), ""), rows))
    if found["days"]:
        lines = [tuple(each[name.replace(" ", "_")] for name in _DAYS) for each in map(dict, found["days"])]
        console().print(table(_DAYS, lines, numbers=_DAYS[1:]))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _price(usd: float | None) -> str:
    return "price unknown" if usd is None else dollars(usd)
