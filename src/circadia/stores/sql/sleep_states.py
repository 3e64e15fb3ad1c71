"""Progress of sleep-time work in each bank, and its backlog."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
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
from circadia.stores.sql.memory_tables import banks, episodes, notes
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import agents
from circadia.stores.sql.sleep_tables import due_checks, next_checks, sleep_states
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_REASONS: Final = TypeAdapter(tuple[Demotion, ...])
_COLUMNS = [column.name for column in sleep_states.c if column.name != "pauses"]
_read_state = build_reader(SleepState, leftovers=lambda stored: tuple(Leftover(**leftover) for leftover in stored))
_write_state = build_writer(_COLUMNS)
_read_backlog = build_reader(Backlog, episodes=int, turns=int, importance=float, conversations=int, last=int)
_SAVE = Statement(
    Upsert(sleep_states, keys=("bank_id",), new=[name for name in _COLUMNS if name != "bank_id"]), _COLUMNS
)
_COUNT_UNSTORED_TURN = Statement(Upsert(sleep_states, keys=("bank_id",), more=("unstored_turns",)), _COLUMNS)
_SELECT = Statement(select(sleep_states).where(sleep_states.c.bank_id == bindparam("bank")), read=_read_state)
_COMPLETED = and_(
    episodes.c.kind.in_([EpisodeKind.TURN.value, EpisodeKind.READY.value]),
    episodes.c.trust == Trust.AGENT.value,
    episodes.c.incomplete.is_(False),
)
_SELECT_BACKLOG = Statement(
    select(
        func.count().label("episodes"),
        func.count().filter(_COMPLETED).label("turns"),
        func.coalesce(func.sum(episodes.c.importance), 0.0).label("importance"),
        func.count(episodes.c.conversation.distinct()).label("conversations"),
        func.min(episodes.c.stored_at).label("oldest_at"),
        func.max(episodes.c.stored_at).label("newest_at"),
        func.coalesce(func.max(episodes.c.number), 0).label("last"),
    ).where(episodes.c.bank_id == bindparam("bank"), episodes.c.number > bindparam("behind")),
    read=_read_backlog,
)
_BYTES: Final[Mapping[str, ColumnElement[int]]] = {
    "sqlite": func.length(cast(episodes.c.text, LargeBinary)), "postgresql": func.octet_length(episodes.c.text),
}  # fmt: skip
_MEASURE_BY_DIALECT: Final = {
    dialect: select(func.count().label("episodes"), func.coalesce(func.sum(size), 0).label("bytes")).where(
        episodes.c.bank_id == bindparam("bank"), episodes.c.number.between(bindparam("first"), bindparam("until"))
    )
    for dialect, size in _BYTES.items()
}
_MEASURE = Statement(lambda connection: _MEASURE_BY_DIALECT[connection.dialect.name])
# As the indexes state it: one step for each name, however many agents are bound.
_BOUND = text("agents.policy ->> 'bank' = :name AND agents.deleted_at IS NULL AND agents.enabled").bindparams(
    bindparam("name", type_=String, required=True)
)
_SELECT_AGENTS_STATE = Statement(
    select(
        exists().select_from(agents).where(_BOUND).label("some"),
        exists().select_from(agents).where(_BOUND, text("NOT agents.asleep")).label("awake"),
    )
)
_SELECT_OLDEST_AGENT = Statement(
    select(agents.c.created_at, agents.c.id, agents.c.coordination["zone", "value"].as_string().label("zone"))
    .where(_BOUND)
    .order_by(agents.c.created_at, agents.c.id)
    .limit(1)
)
_HAS_EPISODES_AFTER_CURSOR = exists().where(
    episodes.c.bank_id == banks.c.id, episodes.c.number > func.coalesce(sleep_states.c.cursor, 0)
)  # one index step per bank, however many episodes it has
_BANKS_WITH_BACKLOG = (
    select(banks.c.id)
    .outerjoin(sleep_states, sleep_states.c.bank_id == banks.c.id)
    .where(or_(_HAS_EPISODES_AFTER_CURSOR, cast(sleep_states.c.leftovers, Text) != "[]"))
    .order_by(banks.c.id)
)
_IS_NOTED = banks.c.id.in_(
    union(
        select(next_checks.c.bank_id).where(text("next_checks.has_backlog")),
        select(due_checks.c.bank_id).where(due_checks.c.bank_id.is_not(None)),
    )
)  # each append asks for a check, and each check notes whether there is a backlog
_FAILING_BANKS = (
    select(sleep_states.c.bank_id).where(text("sleep_states.failures > 0")).order_by(sleep_states.c.bank_id)
)
_BANKS_WITH_CHANGES = (
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
_SELECT_STALE = Statement(select(episodes.c.id, episodes.c.stale).where(*_STALE_EPISODES).order_by(episodes.c.number))
_COUNT_STALE = Statement(
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


_COUNT_ITEMS = Statement(select(_count_up_to(episodes).scalar_subquery() + _count_up_to(notes).scalar_subquery()))


class SleepStates(Noun):
    """Progress of sleep-time work in each bank."""

    async def get(self, bank_id: BankId) -> SleepState:
        """Return the bank's state, or a fresh one."""
        await self._hold(bank_key(bank_id))
        return await self._first(_SELECT, {"bank": bank_id}) or SleepState(bank_id=bank_id)

    async def put(self, state: SleepState) -> None:
        await self._hold(bank_key(state.bank_id))
        await self._write(_SAVE, _write_state(state))
        queue_check(self._runner, state.bank_id)

    async def count_unstored_turn(self, bank_id: BankId) -> None:
        """Count a completed turn whose answer is no episode of its own."""
        await self._hold(bank_key(bank_id))
        await self._write(_COUNT_UNSTORED_TURN, _write_state(SleepState(bank_id=bank_id, unstored_turns=1)))
        queue_check(self._runner, bank_id)

    async def record_gate(self, bank_id: BankId, gate: str, detail: str, at: datetime) -> None:
        """Write which gate is closed, and nothing else."""
        state = replace(await self.get(bank_id), gate=gate, gate_detail=detail, gate_at=at)
        await self._write(_SAVE, _write_state(state))

    async def fetch_backlog(self, bank_id: BankId, after: int) -> Backlog:
        """Return the backlog after an episode's number."""
        (backlog,) = await self._all(_SELECT_BACKLOG, {"bank": bank_id, "behind": after})
        return backlog

    async def measure_texts(self, bank_id: BankId, first: int, last: int) -> tuple[int, int]:
        """Return the number of a bank's episodes from number `first` to `last`, and the bytes of their texts."""
        (row,) = await self._all(_MEASURE, {"bank": bank_id, "first": first, "until": last})
        return int(row.episodes), int(row.bytes)

    async def are_agents_asleep(self, names: Collection[str]) -> bool:
        """Return whether there are agents bound to these bank names, and all of them sleep."""

        def work(connection: Connection) -> bool:
            rows = [_SELECT_AGENTS_STATE.all(connection, {"name": name})[0] for name in names]
            return any(row.some for row in rows) and not any(row.awake for row in rows)

        return await self._run(work)

    async def find_zone(self, names: Collection[str]) -> str | None:
        """Return the time zone of the oldest agent bound to these bank names; none if it has none."""

        def work(connection: Connection) -> str | None:
            rows = [row for name in names for row in _SELECT_OLDEST_AGENT.all(connection, {"name": name})]
            return min(rows, key=lambda row: (row.created_at, row.id)).zone if rows else None

        return await self._run(work)

    async def find_stale(self, bank_id: BankId, after: int) -> Mapping[EpisodeId, Sequence[Demotion]]:
        """Return stale episodes with their demotions that the bank counted after `after`."""
        rows = await self._all(_SELECT_STALE, {"bank": bank_id, "after": after})
        return {EpisodeId(row.id): _REASONS.validate_python(row.stale) for row in rows}

    async def count_stale(self, bank_id: BankId, after: int) -> int:
        """Return the number of episodes demoted and notes retired after the bank's demotion count was `after`."""
        return int(await self._scalar(_COUNT_STALE, {"bank": bank_id, "after": after}))

    async def count_items(self, bank_id: BankId, most: int) -> int:
        """Return the number of episodes and notes, retired ones too, counting each layer up to `most`."""
        return int(await self._scalar(_COUNT_ITEMS, {"bank": bank_id, "most": most}))

    async def find_banks_with_changes(self) -> Sequence[BankId]:
        """Return banks with demotions or block edits that no pass has seen."""
        ids = await self._run(lambda connection: connection.execute(_BANKS_WITH_CHANGES).scalars().all(), single="read")
        return list(map(BankId, ids))

    async def find_banks_with_backlog(self, *, noted: bool = True) -> Sequence[BankId]:
        """Return banks with episodes after their cursor, or with leftovers.

        Without `noted` it looks at all banks, also at those of which no check says so.
        """
        statement = _BANKS_WITH_BACKLOG.where(_IS_NOTED) if noted else _BANKS_WITH_BACKLOG
        ids = await self._run(lambda connection: connection.execute(statement).scalars().all(), single="read")
        return list(map(BankId, ids))

    async def find_failing_banks(self) -> Sequence[BankId]:
        ids = await self._run(lambda connection: connection.execute(_FAILING_BANKS).scalars().all())
        return list(map(BankId, ids))
