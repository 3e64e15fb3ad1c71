"""Budgets and idempotency keys hold over several servers: of racing requests exactly as many pass as are allowed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from circadia.stores.locks import FLEET_KEY
from tests.cluster.doors import Doors, doors_of_processes, doors_of_two
from tests.cluster.scene import two_servers
from tests.interaction.live import CHAT, Live

pytestmark = pytest.mark.spec("CLU-04")

PROCESSES = 4
RACING = 8
Race = Callable[[Doors], Awaitable[None]]


async def race_for_a_day(doors: Doors) -> None:
    """Eight senders share the five wakes of a target's day."""
    await doors.add_agent("target", {"wake_guardrails.max_wakes_per_day": 5})
    for number in range(RACING):
        await doors.add_agent(f"sender{number}")
    async with asyncio.TaskGroup() as group:
        for number in range(RACING):
            group.create_task(doors.wake_until("max_wakes_per_day", f"sender{number}", "target"))
    assert await doors.count_admitted() == 5


async def race_for_a_directed_pair(doors: Doors) -> None:
    """One sender asks on all servers; its three wakes of the target leave those of another sender alone."""
    await doors.add_agent("target", {"wake_guardrails.max_wakes_per_pair_per_day": 3})
    for name in ("one", "other"):
        await doors.add_agent(name)
    async with asyncio.TaskGroup() as group:
        for number in range(RACING):
            sender = ("one", "other")[number // 2 % 2]
            group.create_task(doors.wake_until("max_wakes_per_pair_per_day", sender, "target"))
    assert await doors.count_admitted() == 3 + 3


async def race_for_an_undirected_pair(doors: Doors) -> None:
    """Ann wakes Bob beside Bob waking Ann; three wakes are left for both directions together."""
    limits = {"wake_guardrails.max_wakes_per_pair_per_day": 3, "wake_guardrails.pair_mode": "undirected"}
    for name in ("ann", "bob"):
        await doors.add_agent(name, limits)
    async with asyncio.TaskGroup() as group:
        for number in range(RACING):
            by, to = ("ann", "bob") if number // 2 % 2 else ("bob", "ann")
            group.create_task(doors.wake_until("max_wakes_per_pair_per_day", by, to))
    assert await doors.count_admitted() == 3


async def race_both_ways_at_once(doors: Doors) -> None:
    """Of the first wakes in both directions one is admitted."""
    limits = {"wake_guardrails.max_wakes_per_pair_per_day": 1, "wake_guardrails.pair_mode": "undirected"}
    for name in ("ann", "bob"):
        await doors.add_agent(name, {**limits, "launcher": "slow"})
    ways = [("ann", "bob"), ("bob", "ann")]
    requests = [partial(doors.wake, *ways[number // 2 % 2]) for number in range(RACING)]
    await doors.race(doors.key_of("ann"), requests)
    assert await doors.count_admitted() == 1


async def race_to_eight_targets(doors: Doors) -> None:
    """One sender asks eight agents at once, and may ask three."""
    await doors.add_agent("lead", {"wake_guardrails.max_wakes_per_session": 3})
    for number in range(RACING):
        await doors.add_agent(f"target{number}")
    requests = [partial(doors.wake, "lead", f"target{number}") for number in range(RACING)]
    answers = await doors.race(doors.key_of("lead"), requests)
    assert Counter(answers) == {("admitted", None): 3, ("refused", "max_wakes_per_session"): RACING - 3}


RACES: tuple[Race, ...] = (
    race_for_a_day, race_for_a_directed_pair, race_for_an_undirected_pair, race_both_ways_at_once,
    race_to_eight_targets,
)  # fmt: skip


@pytest.mark.parametrize("race", RACES)
async def test_racing_wakes_at_two_servers_admit_exactly_what_the_budget_allows(
    tmp_path: Path, postgres_url: str, late_locks: dict[str, str], race: Race
) -> None:
    async with doors_of_two(tmp_path, postgres_url) as doors:
        await race(doors)
    assert not late_locks


async def test_four_processes_admit_exactly_what_a_day_allows(tmp_path: Path, postgres_url: str) -> None:
    async with doors_of_processes(tmp_path, postgres_url, PROCESSES) as doors:
        await race_for_a_day(doors)


@pytest.mark.slow
@pytest.mark.parametrize("race", RACES)
async def test_racing_wakes_at_four_processes_admit_exactly_what_the_budget_allows(
    tmp_path: Path, postgres_url: str, race: Race
) -> None:
    async with doors_of_processes(tmp_path, postgres_url, PROCESSES) as doors:
        await race(doors)


@pytest.mark.parametrize(
    ("limit", "decision"), [("max_concurrent_pulses", "deferred"), ("max_wakes_per_day", "refused")]
)
async def test_limits_of_the_fleet_hold_over_two_servers(
    tmp_path: Path, postgres_url: str, limit: str, decision: str
) -> None:
    async with doors_of_two(tmp_path, postgres_url, fleet={limit: 3}) as doors:
        for number in range(RACING):
            await doors.add_agent(f"agent{number}", {"launcher": "slow", "on_concurrency": "defer"})
        requests = [partial(doors.wake, f"agent{number}", f"agent{(number + 1) % RACING}") for number in range(RACING)]
        answers = await doors.race(FLEET_KEY, requests)
        assert Counter(answers) == {("admitted", None): 3, (decision, "fleet"): RACING - 3}


async def ask_model(at: Live, token: str, body: object) -> int:
    async with at.call(token, body=body) as response:
        await response.read()
        return response.status


@pytest.mark.parametrize(
    ("budget", "allowed"), [({"max_calls_per_day": 7}, 7), ({"max_usd_per_day": 0.75}, 7)], ids=["calls", "money"]
)
async def test_budgets_of_model_calls_hold_over_two_servers(
    tmp_path: Path, postgres_url: str, budget: dict[str, object], allowed: int
) -> None:
    asked = 20
    dear = {**CHAT, "model": "gpt-4o", "max_tokens": 10_000}  # 0.1 US dollars of output, and little of input
    async with two_servers(tmp_path, postgres_url) as servers:
        provider = servers[0].upstream
        token = await servers[0].agent("ann", **budget)
        provider.gate.clear()  # each reservation stays while its call is under way
        calls = [asyncio.create_task(ask_model(servers[number % 2], token, dear)) for number in range(asked)]
        async with asyncio.timeout(60):
            while sum(call.done() for call in calls) < asked - allowed:
                await asyncio.sleep(0.01)
        provider.gate.set()
        assert Counter(await asyncio.gather(*calls)) == {200: allowed, 429: asked - allowed}


MESSAGE = {"to": "ann", "content": "hello", "key": "once"}
WAKE = {"to": "ann", "reason": "user_request", "message": "up", "key": "once"}
BARE_WAKE = {"to": "ann", "reason": "user_request", "key": "once"}
EPISODE = {"text": "Ann lives in Porto.", "speaker": "ann", "key": "once"}


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        ("/messages", MESSAGE, ("message",)),
        ("/wakes", WAKE, ("message", "wake", "pulse")),
        ("/wakes", BARE_WAKE, ("wake", "pulse")),
        ("/banks/team/episodes", EPISODE, ("id",)),
    ],
    ids=["message", "wake", "wake without a message", "episode"],
)
async def test_a_repeated_key_gets_the_first_answer_at_any_server(
    tmp_path: Path, postgres_url: str, late_locks: dict[str, str], path: str, body: dict[str, Any],
    fields: tuple[str, ...],
) -> None:  # fmt: skip
    async with doors_of_two(tmp_path, postgres_url) as doors:
        await doors.add_agent("ann", {"launcher": "slow"}, bank="team")
        answers = await asyncio.gather(*(doors.send("POST", path, body) for _ in range(RACING)))
    assert all(status < 300 for status, _ in answers), answers
    firsts = [tuple(answer[field] for field in fields) for _, answer in answers]
    assert firsts == [firsts[0]] * RACING
    assert None not in firsts[0]
    assert not late_locks
