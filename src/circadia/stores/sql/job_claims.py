"""Pending jobs and their leases, for pulses and passes alike."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    Table,
    and_,
    bindparam,
    exists,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.sql.dml import Update

from circadia.stores.sql.link import Runner
from circadia.stores.sql.name_list import is_among
from circadia.stores.sql.statement import Statement

R = TypeVar("R")


class JobClaims(Generic[R]):
    """Claims rows of one table: of several processes one gets a row, and none waits for another."""

    def __init__(
        self,
        table: Table,
        *,
        pending: str,
        taken: Collection[str],
        first: Sequence[ColumnElement[Any]],
        farthest: timedelta,
        read: Callable[[Any], R],
        kind: ColumnElement[str] | None = None,
    ) -> None:
        """`pending` and `taken` are statuses, and `first` is the order of claims. No retry delay reaches `farthest`.

        With `kind`, a claim names the values of that column that its process can run.
        """
        self._table, self._first, self._kind = table, first, kind
        rows = table.c
        self._farthest_name, self._farthest = f"farthest_{table.name}", farthest
        is_open = rows.ended_at.is_(None)
        self._is_due = and_(
            is_open,
            rows.status == literal_column(f"'{pending}'", String),  # a constant, which a partial index needs
            or_(
                rows.not_before.is_(None),
                rows.not_before <= bindparam("now"),
                rows.not_before > bindparam(self._farthest_name),  # the clock was set back
            ),
        )
        self._is_free = or_(rows.lease_until.is_(None), rows.lease_until <= bindparam("now"))
        self.is_startable = and_(self._is_due, self._is_free)
        self.is_taken = and_(is_open, rows.status.in_(taken))
        self.is_owned = and_(self.is_taken, rows.owner.is_not(None))
        self._has_startable = Statement(lambda connection: select(exists().where(self.build_startable(connection))))
        self._claim = Statement(self._build_claim, read=read)
        self._owned = Statement(select(table).where(self.is_owned), read=read)
        # A row that somebody else has locked is about to change or to end.
        alive = (
            select(rows.id)
            .where(self.is_taken, rows.owner == bindparam("owner_id"), rows.lease_until.is_not(None))
            .with_for_update(skip_locked=True)
        )
        self._renew = Statement(update(table).where(rows.id.in_(alive)).values(lease_until=bindparam("until")))

    def build_startable(self, connection: Connection) -> ColumnElement[bool]:
        """Return the condition of jobs that may start and are of a kind that this process can run."""
        return and_(self.is_startable, self._build_runnable(connection))

    def _build_runnable(self, connection: Connection) -> ColumnElement[bool]:
        return true() if self._kind is None else is_among(connection, self._kind, self._kinds_name)

    def _build_claim(self, connection: Connection) -> Update:
        rows = self._table.c
        is_claimed = and_(rows.owner == bindparam("owner_id"), rows.lease_until >= bindparam("since"))
        free_jobs = (
            select(rows.id)
            .where(self._is_due, or_(self._is_free, is_claimed), self._build_runnable(connection))
            .order_by(*self._first)
            .limit(bindparam("most"))
            .with_for_update(of=self._table, skip_locked=True)
            .cte("free_jobs")
        )
        return (
            update(self._table)
            .where(rows.id.in_(select(free_jobs.c.id)))
            .values(owner=bindparam("owner_id"), epoch=rows.epoch + 1, lease_until=bindparam("until"))
            .returning(self._table)
        )

    @property
    def _kinds_name(self) -> str:
        return f"kinds_{self._table.name}"

    def build_values(self, now: datetime, kinds: Collection[str] = ()) -> Mapping[str, object]:
        """Return the parameters of `is_startable` and `build_startable`."""
        return {"now": now, self._farthest_name: now + self._farthest, self._kinds_name: kinds}

    async def has_startable(self, runner: Runner, now: datetime, kinds: Collection[str] = ()) -> bool:
        values = self.build_values(now, kinds)
        return bool(
            await runner.run(
                lambda connection: self._has_startable.scalar(connection, values), short=True, single="read"
            )
        )

    async def claim(
        self, runner: Runner, owner: str, *, now: datetime, until: datetime, limit: int, kinds: Collection[str] = (),
        since: datetime | None = None,
    ) -> Sequence[R]:  # fmt: skip
        """Claim rows, among them those that the owner has claimed until `since` or later.

        With its own `until` as `since`, a claim that is sent twice, since its answer was lost, is one claim.
        """
        values = {
            **self.build_values(now, kinds), "most": limit, "owner_id": owner, "until": until, "since": since,
        }  # fmt: skip
        return await runner.run(lambda connection: self._claim.all(connection, values), single="write")

    async def find_owned(self, runner: Runner) -> Sequence[R]:
        return await runner.run(self._owned.all)

    async def renew_leases(self, runner: Runner, owner: str, until: datetime) -> None:
        values = {"owner_id": owner, "until": until}
        await runner.run(lambda connection: self._renew.execute(connection, values))
