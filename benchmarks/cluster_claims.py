"""Workers that claim pulses: how fast, how often in vain, and that none is claimed twice or left.

`python -m benchmarks.cluster_claims URL WORKERS` prints `ready`, and after a line on stdin its claims as JSON.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import uvloop

from benchmarks.cluster_process import ClusterMember, prepare
from benchmarks.postgres import analyze
from circadia.jobs.leased_jobs import LEASE_SECONDS
from circadia.records.pulse import PulseKind
from circadia.server.app import tune_interpreter
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals

PROCESSES: Final = 2
FREE_PLACES: Final = 4
"""Most pulses of a claim."""
LAUNCHERS: Final = ("own",)
_AT_ONCE: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimResult:
    """What the claims of all workers came to."""

    workers: int
    jobs: int
    claims: int
    empty: int
    """Claims that found nothing while pulses were pending."""
    wrong: int
    """Pulses that were claimed twice or never."""
    seconds: float

    @property
    def rate(self) -> float:
        """Return the claims a second."""
        return self.claims / self.seconds


async def measure_claims(url: str, workers: int, jobs: int) -> ClaimResult:
    """Let workers claim so many pulses on an empty database."""
    await _add_pulses(url, jobs)
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.cluster_claims", url, str(workers // PROCESSES)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        await process.stdout.readline()
    answers = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    if any(process.returncode for process in processes):
        raise RuntimeError("a process that claims has failed; what it said stands above")
    found = [json.loads(out) for out, _ in answers]
    claimed = [each for one in found for each in one["claimed"]]
    return ClaimResult(
        workers=workers,
        jobs=jobs,
        claims=sum(one["claims"] for one in found),
        empty=sum(one["empty"] for one in found),
        wrong=len(claimed) - len(set(claimed)) + jobs - len(set(claimed)),
        seconds=max(one["seconds"] for one in found),
    )


async def _add_pulses(url: str, jobs: int) -> None:
    await prepare(url, writers=1, sessions=1)
    store = await open_postgres(url)
    member = ClusterMember(store, LocalSignals())
    async with store.begin_read() as tx:
        home = await tx.sessions.get_by_name("home-0")
        assert home is not None
        agents = await tx.agents.find_by_session(home.id)
    for first in range(0, jobs, _AT_ONCE):
        async with store.begin_write() as tx:
            for at in range(first, min(jobs, first + _AT_ONCE)):
                agent = agents[at % len(agents)]
                await member.tier.rows.add(
                    tx, agent, kind=PulseKind.WAKE, by="benchmark", reason="claimed", running=False, wake=None
                )  # fmt: skip
    await store.close()
    await analyze(url)


async def _claim_all(member: ClusterMember, owner: str) -> tuple[list[str], int, int]:
    """Claim until nothing is pending; return what was claimed, the claims, and those in vain."""
    claimed: list[str] = []
    claims = empty = 0
    while True:
        now = member.clock.now()
        until = now + timedelta(seconds=4 * LEASE_SECONDS)
        async with member.store.begin_write() as tx:
            pulses = await tx.pulses.claim(owner, LAUNCHERS, now=now, until=until, limit=FREE_PLACES)
        claims += 1
        claimed += [pulse.id for pulse in pulses]
        if not pulses:
            async with member.store.begin_single_read() as tx:
                if not await tx.pulses.has_startable(now, LAUNCHERS):
                    return claimed, claims, empty
            empty += 1


async def _serve(url: str, workers: int) -> None:
    store = await open_postgres(url, writers=workers)
    member = ClusterMember(store, LocalSignals())
    tune_interpreter()
    await asyncio.gather(*(_open_connection(member) for _ in range(workers)))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began = time.perf_counter()
    found = await asyncio.gather(*(_claim_all(member, member.ids.new("exe")) for _ in range(workers)))
    seconds = time.perf_counter() - began
    await store.close()
    claimed: Sequence[str] = [each for one in found for each in one[0]]
    claims, empty = sum(one[1] for one in found), sum(one[2] for one in found)
    print(json.dumps({"claimed": claimed, "claims": claims, "empty": empty, "seconds": seconds}))


async def _open_connection(member: ClusterMember) -> None:
    """Claim nothing, so that each worker has its connection and its statement."""
    now = member.clock.now()
    async with member.store.begin_write() as tx:
        await tx.pulses.claim("nobody", LAUNCHERS, now=now, until=now, limit=0)


def main(url: str, workers: str) -> None:
    """Claim in this process."""
    uvloop.run(_serve(url, int(workers)))


if __name__ == "__main__":
    main(*sys.argv[1:])
