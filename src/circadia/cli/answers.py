"""`circadia answers`: expected questions, answered ahead."""

from typing import Annotated, Final

import typer
from rich.text import Text

from circadia.cli.arguments import Bank, BankToList, Limit, User, Yes
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    AsJson,
    Listing,
    Output,
    confirm,
    console,
    display_text,
    dollars,
    format_duration,
    list_output,
    local_time,
    note,
    require_person,
    shorten,
    table,
)
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.records.conversation import display_alias
from circadia.schemas.answers import AnswerStats, AnswerView, TestView

app = typer.Typer(cls=NounGroup)

Answer = Annotated[str, typer.Argument(metavar="ANSWER", help="Ready answer ID.")]
OfAgent = Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Only answers of this agent.")]

_LETTERS: Final = 70
_COLOURS: Final = {"hit": "green", "hint": "yellow", "miss": "red"}
_DAYS: Final = ("day", "served", "hints", "misses", "made", "used", "wasted", "wasted tokens", "right", "wrong")


@app.callback(epilog="Example: circadia answers support --agent helper")
def answers(
    server: RemoteServer, bank: BankToList, agent: OfAgent = None, limit: Limit = 100, user: User = None
) -> Output:
    """List the ready answers of a bank: expected questions, answered ahead."""
    page = server.list_pages(
        lambda client, place, count: client.list_answers(bank, agent=agent, after=place, limit=count, user=user),
        "answers",
        limit=limit,
        cursor="after",
    )
    columns = ("answer", "agent", "for", "question", "text", "likely", "uses", "valid for", "valid")
    nothing = "no answer is ready; passes make answers once somebody has asked an agent with a bank"
    numbers, more = ("likely", "uses"), page.after is not None
    return list_output(page, page.answers, columns, _row, nothing=nothing, numbers=numbers, more=more)


def _row(answer: AnswerView) -> tuple[object, ...]:
    return (
        answer.id,
        answer.agent,
        answer.end_user and display_alias(answer.end_user),
        shorten(answer.question, _LETTERS),
        shorten(answer.text, _LETTERS),
        f"{answer.confidence:.2f}",
        answer.uses,
        format_duration((answer.expires_at - SystemClock().now()).total_seconds()),
        Text("yes", "green") if answer.stands else Text(display_text(answer.why_not), "red"),
    )


@app.command(epilog="Example: circadia answers explain support ans_01a2…")
def explain(server: RemoteServer, bank: Bank, answer: Answer, user: User = None) -> Output:
    """Show a ready answer: its phrasings, evidence and cost, and whether it is valid."""
    return Output(server.ask(lambda client: client.show_answer(bank, answer, user=user)), _details_table)


def _details_table(details: AnswerView) -> Listing:
    blocks = ", ".join(f"{label} (version {version})" for label, version in details.blocks.items())
    price = "price unknown" if details.usd is None else dollars(details.usd)
    rows = [
        ("question", details.question),
        ("other wordings", "\n".join(details.phrasings[1:]) or "none"),
        ("answer", details.text),
        ("reasoning", details.reasoning or "none given"),
        ("for", f"{details.agent}, {details.end_user or 'any end user'}"),
        ("likely", f"{details.confidence:.2f}"),
        ("valid", "yes" if details.stands else f"no: {details.why_not}"),
        ("rests on", f"{blocks or 'no block'}; {len(details.notes)} notes, {len(details.episodes)} episodes"),
        ("made", f"{local_time(details.made_at)} by {details.pass_id or 'an unknown pass'}"),
        ("valid until", local_time(details.expires_at)),
        ("cost", f"{details.tokens:,} tokens, {price}, {details.seconds:.1f} s"),
        ("uses", f"{details.uses}" + ("" if details.used_at is None else f", last {local_time(details.used_at)}")),
    ]
    return table((details.id, ""), rows)


@app.command("test", epilog="Example: circadia answers test support helper 'When do you open on Sunday?'")
def try_(
    server: RemoteServer,
    bank: Bank,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Agent that would make the call.")],
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question to test.")],
    end_user: Annotated[
        str | None, typer.Option("--for", metavar="NAME", help="End user for whom the agent would be asked.")
    ] = None,
    user: User = None,
) -> Output:
    """Show how a question would be answered, and why. No model is asked; nothing is counted or changed."""
    result = server.ask(lambda client: client.try_answers(bank, agent, question, end_user=end_user, user=user))
    return Output(result, _show_test)


@app.command(epilog="Example: circadia answers stats support --days 30")
def stats(
    server: RemoteServer,
    bank: Bank,
    days: Annotated[int, typer.Option("--days", min=1, max=366, metavar="N", help="Number of days to look back.")] = 14,
    user: User = None,
) -> Output:
    """Show how often ready answers were used, right and wasted."""
    return Output(server.ask(lambda client: client.answer_stats(bank, days=days, user=user)), _show_stats)


@app.command(epilog="Example: circadia answers delete support ans_01a2…")
def delete(
    server: RemoteServer,
    bank: Bank,
    answer: Annotated[str | None, typer.Argument(metavar="[ANSWER]", help="Ready answer ID.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All answers of the bank, or of --agent.")] = False,
    agent: OfAgent = None,
    yes: Yes = False,
    user: User = None,
    as_json: AsJson = False,
) -> Output:
    """Delete a ready answer, or all. They are no longer found from the next call on."""
    if (answer is None) != every or (agent is not None and not every):
        raise InvalidRequest("name one answer, or use --all (with --agent for the answers of one agent)")
    if answer is not None:
        server.ask(lambda client: client.drop_answer(bank, answer, user=user))
        dropped = {"bank": bank, "dropped": 1}
    else:
        if not yes:
            require_person(as_json)
            confirm(f"This would delete all ready answers of {display_text(agent or bank)}.", "Delete them?")
        dropped = dict(server.ask(lambda client: client.drop_answers(bank, agent=agent, user=user)))
    return Output(dropped, f"deleted {dropped['dropped']} ready answers")


def _show_test(result: TestView) -> None:
    outcome = Text(result.outcome, _COLOURS.get(result.outcome, ""))
    console().print(Text.assemble(outcome, f" for {display_text(result.agent)} in mode {result.mode}"))
    if not result.frames:
        note("the gateway notes calls while passes have a model: the setting `sleeptime.model`")
    if not result.trusted:
        note("too many sampled answers were wrong; none is served until they are right again")
    for step in result.steps:
        note(display_text(step))
    if result.answer is not None:
        console().print(Text(display_text(result.answer.text)))
    lines = [
        (
            Text(match.outcome, _COLOURS.get(match.outcome, "")),
            f"{match.similarity:.2f}",
            match.kind,
            shorten(match.phrasing, _LETTERS),
            match.answer,
        )
        for match in result.matches
    ]
    if lines:
        columns = ("outcome", "similarity", "kind", "compared with", "answer")
        console().print(table(columns, lines, numbers=("similarity",)))


def _show_stats(report: AnswerStats) -> None:
    rows = [
        ("ready", report.live),
        ("answered", _share(report.hit_rate)),
        ("given a hint", _share(report.hint_rate)),
        (f"right, of {report.samples} sampled", _share(report.precision)),
        ("used, of those made", _share(report.used_share)),
        ("wasted", f"{report.wasted_tokens:,} tokens"),
    ]
    rows += [
        (
            f"judge, {display_text(judge.agent)}",
            f"{judge.waits} of the last {judge.lookups} lookups waited; bar {judge.bar:.2f}"
            + ("; too slow, so it pauses for a minute" if judge.breaker_open else ""),
        )
        for judge in report.judge
    ]
    console().print(table((display_text(report.bank), ""), rows))
    if report.days:
        lines = [tuple(day[name.replace(" ", "_")] for name in _DAYS) for day in map(dict, report.days)]
        console().print(table(_DAYS, lines, numbers=_DAYS[1:]))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
