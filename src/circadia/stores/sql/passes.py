"""Passes and their changes."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, cast

from sqlalchemy import Connection, bindparam, func, literal, literal_column, or_, select, tuple_, update

from circadia.errors import Conflict
from circadia.ids import BankId, PassId
from circadia.records.change import FORGOTTEN, Change, ChangeKind, ChangeState
from circadia.records.sleep_pass import FARTHEST, Pass, PassStatus, Trigger
from circadia.stores.locks import FLEET_KEY, bank_key
from circadia.stores.sql.due_checks import queue_check
from circadia.stores.sql.job_claims import JobClaims
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant
from circadia.stores.sql.sleep_tables import pass_changes, passes
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_MOVING: Final = (
    "status", "attempt", "epoch", "owner", "lease_until", "not_before", "started_at", "ended_at", "run_seconds",
    "after", "upto", "generation_before", "generation_after", "counts", "detail",
)  # fmt: skip
_CHANGES_PER_STATEMENT: Final = 500
"""Changes redacted per statement."""
_read_pass = build_reader(Pass)
_read_change = build_reader(Change)
_FIELDS: Final = tuple(column.name for column in passes.c)
_write_pass = build_writer(_FIELDS)
_ADD = Statement(Upsert(passes), _FIELDS)
_SAVE = Statement(
    update(passes)
    .where(
        passes.c.id == bindparam("key_id"),
        passes.c.status == bindparam("origin"),
        passes.c.epoch == bindparam("origin_epoch"),
    )
    .values({name: bindparam(f"new_{name}") for name in _MOVING})
)
_IS_OPEN = passes.c.ended_at.is_(None)
_SELECT = Statement(select(passes).where(passes.c.id == bindparam("key_id")), read=_read_pass)
_SELECT_OPEN = Statement(select(passes).where(passes.c.bank_id == bindparam("bank"), _IS_OPEN), read=_read_pass)
_EARLIER = passes.alias("served")
CLAIMS: Final = JobClaims(
    passes,
    pending=PassStatus.PENDING.value,
    taken=(PassStatus.RUNNING.value,),
    first=(
        passes.c.trigger != Trigger.NEEDED.value,  # calls wait for those
        func.coalesce(
            select(func.max(_EARLIER.c.started_at))
            .where(_EARLIER.c.bank_id == passes.c.bank_id, _EARLIER.c.id != passes.c.id)
            .scalar_subquery(),
            0,
        ),
        passes.c.created_at,
        passes.c.id,
    ),
    farthest=FARTHEST,
    read=_read_pass,
)
_CHANGE_FIELDS: Final = tuple(field.name for field in fields(Change))
_write_change = build_writer(_CHANGE_FIELDS)
_SELECT_LAST_CHANGE = Statement(
    select(func.max(pass_changes.c.number).label("last")).where(pass_changes.c.pass_id == bindparam("of"))
)
_SAVE_CHANGES = Statement(
    Upsert(pass_changes, keys=("pass_id", "number"), new=[name for name in _CHANGE_FIELDS if name != "pass_id"]),
    _CHANGE_FIELDS,
)
_IS_STAGED: Final = pass_changes.c.state == literal_column("'staged'")


class Passes(Noun):
    """Passes and their changes."""

    async def add(self, new: Pass) -> None:
        """Store a new pass. Raises Conflict if the bank has an open one."""
        await self._hold(bank_key(new.bank_id))
        if not await self._write(_ADD, _write_pass(new)):
            raise Conflict("this bank has an open pass; wait until it ends, or cancel it")

    async def save(self, now: Pass, *, origin: Pass) -> bool:
        """Write the pass if its stored state, epoch included, matches `origin`; return whether it did."""
        await self._hold(bank_key(now.bank_id))
        values: dict[str, Any] = {f"new_{name}": getattr(now, name) for name in _MOVING}
        values |= {"key_id": now.id, "origin": origin.status.value, "origin_epoch": origin.epoch}
        if now.ended_at is not None:
            queue_check(self._runner, now.bank_id)
        return await self._execute(_SAVE, values) == 1

    async def get(self, pass_id: PassId) -> Pass | None:
        return await self._fetch_held(
            lambda connection: _SELECT.first(connection, {"key_id": pass_id}), lambda found: bank_key(found.bank_id)
        )

    async def get_open(self, bank_id: BankId) -> Pass | None:
        """Return the bank's pass that has not ended."""
        await self._hold(bank_key(bank_id))
        return await self._first(_SELECT_OPEN, {"bank": bank_id})

    async def has_startable(self, now: datetime) -> bool:
        """Return whether a pending pass that nobody has claimed may start."""
        return await CLAIMS.has_startable(self._runner, now)

    async def claim(
        self, owner: str, *, now: datetime, until: datetime, limit: int, since: datetime | None = None
    ) -> Sequence[Pass]:
        """Claim pending passes that may start and that nobody else is claiming; return them.

        Passes that calls wait for go first, then the bank that waited longest (SLEEP-14). A claimed pass stays
        pending, with the next epoch and a lease `until` then. Those that the owner has claimed until `since` or later,
        in a claim whose answer was lost, are among them.
        """
        claimed = await CLAIMS.claim(self._runner, owner, now=now, until=until, limit=limit, since=since)
        return sorted(claimed, key=lambda run: (run.trigger is not Trigger.NEEDED, run.id))

    async def find_claimed(self) -> Sequence[Pass]:
        return await CLAIMS.find_owned(self._runner)

    async def renew_leases(self, owner: str, until: datetime) -> None:
        await CLAIMS.renew_leases(self._runner, owner, until)

    async def find_all(
        self,
        *,
        bank_id: BankId | None = None,
        status: PassStatus | None = None,
        before: PassId | None = None,
        limit: int = 100,
    ) -> Sequence[Pass]:
        """Return passes, newest first; `before` is the last one of the previous page."""
        statement = select(passes).order_by(passes.c.id.desc()).limit(limit)
        statement = where_given(statement, (passes.c.bank_id, bank_id), (passes.c.status, status))
        if before is not None:
            statement = statement.where(passes.c.id < before)
        return await self._select(statement, _read_pass)

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
        statement = select(passes).order_by(passes.c.created_at.desc(), passes.c.id.desc()).limit(limit)
        if since is not None:
            statement = statement.where(passes.c.created_at >= since)
        if before is not None:
            request = tuple_(passes.c.created_at, passes.c.id)
            statement = statement.where(request < tuple_(literal(before.created_at, Instant), literal(before.id)))
        # One read for each status: an index has each in this order, and not several together.
        reads = [statement.where(passes.c.status == status.value) for status in set(statuses)] or [statement]
        found = await self._run(
            lambda connection: [_read_pass(row) for read in reads for row in connection.execute(read).all()]
        )
        return sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)[:limit]

    async def count_started(self, bank_id: BankId | None, since: datetime, until: datetime) -> int:
        """Return how many passes of the bank, or of all banks, started since then and before `until`."""
        await self._hold(FLEET_KEY if bank_id is None else bank_key(bank_id))
        statement = select(func.count()).where(passes.c.started_at >= since, passes.c.started_at < until)
        statement = where_given(statement, (passes.c.bank_id, bank_id))
        return int(await self._run(lambda connection: connection.execute(statement).scalar_one()))

    async def count_by_status(self) -> Mapping[PassStatus, int]:
        statement = select(passes.c.status, func.count()).group_by(passes.c.status)
        rows = await self._run(lambda connection: connection.execute(statement).all())
        counts = {row[0]: int(row[1]) for row in rows}
        return {status: counts.get(status.value, 0) for status in PassStatus}

    async def save_changes(self, changes: Sequence[Change]) -> None:
        """Store changes, or overwrite those of the same pass and number."""
        if changes:
            await self._run(
                lambda connection: _SAVE_CHANGES.run_many(connection, [_write_change(change) for change in changes])
            )

    async def find_changes(
        self, pass_id: PassId, *, state: ChangeState | None = None, kind: ChangeKind | None = None, after: int = 0,
        limit: int | None = None,
    ) -> Sequence[Change]:  # fmt: skip
        """Return a pass's changes in order, optionally of one state or kind."""
        statement = select(pass_changes).where(pass_changes.c.pass_id == pass_id).order_by(pass_changes.c.number)
        statement = statement.where(pass_changes.c.number > after).limit(limit)
        statement = where_given(statement, (pass_changes.c.state, state), (pass_changes.c.kind, kind))
        return await self._select(statement, _read_change)

    async def find_staged(
        self, *, bank_id: BankId | None = None, after: tuple[PassId, int] | None = None, limit: int
    ) -> Sequence[tuple[BankId, Change]]:
        """Return changes that wait for a person, of ended passes, with their banks, the oldest pass first.

        `after` is the pass and number of the last change on the previous page.
        """
        statement = (
            select(pass_changes, passes.c.bank_id)
            .join(passes, passes.c.id == pass_changes.c.pass_id)
            .where(_IS_STAGED, ~passes.c.dry_run, passes.c.ended_at.is_not(None))
            .order_by(pass_changes.c.pass_id, pass_changes.c.number)
            .limit(limit)
        )
        statement = where_given(statement, (passes.c.bank_id, bank_id))
        if after is not None:
            last = tuple_(literal(after[0]), literal(after[1]))
            statement = statement.where(tuple_(pass_changes.c.pass_id, pass_changes.c.number) > last)
        short = None if bank_id is None else False  # it looks through the proposals of all banks
        return await self._select(statement, lambda row: (BankId(row.bank_id), _read_change(row)), short=short)

    async def count_staged(self, *, limit: int) -> int:
        """Return how many changes of ended passes wait for a person, up to `limit`."""
        some = (
            select(pass_changes.c.number)
            .join(passes, passes.c.id == pass_changes.c.pass_id)
            .where(_IS_STAGED, ~passes.c.dry_run, passes.c.ended_at.is_not(None))
            .limit(limit)
            .subquery()
        )
        statement = select(func.count()).select_from(some)
        return int(await self._run(lambda connection: connection.execute(statement).scalar_one()))

    async def last_change_number(self, pass_id: PassId) -> int:
        """Return the number of a pass's last change, or 0."""
        return int(await self._scalar(_SELECT_LAST_CHANGE, {"of": pass_id}) or 0)

    async def redact_changes(self, bank_id: BankId, gone: Collection[str]) -> None:
        """Remove the content of the bank's changes that concern or cite these notes or episodes."""
        await self._hold(bank_key(bank_id))
        await self._run(lambda connection: _redact_changes(connection, bank_id, frozenset(gone)), short=False)

    async def find_changes_of(self, bank_id: BankId, target: str) -> Sequence[Change]:
        """Return what passes changed in a note, episode or block of the bank, oldest first."""
        statement = (
            select(pass_changes)
            .join(passes, passes.c.id == pass_changes.c.pass_id)
            .where(passes.c.bank_id == bank_id, pass_changes.c.target == target)
            .order_by(pass_changes.c.pass_id, pass_changes.c.number)
        )
        return await self._select(statement, _read_change, short=False)


def _redact_changes(connection: Connection, bank_id: BankId, gone: frozenset[str]) -> None:
    table = pass_changes
    candidates = (
        select(table.c.pass_id, table.c.number, table.c.target, table.c.before, table.c.after)
        .join(passes, passes.c.id == table.c.pass_id)
        .where(passes.c.bank_id == bank_id, or_(table.c.before.is_not(None), table.c.after.is_not(None)))
    )
    numbers: dict[str, list[int]] = defaultdict(list)
    for row in connection.execute(candidates).all():
        if (
            row.target in gone
            or not gone.isdisjoint(_iterate_texts(row.before))
            or not gone.isdisjoint(_iterate_texts(row.after))
        ):
            numbers[row.pass_id].append(row.number)
    for pass_id, change_numbers in numbers.items():
        for start in range(0, len(change_numbers), _CHANGES_PER_STATEMENT):
            connection.execute(
                update(table)
                .where(
                    table.c.pass_id == pass_id,
                    table.c.number.in_(change_numbers[start : start + _CHANGES_PER_STATEMENT]),
                )
                .values(before=None, after=None, why=FORGOTTEN)
            )


def _iterate_texts(value: object) -> Iterator[str]:
    """Yield all texts in a change's JSON, which may be ids."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, object]", value).values():
            yield from _iterate_texts(item)
    elif isinstance(value, Sequence):
        for item in cast("Sequence[object]", value):
            yield from _iterate_texts(item)
