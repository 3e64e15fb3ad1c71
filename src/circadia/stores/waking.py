"""What the program asks of a database for wakes: requests, pulses and routines. `base.py` has the rest."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from circadia.ids import AgentId, PulseId, WakeId
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.schedule import Routine
from circadia.records.wake import Charge, Decision, GuardrailCounts, WaitingAgent, Wake, WakeCount

ALL: Final = 2**62
"""More than can be counted."""


class Wakes(Protocol):
    """Wake requests: the ledger of decisions, from which all budgets are counted (WAKE-13)."""

    async def add(self, wake: Wake) -> None:
        """Store a new one. Raises Conflict if there is one of its idempotency key."""
        ...

    async def save(self, wake: Wake) -> bool:
        """Write the new decision of a deferred one; return whether it was deferred."""
        ...

    async def move_charge(self, pulse_id: PulseId, to: Charge, *, origin: Charge) -> int:
        """Move what those of the pulse's requests count as that count as `origin`; return how many these were."""
        ...

    async def get(self, wake_id: WakeId) -> Wake | None: ...

    async def get_by_key(self, key: str) -> Wake | None:
        """Return the request of this idempotency key."""
        ...

    async def find_by_pulse(self, pulse_id: PulseId) -> Sequence[Wake]:
        """Return the requests that started or joined the pulse, in order."""
        ...

    async def find_by_root(self, root_id: str) -> Sequence[Wake]:
        """Return the requests of a chain, in order."""
        ...

    async def find_deferred(self, agent_id: AgentId) -> Sequence[Wake]:
        """Return the agent's deferred requests, oldest first."""
        ...

    async def find_due_agents(
        self,
        now: datetime,
        *,
        ageing_seconds: float,
        of: Collection[AgentId] | None = (),
        rule: str | None = None,
        limit: int = ALL,
    ) -> Sequence[WaitingAgent]:
        """Return agents whose deferred requests are to be looked at again, the most pressing first, then the oldest.

        Those are the agents with one whose time has come, or that is to expire, or that `rule` defers, and those `of`
        which any is deferred; with None for `of`, all such agents. Waiting raises the rank of a request by one for each
        `ageing_seconds`.
        """
        ...

    async def has_deferred_by(self, rule: str) -> bool:
        """Return whether this rule defers any request."""
        ...

    async def count_refused_by_rule(self, agent_id: AgentId, since: datetime) -> Mapping[str, int]:
        """Return how many requests each rule has refused since then."""
        ...

    async def count_by_sender(self, agent_id: AgentId, since: datetime) -> Mapping[str, int]:
        """Return how many of the agent's wakes since then count against its budgets, by who asked."""
        ...

    async def count_by_pair(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Sequence[WakeCount]:
        """Return how often who asked to wake whom in that time, by decision, in the order of the names."""
        ...

    async def find_all(
        self,
        *,
        agent_id: AgentId | None = None,
        sender_id: AgentId | None = None,
        decision: Decision | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: WakeId | None = None,
        limit: int = 100,
    ) -> Sequence[Wake]:
        """Return requests, the newest first; `before` is the last one of the page before."""
        ...

    async def tally(
        self,
        agent_id: AgentId,
        *,
        wake_id: WakeId,
        sender_id: AgentId | None,
        sender_pulse: PulseId | None,
        asked_since: datetime,
        root_id: str,
        day: datetime,
        utc_day: datetime,
        now: datetime,
        asked_most: int = ALL,
        failures_most: int = 0,
        fleet_open_most: int = ALL,
        fleet_wakes_most: int = ALL,
    ) -> GuardrailCounts:
        """Count what admission of `wake_id` asks for, without it.

        `day` is the start of the target's day; `asked_since` that of the sender's pulse or time awake. What may be many
        rows (`asked_in_session`, `fleet_open`, `fleet_wakes_today`) is counted to its `most`, and no further; failures
        are looked for among the last `failures_most` pulses.
        """
        ...


class Pulses(Protocol):
    """Pulses: rows that are the truth, and the outbox of the engine (WAKE-50)."""

    async def add(self, pulse: Pulse) -> None: ...

    async def save(self, pulse: Pulse, *, origin: Pulse) -> bool:
        """Write where the pulse stands now if it stands as in `origin`, epoch and all; return whether it did."""
        ...

    async def get(self, pulse_id: PulseId) -> Pulse | None: ...

    async def get_by_token(self, token_hash: str) -> Pulse | None:
        """Return the open pulse whose agent was started with this token."""
        ...

    async def find_open(self, agent_id: AgentId) -> Sequence[Pulse]:
        """Return the agent's pulses that have not ended, oldest first."""
        ...

    async def find_by_root(self, root_id: str) -> Sequence[Pulse]:
        """Return the pulses of a chain, in order."""
        ...

    async def find_startable(self, now: datetime, *, limit: int) -> Sequence[Pulse]:
        """Return pending ones whose time has come, oldest first."""
        ...

    async def find_overdue(self, now: datetime) -> Sequence[Pulse]:
        """Return running ones that no process has taken (times awake) whose time is up."""
        ...

    async def find_claimed(self) -> Sequence[Pulse]:
        """Return those that processes have taken."""
        ...

    async def renew_leases(self, owner: str, until: datetime) -> None:
        """Renew the leases of a process."""
        ...

    async def shift_starts(
        self, seconds: float, *, of: Collection[PulseId] | None, but_from: datetime, but_to: datetime
    ) -> None:
        """Move the start of these open pulses, of all open ones with None, but for those that started in that time."""
        ...

    async def find_all(
        self,
        *,
        agent_id: AgentId | None = None,
        status: PulseStatus | None = None,
        since: datetime | None = None,
        before: PulseId | None = None,
        limit: int = 100,
    ) -> Sequence[Pulse]:
        """Return pulses, the newest first; `before` is the last one of the page before."""
        ...

    async def count_failures(self, agent_id: AgentId, *, limit: int) -> tuple[int, datetime | None]:
        """Return how many of the last `limit` ended pulses failed in a row, and when the newest of them ended."""
        ...


class Routines(Protocol):
    """The routines of agents; one that cannot be read is as none, and told in the log."""

    async def add(self, routine: Routine) -> None:
        """Store a new one. Raises Conflict if the agent has one of its name."""
        ...

    async def save(self, routine: Routine, *, origin: Routine) -> bool:
        """Write it if its next_at is still that of `origin`; return whether it was."""
        ...

    async def remove(self, agent_id: AgentId, name: str) -> bool:
        """Delete it; return whether there was one."""
        ...

    async def remove_others(self, agent_id: AgentId, names: Collection[str]) -> None:
        """Delete all of the agent's but those of these names, those that cannot be read too."""
        ...

    async def get(self, agent_id: AgentId, name: str) -> Routine | None: ...

    async def find_by_agent(self, agent_id: AgentId) -> Sequence[Routine]:
        """Return the agent's routines by name."""
        ...

    async def next_due_time(self, now: datetime) -> datetime | None:
        """Return when the next enabled one will be due; none means that there is none."""
        ...

    async def find_due(self, now: datetime, *, limit: int) -> Sequence[Routine]:
        """Return enabled ones whose next_at has come, the longest due first."""
        ...

    async def find_due_after(self, instant: datetime) -> Sequence[Routine]:
        """Return enabled ones whose next_at is later than that."""
        ...
