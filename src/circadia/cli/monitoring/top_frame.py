"""What `circadia top` draws: a snapshot of the fleet, as wide and as high as the terminal, and what keys change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from circadia.cli.monitoring.events import event_line
from circadia.cli.terminal.output import display_text, dollars, format_duration, shorten, state_text, table, time_since
from circadia.schemas.agents import AgentView
from circadia.schemas.events import EventView
from circadia.schemas.fleet import GroupUsage, HoldList, UsageReport
from circadia.schemas.wakes import PulseView

EVENT_ROWS: Final = 8
MIN_AGENT_ROWS: Final = 3
OTHER_ROWS: Final = 8
"""Rows of a frame besides agents and events: totals, headings, empty lines, the footer."""
_COLUMNS: Final = (
    "agent", "state", "for", "running", "wakes next", "budget today", "held", "longest", "calls", "in", "out", "cost",
)  # fmt: skip
_NUMBERS: Final = _COLUMNS[6:]
_LEAST_WANTED: Final = ("out", "in", "longest", "calls", "cost", "wakes next", "budget today", "running", "for", "held")
"""Columns to leave out of a narrow frame, in this order."""
_GAP: Final = 2
_LETTERS: Final = 40
_NEARLY: Final = 0.8
"""Used share of a budget from which it is shown as a warning."""
_KEYS: Final[Mapping[bytes, str]] = {
    b"\x1b[A": "k", b"\x1bOA": "k", b"\x1b[B": "j", b"\x1bOB": "j", b"\x1b[5~": "b", b"\x1b[6~": " ",
    b"\x1b[H": "g", b"\x1b[1~": "g", b"\x1b[F": "G", b"\x1b[4~": "G",
}  # fmt: skip
"""Arrows, Page Up and Page Down, Home and End, as the letters of `less`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopSnapshot:
    """The server's state at one instant, with agents of all open sessions or of the chosen one."""

    at: datetime
    agents: Sequence[AgentView]
    pulses: Sequence[PulseView]
    """The pulses that run."""
    holds: HoldList
    usage: UsageReport
    today: UsageReport
    events: Sequence[EventView]


@dataclass(slots=True)
class TopControl:
    """What a person has chosen: the first agent to show, and words that an agent must have."""

    words: str = ""
    top: int = 0
    page: int = 1
    """Agents that the last frame showed."""
    is_typing: bool = False
    is_ended: bool = False

    def press(self, keys: bytes) -> None:
        """Apply what the keyboard sent."""
        while keys:
            name = next((each for each in _KEYS if keys.startswith(each)), keys[:1])
            keys = keys[len(name) :]
            letter = _KEYS.get(name) or name.decode("ascii", "ignore")
            if self.is_typing and name not in _KEYS:
                self._type(letter)
            else:
                self._move(letter)

    def _type(self, letter: str) -> None:
        self.top = 0
        if letter in "\r\n":
            self.is_typing = False
        elif letter == "\x1b":
            self.is_typing, self.words = False, ""
        elif letter in "\x7f\b":
            self.words = self.words[:-1]
        elif letter.isprintable():
            self.words += letter

    def _move(self, letter: str) -> None:
        steps = {"j": 1, "k": -1, " ": self.page, "b": -self.page, "g": -self.top, "G": 1_000_000_000}
        if letter in ("q", "Q"):
            self.is_ended = True
        elif letter == "/":
            self.is_typing = True
        elif letter == "\x1b":
            self.words, self.top = "", 0
        else:
            self.top = max(0, self.top + steps.get(letter, 0))

    def show_page(self, count: int, room: int | None) -> slice:
        """Return which of `count` agents to show in so many rows."""
        self.page = count if room is None else max(1, room)
        self.top = min(self.top, max(0, count - self.page))
        return slice(self.top, self.top + self.page)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    cells: Sequence[object]
    words: str


def frame(
    snapshot: TopSnapshot, url: str, height: int | None, trouble: str = "", control: TopControl | None = None
) -> RenderableType:
    """Return the snapshot for a terminal, cut to `height` rows."""
    control = control or TopControl()
    room = None if height is None else max(MIN_AGENT_ROWS, height - OTHER_ROWS - len(snapshot.events))
    parts: list[RenderableType] = [_headline(snapshot, url, trouble), *_agents(snapshot, room, control)]
    if snapshot.events:
        lines = [event_line(event, short=True) for event in snapshot.events]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        parts += [Text("\nevents", "bold"), *lines]
    if height is not None:
        typed = f"/{control.words}▏  Enter keeps, Esc clears" if control.is_typing else "/ filters"
        parts.append(Text(f"q quits   ↑ ↓ PgUp PgDn scroll   {typed}", "dim", no_wrap=True, overflow="ellipsis"))
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
        f", running {len(snapshot.pulses)}   held {snapshot.holds.total}   calls {total.calls:,}   tokens {tokens}   ",
        f"cost {dollars(total.cost_usd)}, today {dollars(snapshot.today.total.cost_usd)}",
        no_wrap=True,
        overflow="ellipsis",
    )
    return line.append(f"\n{trouble}", "bold red") if trouble else line.append("\n")


def _agents(snapshot: TopSnapshot, room: int | None, control: TopControl) -> list[RenderableType]:
    words = control.words.casefold().split()
    rows = [row for row in _rows(snapshot) if all(word in row.words for word in words)]
    page = control.show_page(len(rows), room)
    chosen = rows[page]
    parts: list[RenderableType] = [_FittingTable(rows=[row.cells for row in chosen])]
    above, below = page.start, max(0, len(rows) - page.stop)
    if words:
        parts.append(Text(f"{len(rows)} of {len(snapshot.agents)} agents have {control.words!r}", "dim"))
    if above:
        parts.append(Text(f"… {above} above and {below} more below", "dim"))
    elif below:
        parts.append(Text(f"… and {below} more", "dim"))
    return parts


@dataclass(frozen=True, kw_only=True, slots=True)
class _FittingTable:
    """A table of agents with the columns that the terminal has room for."""

    rows: Sequence[Sequence[object]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        cells = [[each.plain if isinstance(each, Text) else display_text(each) for each in row] for row in self.rows]
        widths = {
            name: max(cell_len(text) for text in (name, *(row[at] for row in cells))) + _GAP
            for at, name in enumerate(_COLUMNS)
        }
        for name in _LEAST_WANTED:
            if sum(widths.values()) - _GAP <= options.max_width:
                break
            del widths[name]
        shown = [at for at, name in enumerate(_COLUMNS) if name in widths]
        yield table(
            [_COLUMNS[at] for at in shown],
            [[row[at] for at in shown] for row in self.rows],
            numbers=[name for name in _NUMBERS if name in widths],
        )


def _rows(snapshot: TopSnapshot) -> list[_Row]:
    """Return a row for each agent: held calls first, then running pulses, then those who sleep."""
    usage, today = ({line.key: line for line in report.usage} for report in (snapshot.usage, snapshot.today))
    pulses = {pulse.agent: pulse for pulse in reversed(snapshot.pulses)}
    longest: dict[str, float] = {}
    for hold in snapshot.holds.holds:
        longest[hold.reference] = max(longest.get(hold.reference, 0.0), hold.waited_seconds)

    def place(agent: AgentView) -> tuple[int, bool, bool, str]:
        return -agent.held, agent.reference not in pulses, not agent.sleeping, agent.reference

    return [
        _row(agent, pulses.get(agent.reference), usage, today, longest.get(agent.reference), snapshot.at)
        for agent in sorted(snapshot.agents, key=place)
    ]


def _row(
    agent: AgentView,
    pulse: PulseView | None,
    usage: Mapping[str, GroupUsage],
    today: Mapping[str, GroupUsage],
    longest: float | None,
    now: datetime,
) -> _Row:
    used = usage.get(agent.reference)
    counts = (
        ("–", "–", "–", "–")
        if used is None
        else (f"{used.calls:,}", f"{used.input_tokens:,}", f"{used.output_tokens:,}", dollars(used.cost_usd))
    )
    state = state_text(agent.sleeping) if agent.enabled else Text("disabled", "dim")
    share, spent = _budget(agent, today.get(agent.reference))
    budget = Text(spent, "bold red" if share >= 1 else "yellow" if share >= _NEARLY else "") if spent else None
    running = None if pulse is None else _pulse(pulse, now)
    coming = None if agent.next is None else f"in {format_duration((agent.next.at - now).total_seconds())}: "
    following = None if agent.next is None else shorten(f"{coming}{agent.next.by}", _LETTERS)
    waited = None if longest is None else format_duration(longest)
    marks = (
        agent.reference, state.plain, "held" if agent.held else "", "running" if pulse else "", running or "",
        following or "", "over budget" if share >= 1 else "",
    )  # fmt: skip
    cells = (
        agent.reference, state, time_since(agent.since, now), running and Text(display_text(running), "cyan"),
        following, budget, agent.held or "–", waited, *counts,
    )  # fmt: skip
    return _Row(cells=cells, words=" ".join(marks).casefold())


def _pulse(pulse: PulseView, now: datetime) -> str:
    ran = "starting" if pulse.started_at is None else time_since(pulse.started_at, now)
    cause = f"routine {pulse.routine}" if pulse.routine else f"{pulse.kind.value} by {pulse.by}"
    return shorten(f"{ran}: {cause}", _LETTERS)


def _budget(agent: AgentView, used: GroupUsage | None) -> tuple[float, str]:
    """Return how much of its budget the agent has used today, as a share and in words; the one that ends first."""
    if agent.policy is None:
        return 0.0, ""
    calls, tokens, usd = (
        (0, 0, 0.0) if used is None else (used.calls, used.input_tokens + used.output_tokens, used.cost_usd)
    )
    policy = agent.policy
    limits = ((policy.max_usd_per_day, usd, ""), (policy.max_calls_per_day, calls, " calls"),
              (policy.max_tokens_per_day, tokens, " tokens"))  # fmt: skip
    shares = [
        (spent / limit if limit else 1.0, f"{_amount(spent, unit)} of {_amount(limit, unit)}{unit}")
        for limit, spent, unit in limits
        if limit is not None
    ]
    return max(shares, default=(0.0, ""))


def _amount(value: float, unit: str) -> str:
    return f"{value:,}" if unit else dollars(value)
