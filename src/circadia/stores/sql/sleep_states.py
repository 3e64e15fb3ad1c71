"""Progress of sleep-time work in each bank, and its backlog."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import (
    Connection,
    Row,
    Select,
    String,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    func,
    or_,
    select,
    text,
    union,
)

from circadia.ids import BankId, EpisodeId
from circadia.records.bank import Trust
from circadia.records.episode import Demotion, EpisodeKind
from circadia.records.sleep_pass import Backlog, Leftover, SleepState
from circadia.stores.locks import bank_key
from circadia.stores.sql.due_checks import queue_check
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import banks, episodes, notes
from circadia.stores.sql.schema import agents
from circadia.stores.sql.short_reads import SingleRead
from circadia.stores.sql.sleep_tables import due_checks, next_checks, sleep_states
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_REASONS: Final = TypeAdapter(tuple[Demotion, ...])
_COLUMNS = [column.name for column in sleep_states.c if column.name != "pauses"]
_PUT = Statement(
    Upsert(sleep_states, keys=("bank_id",), new=[name for name in _COLUMNS if name != "bank_id"]), _COLUMNS
)
_UNSTORED = Statement(Upsert(sleep_states, keys=("bank_id",), more=("unstored_turns",)), _COLUMNS)
_GET = Statement(select(sleep_states).where(sleep_states.c.bank_id == bindparam("bank")))
_COMPLETED = and_(
    episodes.c.kind.in_([EpisodeKind.TURN.value, EpisodeKind.READY.value]),
    episodes.c.trust == Trust.AGENT.value,
    episodes.c.incomplete.is_(False),
)
_BACKLOG = Statement(
    select(
        func.count().label("episodes"),
        func.count().filter(_COMPLETED).label("turns"),
        func.coalesce(func.sum(episodes.c.importance), 0.0).label("importance"),
        func.count(episodes.c.conversation.distinct()).label("conversations"),
        func.min(episodes.c.stored_at).label("oldest_at"),
        func.max(episodes.c.stored_at).label("newest_at"),
        func.coalesce(func.max(episodes.c.number), 0).label("last"),
    ).where(episodes.c.bank_id == bindparam("bank"), episodes.c.number > bindparam("behind"))
)
# As the indexes state it: one step for each name, however many agents are bound.
_BOUND = text("agents.policy ->> 'bank' = :name AND agents.deleted_at IS NULL AND agents.enabled").bindparams(
    bindparam("name", type_=String, required=True)
)
_AGENTS = Statement(
    select(
        exists().select_from(agents).where(_BOUND).label("some"),
        exists().select_from(agents).where(_BOUND, text("NOT agents.asleep")).label("awake"),
    )
)
_OLDEST = Statement(
    select(agents.c.created_at, agents.c.id, agents.c.coordination["zone", "value"].as_string().label("zone"))
    .where(_BOUND)
    .order_by(agents.c.created_at, agents.c.id)
    .limit(1)
)
_BEHIND = exists().where(
    episodes.c.bank_id == banks.c.id, episodes.c.number > func.coalesce(sleep_states.c.cursor, 0)
)  # one index step per bank, however many episodes it has
_HAVE_BACKLOG = (
    select(banks.c.id)
    .outerjoin(sleep_states, sleep_states.c.bank_id == banks.c.id)
    .where(or_(_BEHIND, cast(sleep_states.c.leftovers, Text) != "[]"))
    .order_by(banks.c.id)
)
_IS_NOTED = banks.c.id.in_(
    union(
        select(next_checks.c.bank_id).where(text("next_checks.has_backlog")),
        select(due_checks.c.bank_id).where(due_checks.c.bank_id.is_not(None)),
    )
)  # each append asks for a check, and each check notes whether there is a backlog
_FAILING = select(sleep_states.c.bank_id).where(text("sleep_states.failures > 0")).order_by(sleep_states.c.bank_id)
_MOVED = (
    select(banks.c.id)
    .outerjoin(sleep_states, sleep_states.c.bank_id == banks.c.id)
    .where(
        or_(
            banks.c.demotions > func.coalesce(sleep_states.c.demotions, 0),
            banks.c.edited_at != sleep_states.c.edited_at,
            and_(banks.c.edited_at.is_not(None), sleep_states.c.edited_at.is_(None)),
        )
    )
    .order_by(banks.c.id)
)
_STALE_EPISODES = (
    episodes.c.bank_id == bindparam("bank"),
    episodes.c.demotion > bindparam("after"),
    cast(episodes.c.stale, Text) != "[]",
)
_STALE = Statement(select(episodes.c.id, episodes.c.stale).where(*_STALE_EPISODES).order_by(episodes.c.number))
_GONE_STALE = Statement(
    select(
        select(func.count()).where(*_STALE_EPISODES).scalar_subquery()
        + select(func.count())
        .where(
            notes.c.bank_id == bindparam("bank"), notes.c.demotion > bindparam("after"), notes.c.retired_at.is_not(None)
        )
        .scalar_subquery()
    )
)  # one index step per such row, whatever the size of the bank


def _count_up_to(table: Table) -> Select[Any]:
    """Count the rows of a bank up to `most`, and read no further in the index."""
    first = select(table.c.number).where(table.c.bank_id == bindparam("bank")).limit(bindparam("most")).subquery()
    return select(func.count()).select_from(first)


_ITEMS = Statement(select(_count_up_to(episodes).scalar_subquery() + _count_up_to(notes).scalar_subquery()))


class SqlSleepStates:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._run = runner.run
        self._hold = runner.hold

    async def get(self, bank_id: BankId) -> SleepState:
        await self._hold(bank_key(bank_id))
        row = await self._run(lambda connection: _GET.first(connection, {"bank": bank_id}))
        return SleepState(bank_id=bank_id) if row is None else _state(row)

    async def put(self, state: SleepState) -> None:
        await self._hold(bank_key(state.bank_id))
        await self._run(lambda connection: _PUT.execute(connection, _dump(state)))
        queue_check(self._runner, state.bank_id)

    async def count_unstored_turn(self, bank_id: BankId) -> None:
        await self._hold(bank_key(bank_id))
        values = _dump(SleepState(bank_id=bank_id, unstored_turns=1))
        await self._run(lambda connection: _UNSTORED.execute(connection, values))
        queue_check(self._runner, bank_id)

    async def record_gate(self, bank_id: BankId, gate: str, detail: str, at: datetime) -> None:
        state = replace(await self.get(bank_id), gate=gate, gate_detail=detail, gate_at=at)
        await self._run(lambda connection: _PUT.execute(connection, _dump(state)))

    async def fetch_backlog(self, bank_id: BankId, after: int) -> Backlog:
        row = await self._run(lambda connection: _BACKLOG.first(connection, {"bank": bank_id, "behind": after}))
        assert row is not None
        return Backlog(
            episodes=int(row.episodes), turns=int(row.turns), importance=float(row.importance),
            conversations=int(row.conversations), oldest_at=row.oldest_at, newest_at=row.newest_at, last=int(row.last),
        )  # fmt: skip

    async def are_agents_asleep(self, names: Collection[str]) -> bool:
        def work(connection: Connection) -> bool:
            rows = [_AGENTS.all(connection, {"name": name})[0] for name in names]
            return any(row.some for row in rows) and not any(row.awake for row in rows)

        return await self._run(work)

    async def find_zone(self, names: Collection[str]) -> str | None:
        def work(connection: Connection) -> str | None:
            rows = [row for name in names for row in _OLDEST.all(connection, {"name": name})]
            return min(rows, key=lambda row: (row.created_at, row.id)).zone if rows else None

        return await self._run(work)

    async def find_stale(self, bank_id: BankId, after: int) -> Mapping[EpisodeId, Sequence[Demotion]]:
        rows = await self._run(lambda connection: _STALE.all(connection, {"bank": bank_id, "after": after}))
        return {EpisodeId(row.id): _REASONS.validate_python(row.stale) for row in rows}

    async def count_stale(self, bank_id: BankId, after: int) -> int:
        values = {"bank": bank_id, "after": after}
        return int(await self._run(lambda connection: _GONE_STALE.scalar(connection, values)))

    async def count_items(self, bank_id: BankId, most: int) -> int:
        values = {"bank": bank_id, "most": most}
        return int(await self._run(lambda connection: _ITEMS.scalar(connection, values)))

    async def find_banks_with_changes(self) -> Sequence[BankId]:
        ids = await self._run(SingleRead(lambda connection: connection.execute(_MOVED).scalars().all()))
        return list(map(BankId, ids))

    async def find_banks_with_backlog(self, *, noted: bool = True) -> Sequence[BankId]:
        statement = _HAVE_BACKLOG.where(_IS_NOTED) if noted else _HAVE_BACKLOG
        ids = await self._run(SingleRead(lambda connection: connection.execute(statement).scalars().all()))
        return list(map(BankId, ids))

    async def find_failing_banks(self) -> Sequence[BankId]:
        ids = await self._run(lambda connection: connection.execute(_FAILING).scalars().all())
        return list(map(BankId, ids))


def _dump(state: SleepState) -> dict[str, Any]:
    return {**{name: getattr(state, name) for name in _COLUMNS}, "leftovers": list(map(asdict, state.leftovers))}


def _state(row: Row[Any]) -> SleepState:
    return SleepState(
        bank_id=BankId(row.bank_id),
        cursor=row.cursor,
        leftovers=tuple(Leftover(**leftover) for leftover in row.leftovers),
        failures=row.failures,
        not_before=row.not_before,
        paused_by=row.paused_by,
        succeeded_at=row.succeeded_at,
        scheduled_at=row.scheduled_at,
        gate=row.gate,
        gate_detail=row.gate_detail,
        gate_at=row.gate_at,
        demotions=row.demotions,
        edited_at=row.edited_at,
        unstored_turns=row.unstored_turns,
    )
