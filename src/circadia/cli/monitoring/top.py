"""`circadia top`: a live view of agents, held calls and tokens."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from circadia.cli.arguments import OnlySession
from circadia.cli.connection import RemoteServer
from circadia.cli.monitoring.events import event_line
from circadia.cli.terminal.output import (
    AsJson,
    Output,
    display_text,
    dollars,
    format_duration,
    state_text,
    table,
    time_since,
)
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import RetryLater, Unreachable
from circadia.schemas.agents import AgentView
from circadia.schemas.events import EventView
from circadia.schemas.fleet import GroupUsage, HoldList, UsageReport

EVENT_ROWS = 8
MIN_AGENT_ROWS = 3
OTHER_ROWS = 8
"""Rows of a frame besides agents and events: totals, headings, empty lines, the footer."""

app = typer.Typer()


@dataclass(frozen=True, kw_only=True, slots=True)
class TopSnapshot:
    """The server's state at one instant, with agents of all open sessions or of the chosen one."""

    at: datetime
    agents: Sequence[AgentView]
    holds: HoldList
    usage: UsageReport
    events: Sequence[EventView]


@app.command(epilog="Example: circadia top --session team")
def top(
    server: RemoteServer,
    session: OnlySession = None,
    every: Annotated[float, typer.Option("--every", min=0.2, metavar="SECONDS", help="Seconds per refresh.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame and exit; the default without a terminal.")
    ] = False,
    as_json: AsJson = False,
) -> Output | None:
    """Show agents, held calls, tokens and events live. Press q or Ctrl-C to quit."""
    if as_json or once or not sys.stdout.isatty():
        snapshot = server.ask(lambda client: read_snapshot(client, session))
        return Output(as_document(snapshot), lambda _: frame(snapshot, server.url, height=None))
    server.ask(lambda client: _live(client, session, server.url, every))
    return None


async def read_snapshot(client: Client, session: str | None) -> TopSnapshot:
    names = [session] if session else [session.name for session in await client.list_sessions()]
    agents, holds, usage, newest = await asyncio.gather(
        asyncio.gather(*(client.list_agents(name) for name in names)),
        client.list_holds(session=session),
        client.usage("agent", session=session),
        client.list_events(limit=EVENT_ROWS, order="newest", session=session),
    )
    flat = [agent for group in agents for agent in group]
    return TopSnapshot(at=SystemClock().now(), agents=flat, holds=holds, usage=usage, events=newest[::-1])


def as_document(snapshot: TopSnapshot) -> dict[str, Any]:
    return {
        "at": snapshot.at.isoformat(),
        "agents": snapshot.agents,
        "holds": snapshot.holds.holds,
        "held": snapshot.holds.total,
        "usage": snapshot.usage,
        "events": snapshot.events,
    }


def frame(snapshot: TopSnapshot, url: str, height: int | None, trouble: str = "") -> RenderableType:
    """Return the snapshot for a terminal, cut to `height` rows."""
    room = None if height is None else max(MIN_AGENT_ROWS, height - OTHER_ROWS - len(snapshot.events))
    parts: list[RenderableType] = [_headline(snapshot, url, trouble), *_agents(snapshot, room)]
    if snapshot.events:
        lines = [event_line(event, short=True) for event in snapshot.events]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        parts += [Text("\nevents", "bold"), *lines]
    if height is not None:
        parts.append(Text("q quits", "dim"))
    return Group(*parts)


def _headline(snapshot: TopSnapshot, url: str, trouble: str) -> Text:
    asleep = sum(agent.sleeping for agent in snapshot.agents)
    total = snapshot.usage.total
    tokens = f"{total.input_tokens:,} in, {total.output_tokens:,} out"
    line = Text.assemble(
        ("circadia ", "bold"),
        (f"{url}  {snapshot.at.astimezone():%H:%M:%S}\n", "dim"),
        f"agents {len(snapshot.agents)}, ",
        (f"asleep {asleep}", "blue"),
        f"   held {snapshot.holds.total}   calls {total.calls:,}   tokens {tokens}   ",
        f"cost {dollars(total.cost_usd)}",
    )
    return line.append(f"\n{trouble}", "bold red") if trouble else line.append("\n")


def _agents(snapshot: TopSnapshot, room: int | None) -> list[RenderableType]:
    usage = {line.key: line for line in snapshot.usage.usage}
    longest: dict[str, float] = {}
    for hold in snapshot.holds.holds:
        longest[hold.reference] = max(longest.get(hold.reference, 0.0), hold.waited_seconds)
    ordered = sorted(snapshot.agents, key=lambda agent: (-agent.held, not agent.sleeping, agent.reference))
    chosen = ordered if room is None else ordered[:room]
    rows = [_row(agent, usage.get(agent.reference), longest.get(agent.reference), snapshot.at) for agent in chosen]
    columns = ("agent", "state", "for", "held", "longest", "calls", "in", "out", "cost")
    parts: list[RenderableType] = [table(columns, rows, numbers=columns[3:])]
    if len(chosen) < len(ordered):
        parts.append(Text(f"… and {len(ordered) - len(chosen)} more", "dim"))
    return parts


def _row(agent: AgentView, used: GroupUsage | None, longest: float | None, now: datetime) -> tuple[object, ...]:
    counts = (
        ("–", "–", "–", "–")
        if used is None
        else (f"{used.calls:,}", f"{used.input_tokens:,}", f"{used.output_tokens:,}", dollars(used.cost_usd))
    )
    waited = None if longest is None else format_duration(longest)
    shape = state_text(agent.sleeping) if agent.enabled else Text("disabled", "dim")
    return agent.reference, shape, time_since(agent.since, now), agent.held or "–", waited, *counts


async def _live(client: Client, session: str | None, url: str, every: float) -> None:
    """Draw until a person quits; while the server is away, show the error and keep trying."""
    screen, snapshot = Console(), await read_snapshot(client, session)
    trouble = ""
    ended = asyncio.Event()
    with _keys(ended), Live(console=screen, screen=screen.is_terminal, auto_refresh=False) as live:
        while not ended.is_set():
            live.update(frame(snapshot, url, screen.size.height if screen.is_terminal else None, trouble), refresh=True)
            try:
                await asyncio.wait_for(ended.wait(), every)
            except TimeoutError:
                pass
            try:
                snapshot, trouble = await read_snapshot(client, session), ""
            except (Unreachable, RetryLater) as error:
                trouble = display_text(error.message)


@contextmanager
def _keys(ended: asyncio.Event) -> Generator[None]:
    """Set the event when q is pressed, if standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        keys = os.read(keyboard, 64)
        if not keys or b"q" in keys.lower():
            ended.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, pressed)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
