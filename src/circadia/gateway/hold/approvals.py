"""Approvals at the gate: a call waits for a person as it waits for its agent's wake, and is sent once (WAKE-86).

The rows decide. Signals say that one was decided; while calls wait, their rows are also read once a second.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from circadia.agents.approvals import TOPIC, ApprovalRequest, ApprovalService
from circadia.clock import Clock, wait_for_event
from circadia.errors import ApprovalRefused, CircadiaError
from circadia.ids import ApprovalId
from circadia.jobs.loops import run_guarded
from circadia.records.approval import Approval, ApprovalStatus
from circadia.stores.base import Store, Tx
from circadia.stores.locks import agent_key
from circadia.stores.signals.base import Signals
from circadia.stores.time_limit import limit_wait

_logger = logging.getLogger(__name__)
LOOK_SECONDS: Final = 1.0
"""Longest time from a decision to its call, if the signal is lost."""
_AT_ONCE: Final = 500


class ApprovalDesk:
    """The calls of this gateway that wait for a person."""

    def __init__(self, clock: Clock, store: Store, service: ApprovalService, signals: Signals) -> None:
        self.clock: Final = clock
        self.store: Final = store
        self.service: Final = service
        self._waiting: dict[ApprovalId, dict[CallApproval, None]] = {}
        self._bell = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        signals.listen(TOPIC, self._on_signal)

    @property
    def waiting(self) -> int:
        """Number of approvals that calls wait for here."""
        return len(self._waiting)

    def add(self, call: "CallApproval", approval_id: ApprovalId) -> None:
        self._waiting.setdefault(approval_id, {})[call] = None
        self._bell.set()

    def remove(self, call: "CallApproval", approval_id: ApprovalId) -> None:
        calls = self._waiting.get(approval_id)
        if calls is not None:
            calls.pop(call, None)
            if not calls:
                del self._waiting[approval_id]

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Write in the background what no caller waits for."""
        task = asyncio.create_task(_guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Tell waiting calls of decisions, and expire what they waited for, until cancelled."""
        while True:
            if self._waiting:
                await wait_for_event(self.clock, self._bell, LOOK_SECONDS)
            else:
                await self._bell.wait()
            self._bell.clear()
            await run_guarded("the look for approvals", self._look)

    async def _look(self) -> None:
        now = self.clock.now()
        for approval in [call.approval for calls in tuple(self._waiting.values()) for call in calls]:
            if approval is not None and approval.expires_at <= now:
                await self.service.expire(self.store, approval)
        ids = list(self._waiting)
        for first in range(0, len(ids), _AT_ONCE):
            async with self.store.begin_read() as tx:
                decided = await tx.approvals.find_decided(ids[first : first + _AT_ONCE])
            for approval in decided:
                for call in tuple(self._waiting.get(approval.id, ())):
                    call.hear(approval)

    def _on_signal(self, key: str, _: Mapping[str, object]) -> None:
        if ApprovalId(key) in self._waiting:
            self._bell.set()


class CallApproval:
    """What one call needs before it may be sent."""

    def __init__(self, desk: ApprovalDesk, request: ApprovalRequest) -> None:
        self._desk = desk
        self._request = request
        self._recheck: Callable[[], object] = _do_nothing
        self.approval: Approval | None = None
        self.is_used = False
        """Whether the approval was used up for this call."""

    @property
    def waits(self) -> bool:
        """Whether nobody has decided yet."""
        approval = self.approval
        return not self.is_used and (approval is None or approval.status is ApprovalStatus.PENDING)

    async def request(self, recheck: Callable[[], object]) -> None:
        """Ask for the approval, or find that of an earlier caller; `recheck` is called when it is decided.

        Raises:
            ApprovalRefused: it was refused before. StorageUnavailable.
        """
        if self.is_used or (self.approval is not None and self.approval.status is ApprovalStatus.APPROVED):
            return
        self._recheck = recheck
        agent_id = self._request.agent.id
        async with limit_wait(), self._desk.store.begin_write(agent_key(agent_id)) as tx:
            self.approval = await self._desk.service.request(tx, self._request)
        if self.blocks():
            self._desk.add(self, self.approval.id)

    def blocks(self) -> bool:
        """Return whether the call must wait. Raises ApprovalRefused."""
        approval = self.approval
        if approval is not None and approval.status is ApprovalStatus.REFUSED:
            raise ApprovalRefused(_explain_refusal(approval))
        if approval is not None and approval.status is ApprovalStatus.EXPIRED:
            raise ApprovalRefused(
                f"nobody approved this call ({approval.what}) within {approval.valid_seconds:g} s; nothing was sent"
            )
        return self.waits

    def hear(self, decided: Approval) -> None:
        """Take the decision, if the call still waits for it."""
        self._desk.remove(self, decided.id)
        # An approval that another caller of the same call has used up is found to be used where this call uses it.
        self.approval = decided
        self._recheck()

    async def use(self) -> bool:
        """Use up the approval; return False if it must be asked for anew. Raises StorageUnavailable."""
        if self.is_used:
            return True
        approval = self.approval
        if approval is not None and approval.status is ApprovalStatus.APPROVED:
            async with limit_wait(), self._desk.store.begin_write(agent_key(approval.agent_id)) as tx:
                self.is_used = await self._desk.service.use(tx, approval)
        if not self.is_used:
            self.approval = None
        return self.is_used

    def give_back(self) -> None:
        """Let a repeat of the call have the approval: this one was certainly not carried out."""
        if self.is_used and self.approval is not None:
            self.is_used = False
            self._desk.start(self._write(self._desk.service.give_back, self.approval))

    def leave(self, *, was_told: bool) -> None:
        """Wait no more; `was_told` says that the caller got the refusal."""
        if self.approval is not None:
            self._desk.remove(self, self.approval.id)
            if was_told:
                self._desk.start(self._write(self._desk.service.close_refused, self.approval))

    async def _write(self, change: Callable[[Tx, Approval], Coroutine[Any, Any, None]], approval: Approval) -> None:
        async with self._desk.store.begin_write(agent_key(approval.agent_id)) as tx:
            await change(tx, approval)


def _explain_refusal(approval: Approval) -> str:
    reason = f": {approval.reason}" if approval.reason else ""
    return f"{approval.decided_by} has refused this call ({approval.what}){reason}; nothing was sent"


async def _guard(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except CircadiaError as error:
        _logger.warning("an approval could not be changed: %s", error.message)


def _do_nothing() -> None: ...
