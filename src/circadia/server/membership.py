"""This process as a member of the cluster: its row, its clock, and whether it leads.

The leader does the work that one process at a time does: schedules, reconsidered wakes, sweeps, alerts. Gateways never
lead. When a leader dies, another member leads once its lease has run out; one that stops gives it up at once.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from circadia.clock import Clock, SystemClock
from circadia.errors import StartError
from circadia.ids import MemberId
from circadia.jobs.loops import run_guarded
from circadia.records.member import LEASE_SECONDS, Member, Role
from circadia.stores.base import Store, Tx
from circadia.stores.locks import MEMBERS_KEY

_logger = logging.getLogger(__name__)

BEAT_SECONDS: Final = 5.0
_SLOWEST_SECONDS: Final = 0.5
"""An answer that took longer says too little about the database's clock."""


def build_token_check(admin_token_hashes: Iterable[str]) -> str:
    """Return what members compare: for each token, too little to tell it by."""
    digests = (hashlib.sha256(f"circadia member {each}".encode()) for each in admin_token_hashes)
    return ",".join(digest.hexdigest()[:8] for digest in digests)


class Membership:
    """Joins the cluster, beats, leads and leaves."""

    def __init__(self, clock: Clock, store: Store, member: Member) -> None:
        self._clock = clock
        self._store = store
        self._member = member
        self._leads_until = 0.0
        self._may_lead = member.role is not Role.GATEWAY
        self.count_load: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Returns the number of held calls, and of running pulses and passes."""

    @property
    def member_id(self) -> MemberId:
        return self._member.id

    @property
    def leads(self) -> bool:
        return self._clock.monotonic() < self._leads_until

    def note_configuration(self, config_check: str) -> None:
        """Show at the next beat that this configuration runs."""
        self._member = replace(self._member, config_check=config_check)

    async def join(self, max_connections: int | None = None) -> None:
        """Write the member's row for the first time.

        Raises:
            StartError: a member has none of this one's operator's tokens, or all members together could open more than
                `max_connections`. StorageUnavailable: no database answers.
        """
        await self._set_clock()
        self._member = replace(self._member, started_at=self._clock.now())
        began = self._clock.monotonic()
        async with self._store.begin_write(MEMBERS_KEY) as tx:  # of several that join at once, each sees those before
            others = await tx.members.find_all(self._clock.now())
            self._check_tokens(others)
            self._check_connections(others, max_connections)
            leads = await self._renew(tx)
        self._leads_until = began + LEASE_SECONDS if leads else 0.0

    def _check_tokens(self, others: Sequence[Member]) -> None:
        own = set(self._member.token_check.split(","))
        for other in others:
            if own.isdisjoint(other.token_check.split(",")):
                raise StartError(
                    f"{other.address} on {other.host} uses the same database with another operator's token; start all "
                    "servers with the same CIRCADIA_ADMIN_TOKEN, and change it with CIRCADIA_ADMIN_TOKEN_SECONDARY"
                )

    def _check_connections(self, others: Sequence[Member], most: int | None) -> None:
        """Count the members' connections; of several at one address only the last has not died."""
        by_address = {(other.host, other.address): other.connections for other in others}
        by_address.pop((self._member.host, self._member.address), None)
        theirs = sum(by_address.values())
        if most is not None and self._member.connections + theirs > most:
            raise StartError(
                f"PostgreSQL allows {most} connections; the other servers may open {theirs} and this one "
                f"{self._member.connections}: lower server.readers and server.writers, or raise max_connections"
            )

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self._clock.sleep(BEAT_SECONDS)
            await run_guarded("the membership of the cluster", self._set_clock)
            await run_guarded("the membership of the cluster", self.beat)

    async def beat(self) -> None:
        """Renew the member's lease, and take or keep the lead."""
        began = self._clock.monotonic()
        async with self._store.begin_write() as tx:
            leads = await self._renew(tx)
        self._leads_until = began + LEASE_SECONDS if leads else 0.0

    async def _renew(self, tx: Tx) -> bool:
        """Renew the row; return whether the member leads."""
        now = self._clock.now()
        until = now + timedelta(seconds=LEASE_SECONDS)
        holds, running = self.count_load()
        await tx.members.put(replace(self._member, lease_until=until, holds=holds, running=running))
        await tx.members.delete_expired(now - timedelta(seconds=LEASE_SECONDS))
        return self._may_lead and await tx.members.lead(self._member.id, now=now, until=until)

    async def resign(self) -> None:
        """Give up the lead for good; the row stays."""
        self._may_lead, self._leads_until = False, 0.0
        async with self._store.begin_write() as tx:
            await tx.members.resign(self._member.id)

    async def leave(self) -> None:
        """Give up the lead and remove the row."""
        self._may_lead, self._leads_until = False, 0.0
        async with self._store.begin_write() as tx:
            await tx.members.remove(self._member.id)

    async def _set_clock(self) -> None:
        """Set this process's clock by the database's (CLU-25)."""
        if not isinstance(self._clock, SystemClock):
            return
        before, began = self._clock.now(), self._clock.monotonic()
        database = await self._store.read_clock()
        took = self._clock.monotonic() - began
        if database is not None and took < _SLOWEST_SECONDS:
            self._clock.offset += database - before - timedelta(seconds=took / 2)
