"""What a day of a fleet came to, as a table: what was measured, and what it scales to."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from benchmarks.admission_process import WRITERS
from benchmarks.holds import quantile
from benchmarks.report import Goal, Report, number
from circadia.server.membership import BEAT_SECONDS
from circadia.server.sweeps import RETIRED_AT_ONCE

DAY_SECONDS: Final = 86_400
LOOK_LIMIT_MS: Final = 10
"""What the look for due work may take at the median, whatever the number of agents."""
CONNECTIONS: Final = {"4 readers, 8 writers": 16, "1 reader, 2 writers": 7}
"""Of a member: its readers, its writers and the connection for signals."""
KEPT_DAYS: Final = 90
"""What `retention` and `limits.keep_handled_days` keep by default."""
CORES: Final = os.cpu_count() or 1
GROWING: Final = ("events", "wakes", "pulses", "messages", "deliveries")


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    agents: int = 1_000_000
    session_size: int = 1_000
    members: int = 100
    messages: float = 1.0
    """That an agent sends in a day, each with a request to wake the other."""
    minutes: int = 8
    """Of the day that run, evenly spread; the others are planned on without running."""
    report_seconds: float = 11.0
    """After which a connection without work has reported to PostgreSQL's statistics."""


@dataclass(kw_only=True, slots=True)
class DayResult:
    """What the sampled minutes came to."""

    by_schedule: int = 0
    by_message: int = 0
    seconds: float = 0.0
    """Real time of the sampled minutes."""
    python_seconds: float = 0.0
    postgres_seconds: float = 0.0
    transactions: int = 0
    rows: int = 0
    """Inserted, updated and deleted."""
    scanned_rows: int = 0
    """Rows of agents and routines that scans of the whole table read."""
    log_bytes: float = 0.0
    trips: float = 0.0
    """Of one wake, in a further minute behind a proxy that counts."""
    sizes: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """By table: bytes at the start of the day, and bytes that one wake added."""
    look_ms: list[float] = field(default_factory=list[float])
    vacuumed_look_ms: list[float] = field(default_factory=list[float])
    """The same after a vacuum of all tables, which removes dead entries from the indexes."""
    sweep_ms: list[float] = field(default_factory=list[float])
    """Of finding the routines that are due, and the next one."""
    beat_ms: list[float] = field(default_factory=list[float])
    cut: int = 0
    """Blocks that failed."""
    left: dict[str, int] = field(default_factory=dict[str, int])
    """Rows of the sample that retention deletes later, by table."""
    retired: int = 0
    """Rows that it deleted in `retired_seconds`."""
    retired_seconds: float = 0.0
    load_seconds: float = 0.0
    version: str = ""
    """Of PostgreSQL."""

    @property
    def wakes(self) -> int:
        return self.by_schedule + self.by_message


def build_report(size: Size, day: DayResult, notes: Sequence[str]) -> Report:
    return Report(
        name="fleet_day",
        title=f"A day of {size.agents:,} agents and {size.members} members on one PostgreSQL",
        columns=["", "measured", "in the day"],
        rows=_rows(size, day) if day.wakes else [],
        goals=_goals(size, day),
        notes=[*(_notes(size, day) if day.wakes else ()), *notes],
        figures=asdict(day),
    )


def _needed(size: Size) -> float:
    """Return the wakes a second that the day needs, on average."""
    return size.agents * (1 + size.messages) / DAY_SECONDS


def _rows(size: Size, day: DayResult) -> list[list[str]]:
    needed, wakes = _needed(size), day.wakes
    transactions, rows, log_kb = day.transactions / wakes, day.rows / wakes, day.log_bytes / wakes / 1e3
    python_ms, postgres_ms = (seconds * 1000 / wakes for seconds in (day.python_seconds, day.postgres_seconds))
    kept = needed * DAY_SECONDS * KEPT_DAYS
    deleted, left = day.retired / day.retired_seconds, sum(day.left.values()) / wakes
    return [
        ["wakes by schedule", f"{day.by_schedule:,}", f"{size.agents:,}"],
        ["wakes by message", f"{day.by_message:,}", f"{round(size.agents * size.messages):,}"],
        ["wakes with their pulses a second", number(wakes / day.seconds), f"{number(needed)} on average"],
        ["statements of a wake", number(day.trips), f"{number(day.trips * needed)} a second"],
        ["transactions of a wake", number(transactions), f"{number(transactions * needed)} a second"],
        ["rows that a wake writes", number(rows), f"{number(rows * needed)} a second"],
        ["log of a wake, KB", number(log_kb), f"{number(log_kb * needed * DAY_SECONDS / 1e6)} GB"],
        ["Python's processor time of a wake, ms", number(python_ms), f"{number(python_ms * needed / 1e3)} cores"],
        ["PostgreSQL's, ms", number(postgres_ms), f"{number(postgres_ms * needed / 1e3)} cores"],
        ["look for due work, ms p50", number(quantile(day.look_ms, 0.5)), f"{size.members} a second"],
        ["the same after a vacuum", number(quantile(day.vacuumed_look_ms, 0.5)), f"{size.members} a second"],
        ["schedule sweep, ms p50", number(quantile(day.sweep_ms, 0.5)), "1 a second and 100 routines"],
        ["beat of a member, ms p50", number(quantile(day.beat_ms, 0.5)), f"{size.members / BEAT_SECONDS:g} a second"],
        *([f"table {name}, MB", number(day.sizes[name][0] / 1e6), "the same"] for name in ("agents", "routines")),
        *(
            [f"table {name}: bytes of a wake; GB after {KEPT_DAYS} days", number(day.sizes[name][1]),
             number(day.sizes[name][1] * kept / 1e9)]
            for name in GROWING
        ),
        ["rows that retention deletes a second", number(deleted), f"{number(left * needed)} needed"],
        *(
            [f"connections, {name}", str(count), f"{count * size.members:,}"]
            for name, count in CONNECTIONS.items()
        ),
    ]  # fmt: skip


def _goals(size: Size, day: DayResult) -> list[Goal]:
    has = bool(day.wakes)
    return [
        Goal(
            what="wakes with their pulses a second, one process", limit=_needed(size), unit="a second",
            bound="at least", found=day.wakes / day.seconds if has else None,
        ),
        Goal(
            what="look for due work, p50", limit=LOOK_LIMIT_MS, unit="ms",
            found=quantile(day.look_ms, 0.5) if has else None,
        ),
        Goal(
            what="rows of agents and routines that scans of the whole table read, for a wake", limit=1, unit="rows",
            found=day.scanned_rows / day.wakes if has else None,
        ),
    ]  # fmt: skip


def _notes(size: Size, day: DayResult) -> list[str]:
    postgres_ms = day.postgres_seconds * 1000 / day.wakes
    most = CORES * 1000 / postgres_ms
    events = day.left["events"] / day.wakes
    return [
        f"Measured: {size.minutes} minutes of the day, with all that is due in them, one after the other, by one "
        f"process with {WRITERS} writers, on PostgreSQL {day.version} with its defaults. The second column is "
        "scaled to the day. Between the minutes, one UPDATE plans on.",
        f"All {size.agents:,} agents and their routines are rows, made in {day.load_seconds:,.0f} s. An agent is due "
        f"once a day and sends {size.messages:g} message a day that asks for a wake; both are spread evenly.",
        "A proxy counts the statements in one more minute. All figures of a wake hold the decision, the claim, the "
        "pulse, its end and the numbering of events; they hold neither the agent nor model calls and memory.",
        f"Beats and looks of members are timed one at a time, after {size.members} have joined. They hold no calls. "
        f"Blocks that failed on this machine and were tried no more: {day.cut}.",
        f"Where one PostgreSQL ends: at {postgres_ms:.1f} ms a wake its {CORES} cores do at most {most:,.0f} wakes a "
        f"second, {most * 0.0864:,.1f} million a day, if the disk is not the limit. Here they serve Python too.",
        f"The leader's retention deletes at most {RETIRED_AT_ONCE} rows of a kind a second. A wake leaves {events:.1f} "
        f"events, so retention keeps up with {RETIRED_AT_ONCE / events:,.0f} wakes a second.",
    ]
