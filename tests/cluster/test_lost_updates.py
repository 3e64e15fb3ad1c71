"""Pairs of requests at two servers that each decide on what the other one changes: neither acts on an old state."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.doors import Doors, doors_of_two

pytestmark = pytest.mark.spec("CLU-01", "CLU-04")

ROUNDS = 5
SLEEPY = {"sleep_events": ["last_thread_closed", "removed_from_last_thread"]}


@pytest.fixture
async def doors(tmp_path: Path, postgres_url: str, late_locks: dict[str, str]) -> AsyncGenerator[Doors]:
    """Two servers whose blocks take no lock out of order."""
    sections = {"fleet": {"max_concurrent_pulses": 2}, "sleeptime": {"when": "manual", "model": "none"}}
    async with doors_of_two(tmp_path, postgres_url, **sections) as doors:
        yield doors
    assert not late_locks


async def is_asleep(doors: Doors, name: str) -> bool:
    return (await doors.get(f"/sessions/default/agents/{name}"))["sleeping"]


async def start_pulse(doors: Doors, name: str, running: int) -> str:
    """Start a pulse beside others; return its id once so many run."""
    body = {"reason": "now", "override": "beside the other"}
    status, answer = await doors.send("POST", f"/agents/{name}/pulses", body)
    assert (status, answer["decision"]) == (201, "admitted"), answer
    async with asyncio.timeout(60):
        while True:
            pulses = (await doors.get(f"/agents/{name}/pulses"))["pulses"]
            if sum(pulse["status"] == "running" for pulse in pulses) == running:
                return answer["pulse"]
            await asyncio.sleep(0.02)


async def test_two_pulses_that_end_together_close_the_gate(doors: Doors) -> None:
    await doors.add_agent("ann", {"launcher": "slow"})
    for _ in range(ROUNDS):
        pulses = [await start_pulse(doors, "ann", running) for running in (1, 2)]
        assert not await is_asleep(doors, "ann")
        cancels = [partial(doors.send, "POST", f"/pulses/{pulse}/cancel") for pulse in pulses]
        answers = await doors.race(doors.key_of("ann"), cancels)
        assert [status for status, _ in answers] == [200, 200]
        assert await is_asleep(doors, "ann")


@pytest.mark.parametrize("removed", [False, True], ids=["two threads close", "one closes and ann leaves the other"])
async def test_the_last_two_threads_of_an_agent_end_together_and_it_falls_asleep(doors: Doors, removed: bool) -> None:
    await doors.add_agent("ann")
    await doors.send("PATCH", "/sessions/default/agents/ann", SLEEPY)
    for number in range(ROUNDS):
        ends: list[Callable[[], Awaitable[Any]]] = []
        for name in ("red", "blue"):
            body = {"name": f"{name}{number}", "participants": ["ann"]}
            status, thread = await doors.send("POST", "/sessions/default/threads", body)
            assert status == 201, thread
            path = f"/sessions/default/threads/{thread['id']}"
            if removed and name == "red":
                ends.append(partial(doors.send, "DELETE", f"{path}/participants/ann"))
            else:
                ends.append(partial(doors.send, "POST", f"{path}/close"))
        await doors.send("PUT", "/sessions/default/agents/ann/sleeping", {"sleeping": False})
        answers = await doors.race(doors.key_of("ann"), ends)
        assert all(status < 300 for status, _ in answers), answers
        assert await is_asleep(doors, "ann")


async def test_a_new_token_beside_a_change_loses_neither(doors: Doors) -> None:
    await doors.add_agent("ann")
    path = "/sessions/default/agents/ann"
    for number in range(ROUNDS):
        changes = [
            partial(doors.send, "POST", f"{path}/token"),
            partial(doors.send, "PATCH", path, {"description": f"version {number}"}),
        ]
        (rotated, answer), (changed, _) = await doors.race(doors.key_of("ann"), changes)
        assert (rotated, changed) == (200, 200)
        doors.tokens["ann"] = answer["token"]
        status, seen = await doors.send("GET", path, by="ann")
        assert (status, seen["description"]) == (200, f"version {number}")


async def test_an_agent_that_is_deleted_beside_its_wake_takes_no_place_in_the_fleet(doors: Doors) -> None:
    await doors.add_agent("lead")
    for number in range(ROUNDS):
        name = f"agent{number}"
        await doors.add_agent(name, {"launcher": "slow"})
        requests = [
            partial(doors.send, "DELETE", f"/sessions/default/agents/{name}"),
            partial(doors.send, "POST", "/wakes", {"to": name, "reason": "blocker", "message": "up"}, by="lead"),
        ]
        (deleted, _), (woken, _) = await doors.race(doors.key_of(name), requests)
        assert (deleted, woken in (201, 404)) == (204, True)
    for name in ("ann", "bob"):  # as many as may run at the same time
        await doors.add_agent(name, {"launcher": "slow"})
        assert await doors.wake("lead", name) == ("admitted", None)


async def test_a_session_that_closes_beside_a_new_agent_and_a_new_thread_keeps_neither(doors: Doors) -> None:
    for number in range(ROUNDS):
        session = (await doors.send("POST", "/sessions", {"name": f"team{number}"}))[1]
        path = f"/sessions/{session['id']}"
        answers = await asyncio.gather(
            doors.send("DELETE", path),
            doors.send("POST", f"{path}/agents", {"name": "ann"}),
            doors.send("POST", f"{path}/threads", {"name": "red"}),
            doors.send("DELETE", path),
        )
        assert sorted((answers[0][0], answers[3][0])) == [200, 409]
        assert all(status in (201, 409) for status, _ in answers[1:3]), answers
        assert (await doors.get(path))["agents"] == []
        assert {thread["status"] for thread in (await doors.get(f"{path}/threads"))["threads"]} <= {"closed"}


async def test_changes_that_are_accepted_twice_are_published_once(doors: Doors) -> None:
    policy = {"duplicate_seconds": 0, "sleeptime": {"review": True}}
    await doors.send("POST", "/banks", {"name": "team", "policy": policy})
    for _ in range(2):
        body = {"text": "Ann lives in the old town of Porto.", "speaker": "ann"}
        assert (await doors.send("POST", "/banks/team/episodes", body))[0] == 201
    status, run = await doors.send("POST", "/banks/team/passes", {"wait_seconds": 60, "review": True})
    assert status == 202, run
    path = f"/passes/{run['id']}"
    assert (await doors.get(path))["counts"]["staged"] == 1
    answers = await asyncio.gather(*(doors.send("POST", f"{path}/accept") for _ in range(8)))
    assert [status for status, _ in answers] == [200] * 8
    assert sorted(len(answer["changes"]) for _, answer in answers) == [0] * 7 + [1]
    counts = (await doors.get(path))["counts"]
    assert (counts.get("staged", 0), counts["demote_episode"]) == (0, 1)
