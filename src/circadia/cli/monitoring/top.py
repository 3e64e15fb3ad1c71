"""`circadia top`: a live view of agents, held calls and tokens."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from circadia.cli.arguments import OnlySession
from circadia.cli.connection import RemoteServer, gather_pages
from circadia.cli.monitoring.top_frame import EVENT_ROWS, TopControl, TopSnapshot, frame
from circadia.cli.terminal.output import AsJson, Output, display_text
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import RetryLater, Unreachable
from circadia.schemas.fleet import UsageReport

MAX_PULSES = 50
"""Running pulses to read; further ones are counted by their agents' state only."""
PAUSE_SHARE = 4
"""A reading of the server is followed by a pause of at least so many times its length."""

app = typer.Typer()


@app.command(epilog="Example: circadia top --session team")
def top(
    server: RemoteServer,
    session: OnlySession = None,
    words: Annotated[
        str, typer.Option("--filter", metavar="WORDS", help="Only agents whose row has these words.")
    ] = "",
    every: Annotated[float, typer.Option("--every", min=0.2, metavar="SECONDS", help="Seconds per refresh.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame and exit; the default without a terminal.")
    ] = False,
    as_json: AsJson = False,
) -> Output | None:
    """Show agents, held calls, tokens and events live. Press q or Ctrl-C to quit."""
    control = TopControl(words=words)
    if as_json or once or not sys.stdout.isatty():
        snapshot = server.ask(lambda client: read_snapshot(client, session))
        return Output(as_document(snapshot), lambda _: frame(snapshot, server.url, None, control=control))
    server.ask(lambda client: _live(client, session, server.url, every, control))
    return None


async def read_snapshot(client: Client, session: str | None) -> TopSnapshot:
    names = [session] if session else [session.name for session in await client.list_sessions()]
    midnight = SystemClock().now().date().isoformat()
    agents, states, holds, usage, today, newest = await asyncio.gather(
        asyncio.gather(*(client.list_agents(name) for name in names)),
        client.list_agent_states(),
        client.list_holds(session=session),
        _sum_usage(client, session, None),
        _sum_usage(client, session, midnight),
        client.list_events(limit=EVENT_ROWS, order="newest", session=session),
    )
    flat = [agent for group in agents for agent in group]
    pulsing = [state for state in states if state.pulsing and session in (None, state.session)]
    running = await asyncio.gather(
        *(client.list_pulses(f"{each.session}:{each.name}", limit=5) for each in pulsing[:MAX_PULSES])
    )
    pulses = [pulse for answer in running for pulse in answer.pulses if pulse.ended_at is None]
    return TopSnapshot(
        at=SystemClock().now(), agents=flat, pulses=pulses, holds=holds, usage=usage, today=today, events=newest[::-1]
    )


async def _sum_usage(client: Client, session: str | None, since: str | None) -> UsageReport:
    return await gather_pages(
        lambda place, count: client.usage("agent", session=session, since=since, after=place, limit=count),
        key="usage",
        limit=1_000_000,
        cursor="next",
    )


def as_document(snapshot: TopSnapshot) -> dict[str, Any]:
    return {
        "at": snapshot.at.isoformat(),
        "agents": snapshot.agents,
        "pulses": snapshot.pulses,
        "holds": snapshot.holds.holds,
        "held": snapshot.holds.total,
        "usage": snapshot.usage,
        "today": snapshot.today,
        "events": snapshot.events,
    }


async def _live(client: Client, session: str | None, url: str, every: float, control: TopControl) -> None:
    """Draw until a person quits; while the server is away, show the error and keep trying."""
    screen, clock = Console(), SystemClock()
    began = clock.monotonic()
    snapshot, trouble = await read_snapshot(client, session), ""
    pause = max(every, PAUSE_SHARE * (clock.monotonic() - began))
    pressed = asyncio.Event()
    reading: asyncio.Task[TopSnapshot] | None = None
    with _keys(control, pressed), Live(console=screen, screen=screen.is_terminal, auto_refresh=False) as live:
        while not control.is_ended:
            height = screen.size.height if screen.is_terminal else None
            live.update(frame(snapshot, url, height, trouble, control), refresh=True)
            pressed.clear()
            if reading is None:
                began = clock.monotonic()
                reading = asyncio.create_task(_read_later(client, session, pause))
            key = asyncio.create_task(pressed.wait())
            await asyncio.wait({key, reading}, return_when=asyncio.FIRST_COMPLETED)
            key.cancel()
            if reading.done():
                try:
                    snapshot, trouble = reading.result(), ""
                    pause = max(every, PAUSE_SHARE * (clock.monotonic() - began - pause))
                except (Unreachable, RetryLater) as error:
                    trouble = display_text(error.message)
                reading = None
    if reading is not None:
        reading.cancel()


async def _read_later(client: Client, session: str | None, seconds: float) -> TopSnapshot:
    await asyncio.sleep(seconds)
    return await read_snapshot(client, session)


@contextmanager
def _keys(control: TopControl, pressed: asyncio.Event) -> Generator[None]:
    """Apply keys, and set the event at each, if standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    loop = asyncio.get_running_loop()

    def read() -> None:
        keys = os.read(keyboard, 64)
        control.press(keys)
        control.is_ended = control.is_ended or not keys
        pressed.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, read)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
