"""Random interleavings of all that moves a sleep: nobody sleeps over a mention, and none wakes its agent twice."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from circadia.agents.registry import NewAgent
from circadia.ids import MessageId
from circadia.records.agent import Agent, Cause, WakeEvent
from circadia.records.event import EventType
from circadia.records.principal import AccessRole, AccessToken, Principal
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.thread import Thread
from circadia.testing.clock import START
from tests.wake.fleet import FREE, LAUNCHED, Fleet, fleet

GUARDED: Final[Mapping[str, object]] = {"guard_thread_events": True}
KINDS: Final = ((FREE,), (FREE, GUARDED), (FREE, LAUNCHED), (FREE, LAUNCHED, GUARDED))
SEQUENCES: Final = 1_000


class Story:
    """One agent, its thread, and what happens to it."""

    def __init__(self, team: Fleet, agent: Agent, thread: Thread) -> None:
        self.team = team
        self.agent = agent
        self.thread = thread
        self.mentions: dict[str, tuple[MessageId, Agent]] = {}
        """By sender: the message, and the agent's row when it came."""

    async def mention(self) -> None:
        name = f"p{len(self.mentions)}"
        token = AccessToken(
            name=name, role=AccessRole.OPERATOR, token_hash=name, created_at=START, created_by="operator"
        )
        person = Principal(access=token)
        home = await self.team.home()
        async with self.team.store.begin_write() as tx:
            before = await tx.agents.get(self.agent.id)
            sent = await self.team.threads.send(tx, person, home, self.thread, "look", [self.agent.name])
        assert before is not None
        self.mentions[person.name] = sent.id, before

    async def set(self, who: Principal, asleep: bool) -> None:
        async with self.team.store.begin_write() as tx:
            row = await self.team.row(self.agent)
            await self.team.tier.control.set(tx, who, row, asleep=asleep, cause=Cause.TOOL)

    async def sleep_self(self) -> None:
        row = await self.team.row(self.agent)
        if not row.asleep:
            await self.set(Principal(agent=row), True)

    async def operator_sleeps(self) -> None:
        await self.set(Principal(), True)

    async def operator_wakes(self) -> None:
        await self.set(Principal(), False)

    async def read(self) -> None:
        async with self.team.store.begin_write() as tx:
            unread = await tx.deliveries.find_unread(self.agent.id)
            if not (await self.team.row(self.agent)).asleep:
                seen = [delivery.message.id for delivery in unread]
                await tx.deliveries.mark_seen(self.agent.id, seen, self.team.clock.now())

    async def end_pulse(self) -> None:
        for pulse in await self.open_pulses(PulseStatus.RUNNING):
            if pulse.launcher != "resident":
                self.team.launcher.end(pulse.id)
                await self.team.until(pulse.id)
            elif pulse.timeout_seconds is not None:
                async with self.team.store.begin_write() as tx:
                    await self.team.tier.pulses.time_out(tx, pulse)

    async def routine(self) -> None:
        if (await self.team.row(self.agent)).asleep:
            self.team.clock.advance(60)
            await self.team.worker.step()

    async def mention_at_once_with_sleep(self) -> None:
        await asyncio.gather(self.mention(), self.sleep_self())

    async def mention_at_once_with_end(self) -> None:
        await asyncio.gather(self.mention(), self.end_pulse())

    async def open_pulses(self, status: PulseStatus) -> Sequence[Pulse]:
        async with self.team.store.begin_read() as tx:
            return [pulse for pulse in await tx.pulses.find_open(self.agent.id) if pulse.status is status]

    async def settle(self) -> None:
        """Let the worker decide what is due and start what was admitted."""
        await self.team.worker.step()
        for pulse in await self.open_pulses(PulseStatus.PENDING):
            await self.team.until(pulse.id, PulseStatus.RUNNING)

    async def check(self, happened: Sequence[str]) -> int:
        """Return how many mentions woke the agent, or fail if one did so twice, or not though it should have."""
        team = self.team
        async with team.store.begin_read() as tx:
            wakes = await tx.wakes.find_all(agent_id=self.agent.id, limit=1000)
            stops = await tx.events.find_after(0, agent=self.agent.name, types=[EventType.SLEEP_STOP])
        rouses = Counter(wake.sender for wake in wakes)
        counts = {sender: rouses[sender] for sender in self.mentions}
        assert max(counts.values(), default=0) <= 1, (happened, counts)
        row = await team.row(self.agent)
        last_wake = max(
            (int(str(stop.data["generation"])) for stop in stops if stop.data["cause"] == "event"), default=0
        )
        for sender, (message, before) in self.mentions.items():
            seen = (await team.delivery(self.agent, message)).seen_at is not None
            has_woken = counts[sender] or last_wake > before.generation  # one wake is for all that were missed
            stands = row.actor == "operator" and not before.asleep
            assert has_woken or seen or stands or not row.asleep, (happened, sender, row)
        return sum(counts.values())


ACTIONS: Final = (
    Story.mention, Story.mention, Story.sleep_self, Story.sleep_self, Story.operator_sleeps, Story.operator_wakes,
    Story.read, Story.end_pulse, Story.end_pulse, Story.routine, Story.mention_at_once_with_sleep,
    Story.mention_at_once_with_end,
)  # fmt: skip


async def begin(team: Fleet, name: str, settings: Sequence[Mapping[str, object]]) -> Story:
    home = await team.home()
    async with team.store.begin_write() as tx:
        agent, _ = await team.registry.add(
            tx, home, NewAgent(name=name, wake_events=frozenset({WakeEvent.MENTIONED})), by="operator"
        )
        for each in settings:
            agent = await team.tier.coordinations.patch(tx, agent, each, by="operator")
        thread = await team.threads.create(tx, Principal(), home, name, [name])
    return Story(team, agent, thread)


@pytest.mark.spec("WAKE-88")
@pytest.mark.parametrize("kind", range(len(KINDS)))
async def test_no_interleaving_leaves_an_agent_asleep_over_a_mention_or_wakes_it_twice_by_one(
    folder: Path, kind: int
) -> None:
    chance, roused = random.Random(kind), 0
    async with fleet(folder) as team:
        for number in range(SEQUENCES // len(KINDS)):
            story = await begin(team, f"a{number}", KINDS[kind])
            if chance.random() < 0.5:
                spec = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60))
                await team.routines(story.agent, spec)
            happened: list[str] = []
            for action in chance.choices(ACTIONS, k=chance.randint(3, 7)):
                happened.append(action.__name__)
                await action(story)
                if chance.random() < 0.5:
                    await story.settle()
            await story.settle()
            roused += await story.check(happened)
            async with team.store.begin_write() as tx:
                await team.registry.delete(tx, await team.row(story.agent), by="operator")
    assert roused > SEQUENCES // len(KINDS) // 2
