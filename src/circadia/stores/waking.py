"""Store protocols for wake requests, pulses and routines."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from circadia.ids import AgentId, PulseId, WakeId
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.schedule import Routine
from circadia.records.wake import Decision, GuardrailCounts, WaitingAgent, Wake, WakeCount

ALL: Final = 2**62
"""Larger than any count."""


class Wakes(Protocol):
    """Wake requests: the ledger of decisions that all budgets are counted from (WAKE-13)."""

    async def add(self, wake: Wake) -> None:
        """Store a new request. Raises Conflict if its idempotency key exists."""
        ...

    async def save(self, wake: Wake) -> bool:
        """Write the new decision of a deferred request; return whether it was deferred."""
        ...

    async def charge_reserved(self, pulse_id: PulseId) -> None:
        """Charge the pulse's reserved requests."""
        ...

    async def release_reserved(self, pulse_id: PulseId) -> int:
        """Release the pulse's reserved requests, which never ran; return their number."""
        ...

    async def get(self, wake_id: WakeId) -> Wake | None: ...

    async def get_by_key(self, key: str) -> Wake | None: ...

    async def find_by_pulse(self, pulse_id: PulseId) -> Sequence[Wake]:
        """Return the requests that started or joined the pulse, in order."""
        ...

    async def find_by_root(self, root_id: str) -> Sequence[Wake]:
        """Return the requests of a chain in order."""
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
        """Return agents whose deferred requests are due for a check, most urgent first, then oldest.

        These are agents with a request whose time has come, that expires, or that `rule` defers, and agents in `of`
        with any deferred request; None for `of` means all agents. Waiting raises a request's rank by one per
        `ageing_seconds`.
        """
        ...

    async def has_deferred_by(self, rule: str) -> bool:
        """Return whether this rule defers any request."""
        ...

    async def count_refused_by_rule(self, agent_id: AgentId, since: datetime) -> Mapping[str, int]:
        """Return the number of requests that each rule refused since then."""
        ...

    async def count_by_sender(self, agent_id: AgentId, since: datetime) -> Mapping[str, int]:
        """Return the agent's counted wakes since then, by sender."""
        ...

    async def count_by_pair(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Sequence[WakeCount]:
        """Return request counts by sender, target and decision in that time, ordered by name."""
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
        """Return requests, newest first; `before` is the last one of the previous page."""
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
        fleet_open_most: int = 0,
        fleet_wakes_most: int = 0,
    ) -> GuardrailCounts:
        """Count what the admission of `wake_id` needs, excluding the request itself.

        `day` is the start of the target's day; `asked_since` that of the sender's pulse or waking period. Potentially
        large counts (`asked_in_session`, `fleet_open`, `fleet_wakes_today`) stop at their `_most`; failures are counted
        among the last `failures_most` pulses.
        """
        ...


class Pulses(Protocol):
    """Pulses: the rows are the source of truth and the engine's outbox (WAKE-50)."""

    async def add(self, pulse: Pulse) -> None: ...

    async def save(self, pulse: Pulse, *, origin: Pulse) -> bool:
        """Write the pulse if its stored state, epoch included, matches `origin`; return whether it did."""
        ...

    async def queue_save(self, pulse: Pulse, *, origin: Pulse) -> None:
        """Write the pulse by the end of the block, which fails with Conflict if its state does not match `origin`."""
        ...

    async def get(self, pulse_id: PulseId) -> Pulse | None: ...

    async def get_by_token(self, token_hash: str) -> Pulse | None:
        """Return the open pulse with this token."""
        ...

    async def find_open(self, agent_id: AgentId) -> Sequence[Pulse]:
        """Return the agent's pulses that have not ended, oldest first."""
        ...

    async def find_busy_agents(self) -> Collection[AgentId]:
        """Return the agents with a pulse that has not ended."""
        ...

    async def find_by_root(self, root_id: str) -> Sequence[Pulse]:
        """Return the pulses of a chain in order."""
        ...

    async def has_startable(self, now: datetime, launchers: Collection[str]) -> bool:
        """Return whether a pending pulse of these launchers that nobody has claimed may start."""
        ...

    async def claim(
        self, owner: str, launchers: Collection[str], *, now: datetime, until: datetime, limit: int,
        since: datetime | None = None,
    ) -> Sequence[Pulse]:  # fmt: skip
        """Claim the oldest pending pulses of these launchers that may start and that nobody else is claiming.

        A claimed pulse stays pending, with the next epoch and a lease `until` then. Those that the owner has claimed
        until `since` or later, in a claim whose answer was lost, are among them.
        """
        ...

    async def find_unclaimed(self, now: datetime, *, before: datetime, limit: int) -> Sequence[Pulse]:
        """Return pulses of any launcher that may start, that nobody has claimed, and that were made before then."""
        ...

    async def find_overdue(self, now: datetime) -> Sequence[Pulse]:
        """Return running pulses that no process claimed (waking periods) and whose time is up."""
        ...

    async def find_claimed(self) -> Sequence[Pulse]:
        """Return pulses that are claimed by a process."""
        ...

    async def renew_leases(self, owner: str, until: datetime) -> None:
        """Renew the leases of a process."""
        ...

    async def shift_starts(
        self, seconds: float, *, of: Collection[PulseId] | None, but_from: datetime, but_to: datetime
    ) -> None:
        """Shift the start of these open pulses, or of all with None, except those that started in the given time."""
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
        """Return pulses, newest first; `before` is the last one of the previous page."""
        ...

    async def count_failures(self, agent_id: AgentId, *, limit: int) -> tuple[int, datetime | None]:
        """Return how many of the last `limit` ended pulses failed in a row, and when the newest of them ended."""
        ...


class Routines(Protocol):
    """Routines of agents; an unreadable row counts as missing and is logged."""

    async def add(self, routine: Routine) -> None:
        """Store a new routine. Raises Conflict if the agent has one of its name."""
        ...

    async def save(self, routine: Routine, *, origin: Routine) -> bool:
        """Write the routine if its next_at still matches `origin`; return whether it did."""
        ...

    async def remove(self, agent_id: AgentId, name: str) -> bool:
        """Delete a routine; return whether it existed."""
        ...

    async def remove_others(self, agent_id: AgentId, names: Collection[str]) -> None:
        """Delete the agent's routines except these names, unreadable ones too."""
        ...

    async def get(self, agent_id: AgentId, name: str) -> Routine | None: ...

    async def find_by_agent(self, agent_id: AgentId) -> Sequence[Routine]:
        """Return the agent's routines by name."""
        ...

    async def next_due_time(self, now: datetime) -> datetime | None:
        """Return the next due time of an enabled routine."""
        ...

    async def find_due(self, now: datetime, *, limit: int) -> Sequence[Routine]:
        """Return enabled routines whose next_at has come, longest overdue first."""
        ...

    async def find_due_after(self, instant: datetime) -> Sequence[Routine]:
        """Return enabled routines whose next_at is later."""
        ...
