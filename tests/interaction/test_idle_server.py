"""What an idle server asks its database for, whatever is stored: a look for due work each second, and little else."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import CHAT, live
from tests.recording.statement_recorder import SentStatement, recorded

pytestmark = pytest.mark.spec("LARGE-06", "CLU-02")

SECONDS = 60
LOOK = "AS checks"
LEASE = ("members", "leads", "SELECT clock_timestamp()")
"""What a member of a cluster asks for to keep its lease."""


@pytest.fixture(params=["sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The configuration of a server on each database, whose passes begin only when asked for."""
    manual: dict[str, Any] = {"sleeptime": {"model": "none", "when": "manual"}}
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return manual if url is None else {**manual, "server": {"database_url": url}}


async def test_an_idle_server_makes_two_trips_a_second_at_most_and_writes_nothing_but_its_lease(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    clock = LeapClock()
    async with live(tmp_path, clock=clock, **sections) as at:
        for name in ("ann", "bob"):  # two banks with something that no pass has read
            async with at.call(await at.agent(name, bank=name), body=CHAT) as response:
                assert response.status == 200
                await response.read()
        await at.server.exchanges.flush()
        await at.server.journal.flush()
        await fetch_statements(clock, SECONDS)  # what has just happened is still worked on
        sent = await fetch_statements(clock, SECONDS)
    assert len(sent) <= 2 * SECONDS
    assert not [each for each in sent if each.startswith(("INSERT", "UPDATE"))]


async def fetch_statements(clock: LeapClock, seconds: int) -> list[str]:
    """Let time pass by the second; return the statements of the whole process but those for its lease."""
    sent: list[str] = []
    loop = asyncio.get_running_loop()
    looked = asyncio.Event()

    def take(statement: SentStatement) -> None:
        if LOOK in statement.text:
            loop.call_soon_threadsafe(looked.set)
        if not any(part in statement.text for part in LEASE):
            sent.append(statement.text)

    async with asyncio.timeout(60):
        with recorded(take):
            for _ in range(seconds):
                looked.clear()
                clock.leap(1.0)
                await looked.wait()
    return sent
