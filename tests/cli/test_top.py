"""`circadia top`."""

import asyncio
import fcntl
import io
import os
import pty
import signal
import struct
import termios
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from circadia.cli.monitoring.top_frame import TopControl, TopSnapshot, frame
from circadia.records.agent import AgentPolicy, Cause
from circadia.schemas.agents import AgentView, NextWakeView
from circadia.schemas.fleet import GroupUsage, HoldList, UsageLine, UsageReport
from tests.cli.terminal import PATIENCE_SECONDS, PROGRAM, refused, run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOTHING = UsageLine(
    calls=0, unknown=0, failed=0, input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0, cost_usd=0.0,
    unpriced=0, held_seconds=0.0,
)  # fmt: skip


def agent(name: str, *, sleeping: bool = False, held: int = 0, **more: Any) -> AgentView:
    stated: dict[str, Any] = {
        "id": name, "name": name, "session": "default", "reference": name, "description": "", "enabled": True,
        "sleeping": sleeping, "since": NOW, "cause": Cause.OPERATOR, "actor": "operator", "generation": 1,
        "held": held, "sleep_events": [], "wake_events": [], "next": None, "policy": None, "in_file": False,
        "created_at": NOW,
    }  # fmt: skip
    return AgentView(**{**stated, **more})


def drawn(
    agents: list[AgentView],
    *,
    height: int | None,
    trouble: str = "",
    width: int = 120,
    control: TopControl | None = None,
    today: Sequence[GroupUsage] = (),
) -> list[str]:
    picture = TopSnapshot(
        at=NOW,
        agents=agents,
        pulses=[],
        holds=HoldList(holds=[], total=0, elsewhere=[], total_elsewhere=0),
        usage=UsageReport(group_by="agent", usage=[], total=NOTHING, next=None),
        today=UsageReport(group_by="agent", usage=list(today), total=NOTHING, next=None),
        events=[],
    )
    screen = Console(file=io.StringIO(), width=width)
    with screen.capture() as caught:
        screen.print(frame(picture, "http://127.0.0.1:4114", height, trouble, control))
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
    assert set(document) == {"at", "agents", "pulses", "holds", "held", "usage", "today", "events"}
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


async def test_a_wider_terminal_shows_more_columns_and_a_row_never_takes_two_lines() -> None:
    policy = AgentPolicy(max_calls_per_day=200, max_usd_per_day=5.0)
    planned = NextWakeView(at=NOW + timedelta(minutes=5), by="routine nightly")
    agents = [agent("writer", sleeping=True, next=planned, policy=policy), agent("lead")]
    used = GroupUsage.model_validate(
        {**NOTHING.model_dump(), "calls": 170, "cost_usd": 1.0, "key": "writer", "keys": ["writer"]}
    )
    shown = {width: drawn(agents, height=24, width=width, today=[used]) for width in (40, 80, 160)}
    for width, lines in shown.items():
        assert max(map(len, lines)) <= width
        assert [line.split()[0] for line in lines[3:6]] == ["agent", "writer", "lead"]
    assert "in 5 min 0 s: routine nightly" not in shown[40][4]
    assert "in 5 min 0 s: routine nightly" in shown[160][4]
    assert "170 of 200 calls" in shown[160][4], "the budget that ends first"
    columns = [len(lines[3].split()) for lines in shown.values()]
    assert columns == sorted(set(columns))


async def test_keys_scroll_to_the_last_agent_and_back() -> None:
    agents, control = [agent(f"a{number:02}") for number in range(30)], TopControl()

    def names(keys: bytes) -> list[str]:
        control.press(keys)
        return [
            line.split()[0]
            for line in drawn(agents, height=15, control=control)
            if line.startswith("a") and "awake" in line
        ]

    first = names(b"")
    assert first == [f"a{number:02}" for number in range(7)]
    assert names(b"j\x1b[B")[0] == "a02"
    assert names(b"\x1b[A")[0] == "a01"
    assert names(b"\x1b[6~")[0] == "a08"
    assert names(b"\x1b[F")[-1] == "a29"
    assert len(names(b"jjjj")) == 7
    assert names(b"\x1b[H") == first
    control.press(b"G")
    assert "… 23 above and 0 more below" in drawn(agents, height=15, control=control)


async def test_typed_words_filter_agents_by_name_and_state() -> None:
    over = AgentPolicy(max_calls_per_day=0)
    agents = [agent("writer", sleeping=True), agent("lead"), agent("tester", sleeping=True, policy=over)]
    control = TopControl()

    def names(keys: bytes) -> list[str]:
        control.press(keys)
        lines = drawn(agents, height=24, control=control)
        return [line.split()[0] for line in lines if line.split() and line.split()[0] in {"writer", "lead", "tester"}]

    assert names(b"/asleep q") == [], "q is a letter while somebody types"
    assert names(b"\x7f\x7f\r") == ["tester", "writer"]
    assert "2 of 3 agents have 'asleep'" in drawn(agents, height=24, control=control)
    assert names(b"\x1b/over budget\r") == ["tester"]
    assert names(b"\x1b") == ["tester", "writer", "lead"]
    assert not control.is_ended
    control.press(b"q")
    assert control.is_ended


async def test_a_frame_shows_running_pulses_next_wakes_and_budgets(operator: CircadiaProcess) -> None:
    agents: list[dict[str, Any]] = [
        {"name": "ann", "policy": {"max_calls_per_day": 7}},
        {"name": "bob", "sleep_events": ["agent_started"]},
    ]
    await operator.create_session("busy", agents)
    plan = {"routines": [{"name": "tidy", "every_seconds": 86_400}]}
    await operator.call("PUT", "/agents/busy:ann/schedule", plan)
    await operator.call("POST", "/agents/busy:bob/pulses", {"reason": "try"})
    out = (await run("top", "--session", "busy")).out
    (ann,) = [line for line in out.splitlines() if line.startswith("busy:ann")]
    (bob,) = [line for line in out.splitlines() if line.startswith("busy:bob")]
    assert "0 of 7 calls" in ann
    assert ": routine tidy" in ann
    assert ": manual by " in bob
    assert "running 1" in out
    filtered = (await run("top", "--session", "busy", "--filter", "running")).out
    assert "busy:bob" in filtered
    assert not [line for line in filtered.splitlines() if line.startswith("busy:ann")]


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
        os.write(keyboard, b"/nobody")
        await seen.until(b"0 of 1 agents")
        os.write(keyboard, b"\x1b")
        await seen.until(b"ann")
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
