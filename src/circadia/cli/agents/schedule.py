"""`circadia agents schedule`: an agent's routines, their next occurrences, and its blackouts."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from pydantic import ValidationError
from rich.text import Text

from circadia import settings
from circadia.cli.arguments import Agent, Session, full_reference
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.output import Output, console, display_text, note, shorten, table
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.records.schedule import load_zone
from circadia.schemas.schedule import Occurrence, RoutineView, ScheduleView

app = typer.Typer()

SLOT: Final = timedelta(minutes=30)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NEXT: Final = 10
_PLAN: Final = {"routines", "blackouts"}
_SHOWN_MISTAKES: Final = 3
FREE, LEFT_ALONE, DUE, SKIPPED = "·", "░", "●", "○"
_COLOURS: Final = {FREE: "dim", LEFT_ALONE: "blue", DUE: "green", SKIPPED: "yellow"}


@app.command(epilog="Example: circadia agents schedule writer --set plan.yaml --dry-run")
def schedule(
    server: RemoteServer,
    agent: Agent,
    days: Annotated[int, typer.Option("--days", min=1, max=31, metavar="N", help="Days to show, from today on.")] = 7,
    file: Annotated[
        Path | None,
        typer.Option(
            "--set",
            metavar="FILE",
            help="Replace the routines, the blackouts or both by those in this YAML or JSON file.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check the file and show the week that it comes to; change nothing.")
    ] = False,
    session: Session = None,
) -> Output:
    """Show or set an agent's routines and blackouts, with its next runs and a chart of its days, in its time zone."""
    if dry_run and file is None:
        raise InvalidRequest("--dry-run checks a file; name it with --set")
    now = SystemClock().now()
    target, since, until = full_reference(agent, session), now.isoformat(), (now + timedelta(days=days)).isoformat()
    plan = {} if file is None else _read_plan(file)

    async def set_and_show(client: Client) -> ScheduleView:
        if plan:
            written = await client.set_schedule(target, **plan, dry_run=dry_run)
            if dry_run:
                return written
        return await client.show_schedule(target, since=since, until=until)

    return Output(server.ask(set_and_show), _show)


def _read_plan(file: Path) -> dict[str, Any]:
    """Return the routines and blackouts of a file, as JSON. Raises InvalidRequest for anything else in it."""
    try:
        stated = settings.parse_yaml(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(stated, dict) or not stated or not set(cast("dict[str, Any]", stated)) <= _PLAN:
        raise InvalidRequest(f"{str(file)!r} must have `routines`, `blackouts` or both, and nothing else")
    try:
        plan = settings.ScheduleSettings.model_validate(stated)
    except ValidationError as error:
        mistakes = islice(
            settings.describe_mistakes(error, cast("dict[str, Any]", stated), settings.ScheduleSettings),
            _SHOWN_MISTAKES,
        )
        raise InvalidRequest(f"{str(file)!r}: {'; '.join(mistakes)}") from error
    return plan.model_dump(mode="json", exclude_unset=True)


def _show(answer: ScheduleView) -> None:
    zone = answer.zone
    typer.echo(f"{display_text(answer.agent)}, clock of {zone}")
    if not answer.routines:
        note("no routine")
    else:
        columns = ("routine", "when", "next", "last", "limit", "skips", "missed", "instructions")
        rows = [_routine_row(routine, zone) for routine in answer.routines]
        console().print(table(columns, rows, numbers=("skips", "missed")))
    due = answer.occurrences
    if due:
        typer.echo()
        rows = [
            (wall_time(occurrence.at, zone), occurrence.routine, _occurrence_text(occurrence, zone))
            for occurrence in due[:NEXT]
        ]
        console().print(table(("due", "routine", "becomes"), rows))
        if len(due) > NEXT:
            note(f"… and {len(due) - NEXT} more{'' if answer.complete else ', and others that the server left out'}")
    elif answer.next_runs:
        typer.echo()
        rows = [(wall_time(run.at, zone), run.routine, wall_time(run.deferred_from, zone)) for run in answer.next_runs]
        console().print(table(("runs", "routine", "deferred from"), rows))
    for name in answer.never_run:
        note(f"{name!r} never runs: blackouts skip it each time")
    if answer.spans or due:
        typer.echo()
        for line in timeline(answer):
            console().print(line)
        typer.echo(f"{DUE} runs  {SKIPPED} does not run  {LEFT_ALONE} blackout  (each mark is 30 minutes)")


def timeline(view: ScheduleView) -> list[Text]:
    """Return a line for each day of the window in the agent's time zone; a mark is half an hour.

    A day of 25 hours shows its repeated hour once; a day of 23 hours shows the missing hour as free.
    """
    zone = load_zone(view.zone)
    start, end = view.since.astimezone(zone), view.until.astimezone(zone)
    marks: dict[tuple[str, int], str] = {}
    for span in view.spans:
        at, over = span.start.astimezone(UTC), span.end.astimezone(UTC)
        while at < over:
            marks[_place(at.astimezone(zone))] = LEFT_ALONE
            at += SLOT - (at - EPOCH) % SLOT
    # An occurrence that runs comes last, so that its mark covers a skipped one.
    for occurrence in sorted(view.occurrences, key=lambda occurrence: occurrence.runs_at is not None):
        at = (occurrence.runs_at or occurrence.at).astimezone(zone)
        marks[_place(at)] = SKIPPED if occurrence.runs_at is None else DUE
    lines = [Text(" " * 12 + "".join(f"{hour:02d}    " for hour in range(0, 24, 3)), "dim")]
    day = start.date()
    while day <= end.date():
        each_half_hour = [marks.get((day.isoformat(), slot), FREE) for slot in range(48)]
        lines.append(Text.assemble(f"{day:%a %m-%d}   ", *((mark, _COLOURS[mark]) for mark in each_half_hour)))
        day += timedelta(days=1)
    return lines


def _place(at: datetime) -> tuple[str, int]:
    return at.date().isoformat(), at.hour * 2 + at.minute // 30


def wall_time(at: datetime | None, zone: str) -> str:
    return "–" if at is None else f"{at.astimezone(load_zone(zone)):%a %Y-%m-%d %H:%M:%S}"


def _occurrence_text(occurrence: Occurrence, zone: str) -> Text:
    if occurrence.runs_at is None:
        return Text("skipped: blackout", "yellow")
    if occurrence.runs_at == occurrence.at:
        return Text("runs", "green")
    return Text(f"deferred to {wall_time(occurrence.runs_at, zone)}", "cyan")


def _routine_row(routine: RoutineView, zone: str) -> tuple[object, ...]:
    limit = routine.timeout_seconds
    return (
        routine.name,
        _when(routine) if routine.enabled else f"off ({_when(routine)})",
        wall_time(routine.next_at, zone) if routine.enabled else "–",
        wall_time(routine.last_at, zone),
        "the agent's" if limit is None else f"{limit:g} s",
        routine.skips,
        routine.missed,
        shorten(routine.instructions, 50) or "its inbox",
    )


def _when(routine: RoutineView) -> str:
    if routine.cron:
        return f"cron {routine.cron}"
    if routine.every_seconds:
        return f"every {timedelta(seconds=routine.every_seconds)}"
    return f"{len(routine.at)} instants"
