"""Ids issued by a provider belong to the agent that received them (GATE-60)."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import NotFound, StorageUnavailable
from circadia.gateway.accounting.write_behind import BacklogSpool, WriteBehindQueue
from circadia.ids import AgentId
from circadia.records.agent import Agent
from circadia.stores.base import Store, Tx
from circadia.stores.time_limit import limit_wait

REMEMBERED = 10_000
"""Ids cached in memory; the rest is read from the database."""
_BOUND: Final = 100_000
"""Ids kept while the database is away."""
_BATCH: Final = 500


class IssuedId(NamedTuple):
    upstream: str
    provider_id: str
    agent_id: AgentId
    at: datetime


class Owners(WriteBehindQueue[IssuedId]):
    """Records the owner of each id. Others get the same error as for an id that does not exist.

    An owner is durable before its caller has the id, unless the database is away: a paid answer goes on, and the owner
    is stored later. Until then other processes refuse the id, to its owner too.
    """

    def __init__(self, clock: Clock, store: Store, spool: BacklogSpool[IssuedId]) -> None:
        super().__init__(clock, store, spool, what="owners of ids", bound=_BOUND, batch=_BATCH)
        self._known: BoundedDict[tuple[str, str], AgentId] = BoundedDict(REMEMBERED)

    async def require(self, agent: Agent, upstream: str, ids: Iterable[str], *, passes_unknown: bool = False) -> None:
        """Raise NotFound for an id of another agent; without `passes_unknown` also for one that no agent received."""
        for provider_id in ids:
            owner = self._known.get((upstream, provider_id))
            if owner is None:
                async with limit_wait(), self._store.begin_read() as tx:
                    owner = await tx.provider_ids.owner(upstream, provider_id)
            if owner != agent.id and not (owner is None and passes_unknown):
                raise NotFound(f"{provider_id!r} was not handed to {agent.reference!r} through this gateway")

    async def record(self, agent: Agent, upstream: str, ids: Iterable[str]) -> None:
        """Record the agent as owner of new ids."""
        now = self._clock.now()
        new = [IssuedId(upstream, each, agent.id, now) for each in ids if (upstream, each) not in self._known]
        if not new:
            return
        try:
            if self.waiting:
                raise StorageUnavailable("earlier ids wait for the database")
            async with limit_wait(), self._store.begin_write() as tx:
                owners = await _add(tx, new)
        except StorageUnavailable:
            for issued in new:
                self._known[(upstream, issued.provider_id)] = agent.id
                self.put(issued)
        else:
            self._remember(new, owners)

    async def write(self, batch: Sequence[IssuedId]) -> None:
        async with self._store.begin_write() as tx:
            await self.mark_written(tx)
            owners = await _add(tx, batch)
        self._remember(batch, owners)

    def _remember(self, batch: Sequence[IssuedId], owners: Sequence[AgentId | None]) -> None:
        for issued, owner in zip(batch, owners, strict=True):
            if owner is not None:  # the first owner stays, even if the id is issued again
                self._known[(issued.upstream, issued.provider_id)] = owner


async def _add(tx: Tx, batch: Sequence[IssuedId]) -> Sequence[AgentId | None]:
    """Add those that have no owner yet; return the owner of each."""
    for issued in sorted(batch):  # one order in all processes
        await tx.provider_ids.add(*issued)
    return [await tx.provider_ids.owner(issued.upstream, issued.provider_id) for issued in batch]
