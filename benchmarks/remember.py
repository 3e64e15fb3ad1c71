"""What it takes to remember, durable, embedding aside, next to bare commits on the same disk in the same run.

`python -m benchmarks.remember WHERE WRITES ROUNDS WRITERS…` prints what the service takes in this process, as JSON;
WHERE is a path of SQLite or a URL of PostgreSQL.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.disk import commit_milliseconds
from benchmarks.holds import quantile
from benchmarks.postgres import NoPostgres, postgres
from benchmarks.report import Goal, Report, number
from benchmarks.server import Circadia, circadia
from benchmarks.tools import slow_sync
from benchmarks.turns import Turn, Turns
from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.records.bank import Bank, Trust
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

BANK: Final = "bench"
ROW_BYTES: Final = 900
"""About what an episode's row has: its text, the hashes of its words, ids, times."""
TIMES_P50: Final = 2
"""How many bare commits a remembering may take, at the median."""
TIMES_P95: Final = 3
"""The same at the 95th centile."""
LIMIT_MS: Final = 5
"""What it may take at the 95th centile."""
SLOW_MS: Final = 3
"""By so much a sync takes longer on the slower disk."""
SLOWER: Final = f", syncs {SLOW_MS} ms slower"


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    writes: int = 200
    """Of each writer, in a round."""
    writers: Sequence[int] = (1, 8)
    rounds: int = 3
    """Bare commits and remembering take turns."""
    slow_disks: bool = True
    """Whether slower disks are tried too."""


QUICK: Final = Size(writes=5, rounds=1, slow_disks=False)


@dataclass(kw_only=True, slots=True)
class RememberResult:
    """One way to remember, with so many writers."""

    way: str
    """Database and door."""
    writers: int
    ms: list[float] = field(default_factory=list[float])
    """Of each remembering."""
    bare_ms: list[float] = field(default_factory=list[float])
    """Of each bare commit."""
    rates: list[float] = field(default_factory=list[float])
    """Episodes a second, in each round."""
    bare_rates: list[float] = field(default_factory=list[float])
    """Bare commits a second, in each round."""

    def ratio(self, part: float) -> float:
        """Return how many bare commits of one writer a remembering takes, at this centile of both."""
        return quantile(self.ms, part) / quantile(self.bare_ms, part)

    @property
    def rate_ratio(self) -> float:
        """Return episodes a second for one bare commit a second."""
        return statistics.median(self.rates) / statistics.median(self.bare_rates)


Write = Callable[[Turn], Awaitable[None]]


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    turns = list(Turns(11).make(2 * size.rounds * size.writes * sum(size.writers)))
    slow = slow_sync(SLOW_MS) if size.slow_disks else None
    if slow is None:
        notes.append(f"The slow disk is left out: {'there is no C compiler' if size.slow_disks else 'a quick run'}.")
    found = await _at_the_service("SQLite", str(folder / "plain.db"), size)
    if slow is not None:
        found += await _at_the_service(f"SQLite{SLOWER}", str(folder / "slow.db"), size, slow)
    async with circadia(folder / "sqlite", {}) as server:
        found += await _through_rest("SQLite, REST", server, turns, str(folder / "rest.db"), size)
    try:
        async with postgres() as url:
            found += await _at_the_service("PostgreSQL", url, size)
            async with circadia(folder / "postgres", {"server": {"database_url": url}}) as server:
                found += await _through_rest("PostgreSQL, REST", server, turns, url, size)
        if slow is not None:
            async with postgres(slow) as url:
                found += await _at_the_service(f"PostgreSQL{SLOWER}", url, size)
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    return _report(found, notes)


async def _at_the_service(
    way: str, where: str, size: Size, environment: Mapping[str, str] | None = None
) -> list[RememberResult]:  # fmt: skip
    """Remember in a process of its own, without a door."""
    numbers = map(str, (size.writes, size.rounds, *size.writers))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.remember", where, *numbers, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"the process that remembers ended with {process.returncode}")
    return [RememberResult(way=way, **each) for each in json.loads(out)]


async def _served(where: str, size: Size) -> list[RememberResult]:
    """Remember in this process."""
    turns = list(Turns(11).make(2 * size.rounds * size.writes * sum(size.writers)))
    store: Store = await (open_postgres(where) if "://" in where else open_sqlite(Path(where)))
    try:
        clock, ids = SystemClock(), RandomIds(system_milliseconds)
        events = EventLog(clock, LocalSignals())
        episodes = EpisodeService(clock, ids, events)
        async with store.begin_write() as tx:
            bank: Bank = await BankService(clock, ids, events, {}).create(
                tx, NewBank(name=f"{BANK}-service"), by="benchmark"
            )

        async def write(turn: Turn) -> None:
            new = NewEpisode(
                text=turn.text, speaker=turn.speaker, conversation=turn.session, at=turn.at, trust=Trust.PERSON
            )
            async with store.begin_write() as tx:
                made = await episodes.remember(tx, bank, new)
            assert made.new

        return await _measured("", write, where, turns, size)
    finally:
        await store.close()


async def _through_rest(
    way: str, server: Circadia, turns: Sequence[Turn], beside: str, size: Size
) -> list[RememberResult]:  # fmt: skip
    await server.ask("POST", "banks", {"name": BANK})

    async def write(turn: Turn) -> None:
        body = {"text": turn.text, "speaker": turn.speaker, "conversation": turn.session, "at": turn.at.isoformat()}
        await server.ask("POST", f"banks/{BANK}/episodes", body)

    return await _measured(way, write, beside, turns, size)


async def _measured(way: str, write: Write, beside: str, turns: Sequence[Turn], size: Size) -> list[RememberResult]:
    """Let bare commits and remembering take turns, for each number of writers."""
    left = iter(turns)
    for _ in range(10):
        await write(next(left))  # warms up
    found: list[RememberResult] = []
    for writers in size.writers:
        each = RememberResult(way=way, writers=writers)
        for _ in range(size.rounds):
            began = time.monotonic()
            times = await commit_milliseconds(beside, size.writes, writers=writers, row_bytes=ROW_BYTES)
            each.bare_rates.append(len(times) / (time.monotonic() - began))
            each.bare_ms += times
            began = time.monotonic()
            written = await asyncio.gather(
                *(_some(write, [next(left) for _ in range(size.writes)]) for _ in range(writers))
            )
            each.rates.append(writers * size.writes / (time.monotonic() - began))
            each.ms += [ms for of_one in written for ms in of_one]
        found.append(each)
    return found


async def _some(write: Write, turns: Sequence[Turn]) -> list[float]:
    """Remember one after the other; return the milliseconds of each."""
    found: list[float] = []
    for turn in turns:
        began = time.monotonic()
        await write(turn)
        found.append((time.monotonic() - began) * 1000)
    return found


def _goals(found: RememberResult) -> list[Goal]:
    if found.writers > 1:
        what = f"{found.way}, {found.writers} writers: episodes a second for one bare commit a second"
        return [Goal(what=what, limit=1, unit="times", found=found.rate_ratio, bound="at least")]
    one = f"{found.way}, 1 writer"
    goals = [
        Goal(what=f"{one}: p50", limit=TIMES_P50, unit="bare commits", found=found.ratio(0.5)),
        Goal(what=f"{one}: p95", limit=TIMES_P95, unit="bare commits", found=found.ratio(0.95)),
    ]
    if SLOWER not in found.way:
        goals.append(Goal(what=f"{one}: p95", limit=LIMIT_MS, unit="ms", found=quantile(found.ms, 0.95)))
    return goals


def _report(found: Sequence[RememberResult], notes: Sequence[str]) -> Report:
    return Report(
        name="remember",
        title="Remembering an episode of some 25 words, durable before it is answered, embedding aside",
        columns=[
            "way, writers", "p50 ms", "p95 ms", "bare p50 ms", "bare p95 ms", "ratio p50", "ratio p95", "episodes/s",
            "bare commits/s", "ratio",
        ],
        rows=[
            [
                f"{each.way}, {each.writers}",
                *(number(quantile(values, part)) for values in (each.ms, each.bare_ms) for part in (0.5, 0.95)),
                number(each.ratio(0.5)),
                number(each.ratio(0.95)),
                number(statistics.median(each.rates)),
                number(statistics.median(each.bare_rates)),
                number(each.rate_ratio),
            ]
            for each in found
        ],
        goals=[goal for each in found if "REST" not in each.way for goal in _goals(each)],
        notes=[
            f"A bare commit is one row of {ROW_BYTES} bytes, with the same settings of the database, on the same disk, "
            "in turns with the remembering. SQLite commits one at a time, PostgreSQL on as many connections as there "
            "are writers.",
            "A remembering looks for a repetition, writes the episode and when the bank was written to, and is timed "
            "from the call to the disk. No model is called. The goals are for the service; REST adds HTTP, the check "
            "of the token and JSON, and its server embeds what was written in the background meanwhile.",
            f"The slower disk is this one with {SLOW_MS} ms added to each sync, for bare commits and all else: "
            "what a remembering takes of the processor counts less there.",
            "A ratio of rates above 1 is group commit: writers that wait together share one trip to the disk.",
            *notes,
        ],
        figures={f"{each.way}, {each.writers}": asdict(each) for each in found},
    )  # fmt: skip


def main(where: str, writes: str, rounds: str, *writers: str) -> None:
    """Print what was found in this process."""
    size = Size(writes=int(writes), rounds=int(rounds), writers=[int(each) for each in writers])
    told = [asdict(each) for each in uvloop.run(_served(where, size))]
    print(json.dumps([{key: value for key, value in each.items() if key != "way"} for each in told]))


if __name__ == "__main__":
    main(*sys.argv[1:])
