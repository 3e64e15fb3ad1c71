"""Gateways confirm to the one that puts an agent to sleep that they send nothing of it any more (GATE-95)."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Final

from circadia.agents.presence import Presence
from circadia.clock import Clock, wait_for_event
from circadia.ids import AgentId, MemberId
from circadia.records.agent import Agent
from circadia.records.member import Role
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.stores.time_limit import limit_wait

WAIT_SECONDS: Final = 0.1
_QUESTION: Final = "sleep_question"
_CONFIRMATION: Final = "sleep_confirmation"


class _Question:
    """What other gateways are asked to confirm: that they send nothing more of some agents."""

    def __init__(self) -> None:
        self._confirmed: set[tuple[AgentId, MemberId]] = set()
        self._missing: set[tuple[AgentId, MemberId]] | None = None
        """None until the gateways are known."""
        self.is_confirmed = asyncio.Event()

    def expect(self, agents: Iterable[AgentId], gateways: Collection[MemberId]) -> None:
        self._missing = {(agent, gateway) for agent in agents for gateway in gateways} - self._confirmed
        self._check()

    def note(self, agent: AgentId, gateway: MemberId) -> None:
        self._confirmed.add((agent, gateway))
        self._check((agent, gateway))

    def list_missing(self) -> Mapping[AgentId, Sequence[MemberId]]:
        missing: defaultdict[AgentId, list[MemberId]] = defaultdict(list)
        for agent, gateway in sorted(self._missing or ()):
            missing[agent].append(gateway)
        return missing

    def _check(self, *confirmed: tuple[AgentId, MemberId]) -> None:
        if self._missing is not None:
            self._missing.difference_update(confirmed)
            if not self._missing:
                self.is_confirmed.set()


class SleepConfirmer:
    """Asks the other gateways, and answers them. A process that is alone asks nobody."""

    def __init__(
        self, clock: Clock, store: Store, signals: Signals, presence: Presence, member_id: MemberId | None
    ) -> None:
        """`member_id` is that of a gateway in a cluster."""
        self._clock = clock
        self._store = store
        self._signals = signals
        self._presence = presence
        self._member_id = member_id
        self._numbers = count()
        self._questions: dict[str, _Question] = {}
        if member_id is not None:
            signals.listen(_QUESTION, self._on_question)
            signals.listen(_CONFIRMATION, self._on_confirmation)

    async def confirm(self, agents: Sequence[Agent]) -> Mapping[AgentId, Sequence[MemberId]]:
        """Return once each live gateway sends nothing more of those of the agents that sleep, or after 100 ms.

        Their rows must be committed. Return the gateways that have not confirmed it, by agent.

        Raises:
            StorageUnavailable: the live gateways are not known. The agents sleep; to ask again changes nothing.
        """
        asleep = [agent for agent in agents if agent.asleep]
        if self._member_id is None or not asleep:
            return {}
        began, key = self._clock.monotonic(), str(next(self._numbers))
        question = self._questions[key] = _Question()
        try:
            for agent in asleep:
                data = {"agent": agent.id, "generation": agent.generation, "from": self._member_id}
                self._signals.publish(_QUESTION, key, data)
            async with limit_wait(), self._store.begin_single_read() as tx:
                members = await tx.members.find_all(self._clock.now())
            others = [each.id for each in members if each.role is not Role.WORKER and each.id != self._member_id]
            question.expect([agent.id for agent in asleep], others)
            left = began + WAIT_SECONDS - self._clock.monotonic()
            if not question.is_confirmed.is_set():
                await wait_for_event(self._clock, question.is_confirmed, left)
        finally:
            del self._questions[key]
        return question.list_missing()

    def _on_question(self, key: str, data: Mapping[str, object]) -> None:
        agent_id, sender = str(data["agent"]), str(data["from"])
        if sender != self._member_id:
            self._presence.announce_sleep(AgentId(agent_id), int(str(data["generation"])))
            self._signals.send(sender, _CONFIRMATION, key, {"agent": agent_id, "by": self._member_id})

    def _on_confirmation(self, key: str, data: Mapping[str, object]) -> None:
        question = self._questions.get(key)
        if question is not None:
            question.note(AgentId(str(data["agent"])), MemberId(str(data["by"])))
