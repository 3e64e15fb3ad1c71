"""Store protocols of the cluster's members and of the work that waits for them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from circadia.ids import AgentId, MemberId
from circadia.records.due_work import DueWork
from circadia.records.member import Member, MemberHolds


class Members(Protocol):
    async def put(self, member: Member) -> None:
        """Insert or overwrite a member, except for `leads`."""
        ...

    async def lead(self, member_id: MemberId, *, now: datetime, until: datetime) -> bool:
        """Take or renew the lead until then, if no other member has it now; return whether it has it."""
        ...

    async def resign(self, member_id: MemberId) -> None:
        """Give up the lead, if the member has it."""
        ...

    async def remove(self, member_id: MemberId) -> None:
        """Remove a member, which gives up the lead."""
        ...

    async def delete_expired(self, before: datetime) -> None:
        """Remove the members whose lease ended before then."""
        ...

    async def find_all(self, now: datetime) -> Sequence[Member]:
        """Return the members whose lease has not ended, oldest first."""
        ...


class HoldPlaceCounts(Protocol):
    """How many calls each gateway holds for each agent; the agent `""` stands for all."""

    async def sum_of_others(
        self, member_id: MemberId, agents: Collection[AgentId], now: datetime
    ) -> Mapping[AgentId, int]:
        """Return the number of calls that other members hold now for each of these agents, if any."""
        ...

    async def find_of_others(
        self, member_id: MemberId, now: datetime, *, session: str | None = None, agent: str | None = None, limit: int
    ) -> tuple[Sequence[MemberHolds], int]:
        """Return what other live members hold, most calls first, and the number of all these calls. One statement."""
        ...

    async def put(self, member_id: MemberId, counts: Mapping[AgentId, int]) -> None:
        """Overwrite the counts of these agents."""
        ...

    async def delete_of_gone_members(self) -> None: ...


class DueWorks(Protocol):
    async def find(self, now: datetime, *, fleet_rule: str, launchers: Collection[str] = ()) -> DueWork:
        """Return what is due, in one statement: of pulses, those of `launchers`.

        `fleet_rule` is the rule of wakes that wait for a place in the fleet.
        """
        ...
