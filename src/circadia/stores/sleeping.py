"""What the program asks of a database for sleep-time work: passes, changes, states, calls. `base.py` has the rest."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from circadia.ids import BankId, CallId, EpisodeId, PassId
from circadia.records.benefit import Benefit
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.records.episode import Demotion
from circadia.records.open_turn import OpenTurn
from circadia.records.sleep_call import OperationDayCost, OperationModelCost, SleepCall, SleepCost
from circadia.records.sleep_pass import Pass, PassStatus
from circadia.records.sleep_state import Backlog, SleepState


class Passes(Protocol):
    """Passes and what they change."""

    async def add(self, new: Pass) -> None:
        """Store a new one. Raises Conflict if the bank has one that has not ended."""
        ...

    async def save(self, now: Pass, *, origin: Pass) -> bool:
        """Write where the pass stands now if it stands as in `origin`, epoch and all; return whether it did."""
        ...

    async def get(self, pass_id: PassId) -> Pass | None: ...

    async def get_open(self, bank_id: BankId) -> Pass | None:
        """Return the bank's pass that has not ended."""
        ...

    async def find_startable(self, now: datetime, *, limit: int) -> Sequence[Pass]:
        """Return pending ones whose time has come, the one whose bank was served longest ago first (SLEEP-14)."""
        ...

    async def find_claimed(self) -> Sequence[Pass]:
        """Return those that processes have taken."""
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
        """Return passes, the newest first; `before` is the last one of the page before."""
        ...

    async def count_started(self, bank_id: BankId | None, since: datetime, until: datetime) -> int:
        """Return how many of the bank, or of all, were started since then and before `until`."""
        ...

    async def count_by_status(self) -> Mapping[PassStatus, int]:
        """Return how many stand where."""
        ...

    async def save_changes(self, changes: Sequence[Change]) -> None:
        """Store changes, or overwrite those of the same pass and number."""
        ...

    async def find_changes(
        self, pass_id: PassId, *, state: ChangeState | None = None, kind: ChangeKind | None = None
    ) -> Sequence[Change]:
        """Return a pass' changes in order, all or those in this state and of this kind."""
        ...

    async def last_change_number(self, pass_id: PassId) -> int:
        """Return the number of a pass' last change; 0 if it has none."""
        ...

    async def purge(self, before: datetime) -> int:
        """Delete passes that ended earlier, with their changes; return how many."""
        ...

    async def redact_changes(self, bank_id: BankId, gone: Collection[str]) -> None:
        """Take out what changes of the bank say, where they are about these notes or episodes, or rest on them."""
        ...

    async def find_changes_of(self, bank_id: BankId, target: str) -> Sequence[Change]:
        """Return what passes did to a note, an episode or a block of the bank, the oldest first."""
        ...


class SleepStates(Protocol):
    """How far the work has come in each bank."""

    async def get(self, bank_id: BankId) -> SleepState:
        """Return the bank's state; a fresh one if nothing was ever done there."""
        ...

    async def put(self, state: SleepState) -> None:
        """Write it."""
        ...

    async def fetch_backlog(self, bank_id: BankId, after: int) -> Backlog:
        """Return what waits behind an episode's number."""
        ...

    async def asleep_since(self, names: Collection[str]) -> datetime | None:
        """Return since when all agents bound to these names of banks sleep; none if one is awake, or there is none."""
        ...

    async def find_zone(self, names: Collection[str]) -> str | None:
        """Return the time zone of the oldest agent bound to these names of banks; none if it states none."""
        ...

    async def find_stale(self, bank_id: BankId, after: int) -> Mapping[EpisodeId, Sequence[Demotion]]:
        """Return the episodes that are stale by a demotion that the bank counted after so many."""
        ...

    async def count_stale(self, bank_id: BankId, after: int) -> int:
        """Return how many episodes are stale, and notes retired, by what the bank counted after so many demotions."""
        ...

    async def count_items(self, bank_id: BankId, most: int) -> int:
        """Return how many episodes and notes, retired ones too, the bank has, up to so many of each layer."""
        ...

    async def find_banks_with_changes(self) -> Sequence[BankId]:
        """Return the banks with demotions, or an edit of a block, that no pass knows of."""
        ...

    async def find_banks_with_backlog(self) -> Sequence[BankId]:
        """Return the banks that have episodes behind their cursor, or leftovers."""
        ...

    async def find_failing_banks(self) -> Sequence[BankId]:
        """Return the banks whose last pass has failed."""
        ...


class SleepCalls(Protocol):
    """Model calls of the tier. What they cost is in the usage ledger, under the same ids."""

    async def add(self, call: SleepCall) -> None:
        """Store one that is asked now."""
        ...

    async def save_outcome(self, call: SleepCall) -> None:
        """Write its answer or error, unless the bank was deleted, or its calls forgotten, since it was asked."""
        ...

    async def get_answered(self, bank_id: BankId, key: str) -> SleepCall | None:
        """Return the bank's call of this key that has an answer."""
        ...

    async def find_unanswered(self, bank_id: BankId, key: str) -> Sequence[SleepCall]:
        """Return the bank's calls of this key that have neither answer nor error."""
        ...

    async def renew_lease(self, call_id: CallId, until: datetime) -> None:
        """Renew the lease of a call that is being asked."""
        ...

    async def find_by_pass(self, pass_id: PassId) -> Sequence[SleepCall]:
        """Return a pass' calls in order."""
        ...

    async def sum_cost(
        self,
        *,
        since: datetime | None = None,
        bank_id: BankId | None = None,
        pass_id: PassId | None = None,
        operation: str | None = None,
    ) -> SleepCost:
        """Return what those cost that meet each condition that is given, reservations included."""
        ...

    async def sum_cost_by_model(self, pass_id: PassId) -> Sequence[OperationModelCost]:
        """Return what a pass' calls cost, by operation and model, in the order of these."""
        ...

    async def sum_cost_by_day(self, bank_id: BankId, *, since: datetime) -> Sequence[OperationDayCost]:
        """Return what a bank's calls since then cost, by operation and day (UTC), in the order of these."""
        ...

    async def forget_answers(self, before: datetime | None = None, *, bank_id: BankId | None = None) -> int:
        """Take the answers of older calls out, or of a bank's, those to come as well; return of how many."""
        ...


class OpenTurns(Protocol):
    """Turns that are under way at the gateways of all processes."""

    async def add(self, turns: Sequence[OpenTurn]) -> None:
        """Store these."""
        ...

    async def remove(self, owner: str, ids: Collection[int]) -> None:
        """Delete these of a process: they have ended."""
        ...

    async def find_newest_start(self, bank: str, end_user: str, *, besides: str, now: datetime) -> datetime | None:
        """Return when the newest of a bank's turns at other processes than this one began."""
        ...

    async def renew_leases(self, owner: str, until: datetime) -> None:
        """Renew the leases of a process."""
        ...

    async def delete_expired(self, before: datetime) -> None:
        """Delete those whose leases ran out earlier."""
        ...


class Benefits(Protocol):
    """What came of the tier's work in hot calls, by bank, operation and day."""

    async def add(self, gains: Sequence[Benefit]) -> None:
        """Add these counts to those that are there."""
        ...

    async def find_all(self, bank_id: BankId, *, since: date) -> Sequence[Benefit]:
        """Return a bank's from this day on, by operation and day."""
        ...

    async def sum_saved_tokens(self, *, since: date) -> int:
        """Return the tokens that were saved in all banks from this day on."""
        ...

    async def delete_before(self, before: date) -> None:
        """Delete those of earlier days."""
        ...
