"""Approvals of calls: asked for at the gate, decided by people, and used up by one call (WAKE-86)."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from circadia.clock import Clock
from circadia.errors import Conflict, NotFound
from circadia.ids import ApprovalId, IdSource
from circadia.records.agent import Agent
from circadia.records.approval import REPEATED_FOR, Approval, ApprovalRule, ApprovalStatus
from circadia.records.event import ApprovalChange, EventType
from circadia.records.session import build_reference
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import ALERTS_KEY, agent_key

TOPIC: Final = "approval"
"""Signals that an approval was asked for, decided or used; the key is its id."""
CAUSE: Final = "approval"
"""Cause of the alerts that an agent's call waits for a person."""
_EXPIRED_AT_ONCE: Final = 100
_BY: Final = "circadia"


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequest:
    """What a call needs a person's approval for."""

    agent: Agent
    door: str
    target: str
    what: str
    rule: ApprovalRule
    digest: str
    preview: str
    cut: bool = False
    model: str = ""
    nanousd: int | None = None


class ApprovalService:
    def __init__(self, clock: Clock, ids: IdSource, events: EventLog) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events

    async def request(self, tx: Tx, request: ApprovalRequest) -> Approval:
        """Return the open approval of this call, perhaps asked for by an earlier caller; or ask for one."""
        agent, now = request.agent, self._clock.now()
        known = await tx.approvals.find_open(agent.id, request.digest)
        if known is not None and known.expires_at <= now:
            known = await self._close(tx, known)
        if known is not None:
            return known
        approval = Approval(
            id=ApprovalId(self._ids.new("apr")),
            agent_id=agent.id,
            session=agent.session,
            agent=agent.name,
            door=request.door,
            target=request.target,
            what=request.what,
            rule=request.rule,
            model=request.model,
            nanousd=request.nanousd,
            digest=request.digest,
            preview=request.preview,
            cut=request.cut,
            valid_seconds=agent.policy.approval_seconds,
            requested_at=now,
            expires_at=now + timedelta(seconds=agent.policy.approval_seconds),
        )
        await tx.approvals.add(approval)
        await self._record(tx, approval, by=agent.reference)
        return approval

    async def decide(self, tx: Tx, approval_id: str, *, approves: bool, by: str, reason: str) -> Approval:
        """Approve or refuse a call that waits.

        Raises:
            NotFound: there is no such approval. Conflict: it is decided, or has expired.
        """
        pending = await self.get(tx, approval_id)
        await tx.hold(ALERTS_KEY, agent_key(pending.agent_id))
        pending, now = await self.get(tx, approval_id), self._clock.now()
        if pending.status is ApprovalStatus.PENDING and pending.expires_at <= now:
            raise Conflict(f"approval {approval_id!r} has expired; its call must be made again")
        if pending.status is not ApprovalStatus.PENDING:
            by_whom = f" by {pending.decided_by}" if pending.decided_by else ""
            raise Conflict(f"approval {approval_id!r} is {pending.status.value}{by_whom} already")
        lasts = timedelta(seconds=pending.valid_seconds) if approves else REPEATED_FOR
        decided = replace(
            pending,
            status=ApprovalStatus.APPROVED if approves else ApprovalStatus.REFUSED,
            decided_by=by,
            decided_at=now,
            reason=reason,
            expires_at=now + lasts,
        )
        await self._save(tx, decided, was=pending.status, by=by)
        await tx.alerts.clear_alert(CAUSE, f"{pending.session}:{pending.agent}")
        return decided

    async def get(self, tx: Tx, approval_id: str) -> Approval:
        """Return an approval. Raises NotFound."""
        approval = await tx.approvals.get(ApprovalId(approval_id))
        if approval is None:
            raise NotFound(f"no approval {approval_id!r}; list them with `circadia approvals`")
        return approval

    async def use(self, tx: Tx, approved: Approval) -> bool:
        """Use up an approval for the call that is sent now; return False if it is used, or has expired."""
        now = self._clock.now()
        used = replace(approved, status=ApprovalStatus.USED, closed_at=now)
        if approved.expires_at <= now or not await tx.approvals.save(used, was=ApprovalStatus.APPROVED):
            return False
        await self._record(tx, used, by=build_reference(approved.session, approved.agent))
        return True

    async def give_back(self, tx: Tx, approved: Approval) -> None:
        """Let a repeat of the call have the approval: its first caller's call has certainly done nothing."""
        if await tx.approvals.find_open(approved.agent_id, approved.digest) is None:
            await self._save(tx, replace(approved, closed_at=None), was=ApprovalStatus.USED, by=_BY)

    async def close_refused(self, tx: Tx, refused: Approval) -> None:
        """Record that the caller knows of the refusal: the same call asks anew from now on."""
        await tx.approvals.save(replace(refused, closed_at=self._clock.now()), was=refused.status)

    async def expire_due(self, store: Store) -> None:
        """Expire what nobody has decided or used in time, and close what no repeat of a call asked for."""
        async with store.begin_read() as tx:
            due = await tx.approvals.find_due(self._clock.now(), limit=_EXPIRED_AT_ONCE)
        for approval in due:
            await self.expire(store, approval)

    async def expire(self, store: Store, approval: Approval) -> None:
        async with store.begin_write(agent_key(approval.agent_id)) as tx:
            again = await tx.approvals.get(approval.id)
            if again is not None and again.closed_at is None and again.expires_at <= self._clock.now():
                await self._close(tx, again)

    async def _close(self, tx: Tx, due: Approval) -> Approval | None:
        """Expire or close an approval whose time is over; return it if it still refuses repeats of its call."""
        now = self._clock.now()
        if due.status is ApprovalStatus.PENDING and due.expires_at + REPEATED_FOR > now:
            expired = replace(due, status=ApprovalStatus.EXPIRED, expires_at=due.expires_at + REPEATED_FOR)
            await self._save(tx, expired, was=due.status, by=_BY)
            return expired
        if due.status in (ApprovalStatus.PENDING, ApprovalStatus.APPROVED):
            await self._save(tx, replace(due, status=ApprovalStatus.EXPIRED, closed_at=now), was=due.status, by=_BY)
        else:
            await tx.approvals.save(replace(due, closed_at=now), was=due.status)
        return None

    async def _save(self, tx: Tx, approval: Approval, *, was: ApprovalStatus, by: str) -> None:
        """Write a change with its event. Raises Conflict: somebody else was first."""
        if not await tx.approvals.save(approval, was=was):
            raise Conflict(f"approval {approval.id!r} has changed meanwhile")
        await self._record(tx, approval, by=by)

    async def _record(self, tx: Tx, approval: Approval, *, by: str) -> None:
        data = ApprovalChange(
            approval=approval.id, status=approval.status, rule=approval.rule, door=approval.door,
            target=approval.target, what=approval.what, digest=approval.digest, by=by, reason=approval.reason,
        )  # fmt: skip
        await self._events.record(tx, EventType.APPROVAL, data, session=approval.session, agent=approval.agent)
        self._events.signal(tx, TOPIC, approval.id, {"status": approval.status.value, "rule": approval.rule.value})
