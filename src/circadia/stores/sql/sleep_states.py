"""Progress of sleep-time work in each bank, and its backlog."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import Row, Select, Table, Text, and_, bindparam, cast, exists, func, or_, select

from circadia.ids import BankId, EpisodeId
from circadia.records.bank import Trust
from circadia.records.episode import Demotion, EpisodeKind
from circadia.records.sleep_state import Backlog, Leftover, OperationPause, SleepState
from circadia.stores.locks import bank_key
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import banks, episodes, notes
from circadia.stores.sql.schema import agents
from circadia.stores.sql.short_reads import SingleRead
from circadia.stores.sql.sleep_tables import sleep_states
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_REASONS: Final = TypeAdapter(tuple[Demotion, ...])
_COLUMNS = [column.name for column in sleep_states.c]
_PUT = Statement(
    Upsert(sleep_states, keys=("bank_id",), new=[name for name in _COLUMNS if name != "bank_id"]), _COLUMNS
)
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
_BOUND = (
    agents.c.deleted_at.is_(None),
    agents.c.enabled.is_(True),
    agents.c.policy["bank"].as_string().in_(bindparam("names", expanding=True)),
)
_ASLEEP = select(
    func.count().label("agents"),
    func.count().filter(agents.c.asleep.is_(True)).label("asleep"),
    func.max(agents.c.since).label("since"),
).where(*_BOUND)
_ZONE = (
    select(agents.c.coordination["zone", "value"].as_string())
    .where(*_BOUND)
    .order_by(agents.c.created_at, agents.c.id)
    .limit(1)
)
_BEHIND = exists().where(
    episodes.c.bank_id == banks.c.id, episodes.c.number > func.coalesce(sleep_states.c.cursor, 0)
)  # one index step per bank, however many episodes it has
_WAITING = (
    select(banks.c.id)
    .outerjoin(sleep_states, sleep_states.c.bank_id == banks.c.id)
    .where(or_(_BEHIND, cast(sleep_states.c.leftovers, Text) != "[]"))
    .order_by(banks.c.id)
)
_FAILING = select(sleep_states.c.bank_id).where(sleep_states.c.failures > 0).order_by(sleep_states.c.bank_id)
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
        self._run = runner.run
        self._hold = runner.hold

    async def get(self, bank_id: BankId) -> SleepState:
        await self._hold(bank_key(bank_id))
        row = await self._run(lambda connection: _GET.first(connection, {"bank": bank_id}))
        return SleepState(bank_id=bank_id) if row is None else _state(row)

    async def put(self, state: SleepState) -> None:
        await self._hold(bank_key(state.bank_id))
        values = {
            **{name: getattr(state, name) for name in _COLUMNS},
            "leftovers": list(map(asdict, state.leftovers)),
            "pauses": [[pause.operation, pause.at.isoformat(), pause.until.isoformat()] for pause in state.pauses],
        }
        await self._run(lambda connection: _PUT.execute(connection, values))

    async def fetch_backlog(self, bank_id: BankId, after: int) -> Backlog:
        row = await self._run(lambda connection: _BACKLOG.first(connection, {"bank": bank_id, "behind": after}))
        assert row is not None
        return Backlog(
            episodes=int(row.episodes), turns=int(row.turns), importance=float(row.importance),
            conversations=int(row.conversations), oldest_at=row.oldest_at, newest_at=row.newest_at, last=int(row.last),
        )  # fmt: skip

    async def asleep_since(self, names: Collection[str]) -> datetime | None:
        row = await self._run(lambda connection: connection.execute(_ASLEEP, {"names": list(names)}).one())
        return row.since if row.agents and row.agents == row.asleep else None

    async def find_zone(self, names: Collection[str]) -> str | None:
        return await self._run(lambda connection: connection.execute(_ZONE, {"names": list(names)}).scalar())

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

    async def find_banks_with_backlog(self) -> Sequence[BankId]:
        ids = await self._run(SingleRead(lambda connection: connection.execute(_WAITING).scalars().all()))
        return list(map(BankId, ids))

    async def find_failing_banks(self) -> Sequence[BankId]:
        ids = await self._run(lambda connection: connection.execute(_FAILING).scalars().all())
        return list(map(BankId, ids))


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
        pauses=tuple(
            OperationPause(operation=name, at=datetime.fromisoformat(at), until=datetime.fromisoformat(until))
            for name, at, until in row.pauses
        ),
    )
