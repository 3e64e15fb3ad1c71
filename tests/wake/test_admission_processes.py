"""Admission by several processes on one PostgreSQL database, of which some are killed."""

import asyncio
import random
import sys
from pathlib import Path

import pytest

from circadia.records.wake import Charge, Decision
from tests.wake.fleet import FREE, Fleet, postgres_fleet

PROCESSES = 3
ENOUGH_REFUSALS = 20


async def asking(url: str, run: str) -> asyncio.subprocess.Process:
    """Start a process that asks."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.wake.asking_process", url, run),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


async def lines(process: asyncio.subprocess.Process, wanted: int, word: str) -> list[str]:
    """Return what the process told until the word has come so often."""
    assert process.stdout is not None
    told: list[str] = []
    async with asyncio.timeout(60):
        while sum(line.startswith(word) for line in told) < wanted:
            line = (await process.stdout.readline()).decode()
            assert line, told
            told.append(line.strip())
    return told


async def counted(team: Fleet) -> int:
    """Return how many wakes count."""
    return sum(each.charge in (Charge.RESERVED, Charge.CHARGED) for each in await team.wakes())


@pytest.mark.spec("WAKE-12", "WAKE-13")
@pytest.mark.parametrize("seed", [1, 2])
async def test_processes_that_ask_at_once_and_die_admit_exactly_what_the_budget_allows(
    postgres_url: str, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    cap = chance.randrange(3, 12)
    async with postgres_fleet(postgres_url, "main") as team:
        await team.home()
        limits = {"max_wakes_per_day": cap}
        bob = await team.agent("bob", FREE, {"wake_guardrails": limits, "on_busy": "refuse"})
        for number in range(4):
            await team.agent(f"s{number}", FREE, asleep=False)
        processes = [await asking(postgres_url, f"p{number}") for number in range(PROCESSES)]
        try:
            await lines(processes[0], chance.randrange(1, 3), "")  # it is at work
            processes[0].kill()
            await processes[0].wait()
            # The killed one may have left the agent awake: the operator puts it to sleep, as often as that takes.
            for process in processes[1:]:
                while True:
                    await team.sleep(bob)
                    told = await lines(process, 5, "refused")
                    assert not [line for line in told if line.startswith("error")]
                    if sum("max_wakes_per_day" in line for line in told) >= 5:
                        break
            await lines(processes[1], ENOUGH_REFUSALS, "refused")
        finally:
            for process in processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()
        assert await counted(team) == cap
        assert len(await team.wakes(Decision.ADMITTED)) == cap
        assert len([each for each in await team.pulses() if each.kind.value == "wake"]) == cap
        assert {each.rule for each in await team.wakes(Decision.REFUSED)} <= {"max_wakes_per_day", "busy"}


@pytest.mark.spec("CLU-01", "WAKE-02")
async def test_the_first_messages_of_a_session_are_all_stored_when_they_come_at_once(postgres_url: str) -> None:
    async with postgres_fleet(postgres_url, "main") as team:
        await team.home()
        senders = [await team.agent(f"sender-{number}") for number in range(6)]
        targets = [await team.agent(f"target-{number}") for number in range(6)]
        pairs = zip(senders, targets, strict=True)
        await asyncio.gather(*(team.send(sender, target, wake=None) for sender, target in pairs))
        assert [await team.inbox(target) for target in targets] == [["help"]] * 6
