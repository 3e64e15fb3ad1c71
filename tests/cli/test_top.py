"""`circadia top`."""

import asyncio
import fcntl
import io
import os
import pty
import signal
import struct
import termios
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from circadia.cli.monitoring.top import TopSnapshot, frame
from circadia.records.agent import Cause
from circadia.schemas.agents import AgentView
from circadia.schemas.fleet import HoldList, UsageLine, UsageReport
from tests.cli.terminal import PATIENCE_SECONDS, PROGRAM, refused, run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOTHING = UsageLine(
    calls=0, unknown=0, failed=0, input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0, cost_usd=0.0,
    unpriced=0, held_seconds=0.0,
)  # fmt: skip


def agent(name: str, *, sleeping: bool = False, held: int = 0) -> AgentView:
    return AgentView(
        id=name, name=name, session="default", reference=name, description="", enabled=True, sleeping=sleeping,
        since=NOW, cause=Cause.OPERATOR, actor="operator", generation=1, held=held, sleep_events=[], wake_events=[],
        next=None, policy=None, in_file=False, created_at=NOW,
    )  # fmt: skip


def drawn(agents: list[AgentView], *, height: int | None, trouble: str = "") -> list[str]:
    picture = TopSnapshot(
        at=NOW,
        agents=agents,
        holds=HoldList(holds=[], total=0, elsewhere=[], total_elsewhere=0),
        usage=UsageReport(group_by="agent", usage=[], total=NOTHING, next=None),
        events=[],
    )
    screen = Console(file=io.StringIO(), width=120)
    with screen.capture() as caught:
        screen.print(frame(picture, "http://127.0.0.1:4114", height, trouble))
    return caught.get().splitlines()


async def test_one_frame_shows_agents_totals_and_events(operator: CircadiaProcess) -> None:
    await operator.create_session("once", [{"name": "ann"}, {"name": "bob", "sleep_events": ["agent_started"]}])
    out = (await run("top", "--once", "--session", "once")).out
    assert "agents 2, asleep 1" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["once:ann", "awake"] in [row[:2] for row in rows]
    assert ["once:bob", "asleep"] in [row[:2] for row in rows]
    assert "agent_created" in out
    assert max(map(len, out.splitlines())) < 300, "nothing is drawn across a width that is not there"


async def test_a_program_gets_the_same_as_json(operator: CircadiaProcess) -> None:
    await operator.create_session("json", [{"name": "ann"}])
    document = (await run("top", "--json")).json
    assert set(document) == {"at", "agents", "holds", "held", "usage", "events"}
    assert "json:ann" in [each["reference"] for each in document["agents"]]


async def test_an_unknown_session_is_told(operator: CircadiaProcess) -> None:
    async with asyncio.timeout(60):
        piped = await run("top", "--session", "once")
    assert piped.status == 0
    assert "once:ann" in piped.out, "where nobody can end it, it ends by itself"
    refused(await run("top", "--once", "--session", "nowhere"), 4, "'nowhere'")


async def test_agents_with_held_calls_come_first_and_a_small_screen_says_what_it_leaves_out() -> None:
    agents = [agent(f"a{number:02}") for number in range(30)]
    agents += [agent("waiting", sleeping=True, held=2), agent("napping", sleeping=True)]
    lines = drawn(agents, height=15)
    assert len(lines) <= 15
    assert [line.split()[0] for line in lines[3:6]] == ["agent", "waiting", "napping"]
    assert "… and 25 more" in lines
    assert not any("more" in line for line in drawn(agents, height=None))


async def test_a_server_that_is_away_is_told_above_the_last_picture() -> None:
    lines = drawn([agent("ann")], height=15, trouble="no server answers")
    assert "no server answers" in lines
    assert any(line.startswith("ann") for line in lines)


@pytest.mark.parametrize(("by", "status"), [("q", 0), ("Ctrl-C", 130)])
async def test_the_live_view_shows_a_change_and_gives_the_screen_back_at_its_end(
    operator: CircadiaProcess, by: str, status: int
) -> None:
    session = f"live-{status}"
    await operator.create_session(session, [{"name": "ann"}])
    keyboard, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    before = termios.tcgetattr(screen)
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "top", "--session", session, "--every", "0.2",
        stdin=screen, stdout=screen, stderr=screen, env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    try:
        seen = TerminalScreen(keyboard)
        await seen.until(b"awake")
        await operator.put_sleeping(session, "ann", True)
        await seen.until(b"asleep")
        if by == "q":
            os.write(keyboard, b"q")
        else:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == status
        await seen.until(b"\x1b[?1049l")
        assert modes(termios.tcgetattr(screen)) == modes(before)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        asyncio.get_running_loop().remove_reader(keyboard)
        os.close(keyboard)
        os.close(screen)


def modes(attributes: list[Any]) -> list[Any]:
    """Return the flags of a terminal: input, output, control, local."""
    return attributes[:4]


class TerminalScreen:
    """What a program draws on a terminal."""

    def __init__(self, keyboard: int) -> None:
        self._drawn = b""
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(keyboard, self._read, keyboard)

    async def until(self, word: bytes) -> None:
        """Wait until the word is drawn, and forget what came up to it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while word not in self._drawn:
                self._changed.clear()
                await self._changed.wait()
        self._drawn = self._drawn.partition(word)[2]

    def _read(self, keyboard: int) -> None:
        self._drawn += os.read(keyboard, 65536)
        self._changed.set()
