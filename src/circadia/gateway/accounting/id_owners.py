"""Ids issued by a provider belong to the agent that received them (GATE-60)."""

from collections.abc import Iterable
from typing import Final

from circadia.bounded_dict import BoundedDict
from circadia.clock import Clock
from circadia.errors import NotFound
from circadia.ids import AgentId
from circadia.records.agent import Agent
from circadia.stores.base import Store
from circadia.stores.time_limit import limit_wait

REMEMBERED = 10_000
"""Ids cached in memory; the rest is read from the database."""
WRITE_SECONDS: Final = 10.0
"""Longest wait of an answer for its ids to be stored."""


class Owners:
    """Records the owner of each id. Others get the same error as for an id that does not exist."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._known: BoundedDict[tuple[str, str], AgentId] = BoundedDict(REMEMBERED)

    async def require(self, agent: Agent, upstream: str, ids: Iterable[str]) -> None:
        for provider_id in ids:
            owner = self._known.get((upstream, provider_id))
            if owner is None:
                async with limit_wait(), self._store.begin_read() as tx:
                    owner = await tx.provider_ids.owner(upstream, provider_id)
            if owner != agent.id:
                raise NotFound(f"{provider_id!r} was not handed to {agent.reference!r} through this gateway")

    async def record(self, agent: Agent, upstream: str, ids: Iterable[str]) -> None:
        """Record the agent as owner of new ids, durable on return: no caller ever holds an id without an owner."""
        new = [provider_id for provider_id in ids if (upstream, provider_id) not in self._known]
        if not new:
            return
        async with limit_wait(WRITE_SECONDS), self._store.begin_write() as tx:
            for provider_id in sorted(new):  # one order in all processes
                await tx.provider_ids.add(upstream, provider_id, agent.id, self._clock.now())
            owners = {provider_id: await tx.provider_ids.owner(upstream, provider_id) for provider_id in new}
        for provider_id, owner in owners.items():
            if owner is not None:  # the first owner stays, even if the id is issued again
                self._known[(upstream, provider_id)] = owner
