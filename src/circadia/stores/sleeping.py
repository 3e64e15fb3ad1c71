"""Store protocols for sleep-time work: passes, changes, states, calls and benefits."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from circadia.ids import BankId, CallId, EpisodeId, PassId
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.records.conversation import OpenTurn
from circadia.records.due_work import AgentsCheck, DueBanks, DueCheck
from circadia.records.episode import Demotion
from circadia.records.sleep_call import Benefit, OperationModelCost, SleepCall, SleepCost
from circadia.records.sleep_pass import Backlog, Pass, PassStatus, SleepState


class Passes(Protocol):
    """Passes and their changes."""

    async def add(self, new: Pass) -> None:
        """Store a new pass. Raises Conflict if the bank has an open one."""
        ...

    async def save(self, now: Pass, *, origin: Pass) -> bool:
        """Write the pass if its stored state, epoch included, matches `origin`; return whether it did."""
        ...

    async def get(self, pass_id: PassId) -> Pass | None: ...

    async def get_open(self, bank_id: BankId) -> Pass | None:
        """Return the bank's pass that has not ended."""
        ...

    async def has_startable(self, now: datetime) -> bool:
        """Return whether a pending pass that nobody has claimed may start."""
        ...

    async def claim(
        self, owner: str, *, now: datetime, until: datetime, limit: int, since: datetime | None = None
    ) -> Sequence[Pass]:
        """Claim pending passes that may start and that nobody else is claiming; return them.

        Passes that calls wait for go first, then the bank that waited longest (SLEEP-14). A claimed pass stays
        pending, with the next epoch and a lease `until` then. Those that the owner has claimed until `since` or later,
        in a claim whose answer was lost, are among them.
        """
        ...

    async def find_claimed(self) -> Sequence[Pass]:
        """Return passes that are claimed by a process."""
        ...

    async def renew_leases(self, owner: str, until: datetime) -> None:
        """Renew the leases of a process."""
        ...

    async def find_all(
        self,
        *,
        bank_id: BankId | None = None,
        status: PassStatus | None = None,
        before: PassId | None = None,
        limit: int = 100,
    ) -> Sequence[Pass]:
        """Return passes, newest first; `before` is the last one of the previous page."""
        ...

    async def find_newest(
        self,
        *,
        statuses: Collection[PassStatus] = (),
        since: datetime | None = None,
        before: Pass | None = None,
        limit: int = 100,
    ) -> Sequence[Pass]:
        """Return passes over all banks, newest request first.

        They have one of these statuses, if any are given, and were requested at or after `since`; `before` is the last
        one of the previous page.
        """
        ...

    async def count_started(self, bank_id: BankId | None, since: datetime, until: datetime) -> int:
        """Return how many passes of the bank, or of all banks, started since then and before `until`."""
        ...

    async def count_by_status(self) -> Mapping[PassStatus, int]: ...

    async def save_changes(self, changes: Sequence[Change]) -> None:
        """Store changes, or overwrite those of the same pass and number."""
        ...

    async def find_changes(
        self, pass_id: PassId, *, state: ChangeState | None = None, kind: ChangeKind | None = None, after: int = 0,
        limit: int | None = None,
    ) -> Sequence[Change]:  # fmt: skip
        """Return a pass's changes in order, optionally of one state or kind."""
        ...

    async def last_change_number(self, pass_id: PassId) -> int:
        """Return the number of a pass's last change, or 0."""
        ...

    async def redact_changes(self, bank_id: BankId, gone: Collection[str]) -> None:
        """Remove the content of the bank's changes that concern or cite these notes or episodes."""
        ...

    async def find_changes_of(self, bank_id: BankId, target: str) -> Sequence[Change]:
        """Return what passes changed in a note, episode or block of the bank, oldest first."""
        ...


class DueChecks(Protocol):
    """Checks of banks for a due pass.

    The nouns ask for one in the transaction of each change that a decision rests on, so none is lost.
    """

    async def add(self, bank_ids: Collection[BankId]) -> None:
        """Ask for a check of these banks."""
        ...

    async def add_of_agents(self, bound_name: str, *, if_asleep: bool) -> None:
        """Ask for a check of the banks with this name or template; see `AgentsCheck`."""
        ...

    async def find_due(self, now: datetime, *, limit: int) -> DueBanks:
        """Return up to `limit` banks for which a check was asked for, and as many whose time has come."""
        ...

    async def expand(self, check: AgentsCheck, now: datetime, *, limit: int) -> int:
        """Make up to `limit` of the bound banks due now; return how many were not due before."""
        ...

    async def settle(self, numbers: Collection[int], checks: Sequence[DueCheck]) -> None:
        """Delete the requests with these numbers, and set when the banks are checked again."""
        ...


class SleepStates(Protocol):
    """Progress of sleep-time work in each bank."""

    async def get(self, bank_id: BankId) -> SleepState:
        """Return the bank's state, or a fresh one."""
        ...

    async def put(self, state: SleepState) -> None: ...

    async def fetch_backlog(self, bank_id: BankId, after: int) -> Backlog:
        """Return the backlog after an episode's number."""
        ...

    async def count_unstored_turn(self, bank_id: BankId) -> None:
        """Count a completed turn whose answer is no episode of its own."""
        ...

    async def record_gate(self, bank_id: BankId, gate: str, detail: str, at: datetime) -> None:
        """Write which gate is closed, and nothing else."""
        ...

    async def are_agents_asleep(self, names: Collection[str]) -> bool:
        """Return whether there are agents bound to these bank names, and all of them sleep."""
        ...

    async def find_zone(self, names: Collection[str]) -> str | None:
        """Return the time zone of the oldest agent bound to these bank names; none if it has none."""
        ...

    async def find_stale(self, bank_id: BankId, after: int) -> Mapping[EpisodeId, Sequence[Demotion]]:
        """Return stale episodes with their demotions that the bank counted after `after`."""
        ...

    async def count_stale(self, bank_id: BankId, after: int) -> int:
        """Return the number of episodes demoted and notes retired after the bank's demotion count was `after`."""
        ...

    async def count_items(self, bank_id: BankId, most: int) -> int:
        """Return the number of episodes and notes, retired ones too, counting each layer up to `most`."""
        ...

    async def find_banks_with_changes(self) -> Sequence[BankId]:
        """Return banks with demotions or block edits that no pass has seen."""
        ...

    async def find_banks_with_backlog(self, *, noted: bool = True) -> Sequence[BankId]:
        """Return banks with episodes after their cursor, or with leftovers.

        Without `noted` it looks at all banks, also at those of which no check says so.
        """
        ...

    async def find_failing_banks(self) -> Sequence[BankId]:
        """Return banks whose last pass failed."""
        ...


class SleepCalls(Protocol):
    """Model calls of the sleep tier. Their cost is in the usage ledger under the same ids."""

    async def add(self, call: SleepCall) -> None:
        """Store a call that is starting."""
        ...

    async def save_outcome(self, call: SleepCall) -> None:
        """Write the answer or error, unless the bank was deleted or its calls forgotten since the call started."""
        ...

    async def get_answered(self, bank_id: BankId, key: str) -> SleepCall | None:
        """Return the bank's answered call of this key."""
        ...

    async def find_unanswered(self, bank_id: BankId, key: str) -> Sequence[SleepCall]:
        """Return the bank's calls of this key without answer or error."""
        ...

    async def renew_lease(self, call_id: CallId, until: datetime) -> None:
        """Renew the lease of a running call."""
        ...

    async def find_by_pass(self, pass_id: PassId) -> Sequence[SleepCall]:
        """Return a pass's calls in order."""
        ...

    async def sum_cost(
        self,
        *,
        since: datetime | None = None,
        bank_id: BankId | None = None,
        pass_id: PassId | None = None,
        operation: str | None = None,
    ) -> SleepCost:
        """Return the cost of calls that match all given conditions, reservations included."""
        ...

    async def sum_cost_by_pass(self, pass_ids: Collection[PassId]) -> Mapping[PassId, SleepCost]:
        """Return the cost of each of these passes that has calls, reservations included."""
        ...

    async def sum_cost_by_model(self, pass_id: PassId) -> Sequence[OperationModelCost]:
        """Return the cost of a pass's calls, ordered by operation and model."""
        ...

    async def sum_cost_by_operation(self, bank_id: BankId, *, since: datetime) -> Mapping[str, SleepCost]:
        """Return the cost of a bank's calls since then by operation, reservations included."""
        ...

    async def forget_answers(self, bank_id: BankId) -> int:
        """Remove the answers of a bank's calls, pending ones too; return their number."""
        ...


class OpenTurns(Protocol):
    """Turns in progress at the gateways of all processes."""

    async def add(self, turns: Sequence[OpenTurn]) -> None: ...

    async def remove(self, owner: str, ids: Collection[int]) -> None:
        """Delete turns of a process that have ended."""
        ...

    async def find_newest_start(self, bank: str, end_user: str, *, besides: str, now: datetime) -> datetime | None:
        """Return the start of the newest turn of a bank at processes other than `besides`."""
        ...

    async def renew_leases(self, owner: str, until: datetime) -> None:
        """Renew the leases of a process."""
        ...

    async def delete_expired(self, before: datetime) -> None:
        """Delete turns whose leases ran out before then."""
        ...


class Benefits(Protocol):
    """Effect of sleep-tier work on hot calls, by bank, operation and day."""

    async def add(self, gains: Sequence[Benefit]) -> None:
        """Add these counts to the stored ones."""
        ...

    async def find_all(self, bank_id: BankId, *, since: date) -> Sequence[Benefit]:
        """Return a bank's benefits from this day on, by operation and day."""
        ...

    async def sum_saved_tokens(self, *, since: date) -> int:
        """Return the tokens saved in all banks from this day on."""
        ...
