"""Deletes old rows, oldest first, a few at a time, and knows what each kind of them needs (GATE-81).

A page takes the oldest rows by an index. Those that something still needs are passed over, and the next page begins
behind them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    true,
    update,
)

from circadia.ids import BankId
from circadia.records.retention import RetentionKind, RetentionPage
from circadia.records.sleep_call import FORGOTTEN
from circadia.records.thread import ThreadStatus
from circadia.records.wake import Decision
from circadia.stores.locks import RETENTION_KEY, bank_key
from circadia.stores.sql.alert_history import alert_history
from circadia.stores.sql.alerts import alerts
from circadia.stores.sql.answer_tables import answer_days, answer_frames, answer_uses, answer_verdicts, answers
from circadia.stores.sql.approvals import approvals
from circadia.stores.sql.dream_jobs import dream_jobs
from circadia.stores.sql.event_waits import event_waits
from circadia.stores.sql.hooks import hook_deliveries
from circadia.stores.sql.memory_tables import banks, blocks, evidence, forgotten_episodes, notes
from circadia.stores.sql.message_index import remove_from_index
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.schema import (
    Instant,
    agents,
    call_texts,
    calls,
    conversations,
    deliveries,
    delivery_counts,
    events,
    messages,
    participants,
    provider_ids,
    pulses,
    routines,
    sessions,
    threads,
    wakes,
)
from circadia.stores.sql.sleep_tables import benefits, pass_changes, passes, sleep_calls
from circadia.stores.sql.spans import span_sums, spans
from circadia.stores.sql.usage_days import usage_days

KEPT_VERSIONS: Final = 50
"""Versions of a block that stay, whatever their age."""

_Rows = Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class ExpiringRows:
    """Rows of one table, oldest first by `at`."""

    at: Column[Any]
    """The time that counts, or a number of days since 1970; an index begins with it."""
    keys: Sequence[Column[Any]]
    more: Sequence[Column[Any]] = ()
    """Further columns that `clear` needs."""
    only: Sequence[ColumnElement[bool]] = ()
    """Conditions of the index, and others that few old rows fail."""
    is_free: ColumnElement[bool] = field(default_factory=true)
    """Whether nothing needs the row any more."""
    source: Any = None
    """What is read, if it is more than the table."""
    clear: Callable[[Connection, _Rows], None] | None = None
    """Deletes what belongs to rows, before them."""
    remove: Callable[[Connection, _Rows], None] | None = None
    """Does something else in the place of deleting the rows."""
    whole_days: bool = False
    """Whether the rows of one day go together, since sums of days stand for them."""
    largest_page: int = 500
    in_banks: bool = False
    """Whether the rows change under the keys of their banks."""

    @property
    def table(self) -> Table:
        return self.keys[0].table


def _clear_by(key: str, *children: Column[Any]) -> Callable[[Connection, _Rows], None]:
    """Return a function that deletes the children of rows."""

    def clear(connection: Connection, rows: _Rows) -> None:
        ids = [getattr(row, key) for row in rows]
        for child in children:
            connection.execute(delete(child.table).where(child.in_(ids)))

    return clear


def _remove_words(connection: Connection, rows: _Rows) -> None:
    remove_from_index(connection, [row.number for row in rows])


def _remove_direct_threads(connection: Connection, rows: _Rows) -> None:
    connection.execute(delete(threads).where(threads.c.session_id.in_([row.id for row in rows])))


def _note_purged_answers(connection: Connection, rows: _Rows) -> None:
    """Have each index of these banks loaded as a whole: it would not hear of what is gone (`Answers.find_changed`)."""
    last: dict[str, int] = {}
    for row in rows:
        last[row.bank_id] = max(row.revision, last.get(row.bank_id, 0))
    for bank_id, revision in last.items():
        connection.execute(
            update(banks)
            .where(banks.c.id == bank_id, banks.c.answers_purged < revision)
            .values(answers_purged=revision)
        )


def _forget_answers(connection: Connection, rows: _Rows) -> None:
    statement = update(sleep_calls).where(sleep_calls.c.id.in_([row.id for row in rows]))
    connection.execute(statement.values(answer=None, error=FORGOTTEN))


def _has(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return whether another row meets the conditions, by an index: PostgreSQL would read all others for `EXISTS`."""
    found: ColumnElement[int] = literal_column("1")
    return select(found).where(*conditions).limit(1).scalar_subquery().is_not(None)


_LATER, _LAST = blocks.alias("later"), blocks.alias("last")


def _of_label(other: Any) -> ColumnElement[bool]:
    return and_(other.c.bank_id == blocks.c.bank_id, other.c.label == blocks.c.label)


_HAS_NEWER_VERSIONS: Final = _has(_of_label(_LATER), _LATER.c.version >= blocks.c.version + KEPT_VERSIONS)
_IS_OF_DELETED_BLOCK: Final = and_(
    _has(_of_label(_LATER), _LATER.c.version > blocks.c.version),
    select(and_(_LAST.c.deleted, _LAST.c.at < bindparam("before")))  # until then somebody may undo it
    .where(_of_label(_LAST))
    .order_by(_LAST.c.version.desc())
    .limit(1)
    .scalar_subquery(),
)
_DIRECT: Final = ThreadStatus.DIRECT.value
_OF_SESSION: Final = threads.c.session_id == sessions.c.id
_IS_IN_USE: Final = or_(threads.c.status != _DIRECT, _has(messages.c.thread_id == threads.c.id))

EXPIRING: Final[Mapping[RetentionKind, ExpiringRows]] = {
    RetentionKind.CALLS: ExpiringRows(at=calls.c.at, keys=[calls.c.id], whole_days=True),
    RetentionKind.CALL_TEXTS: ExpiringRows(at=call_texts.c.at, keys=[call_texts.c.id], largest_page=100),
    RetentionKind.USER_SUMS: ExpiringRows(
        at=usage_days.c.day, keys=[*usage_days.primary_key], only=[usage_days.c.scope == literal_column("'end_user'")]
    ),
    RetentionKind.SUMS: ExpiringRows(
        at=usage_days.c.day, keys=[*usage_days.primary_key], only=[usage_days.c.scope != literal_column("'end_user'")]
    ),
    RetentionKind.WAKES: ExpiringRows(
        at=wakes.c.decided_at, keys=[wakes.c.id], only=[wakes.c.decision != Decision.DEFERRED.value]
    ),
    RetentionKind.PULSES: ExpiringRows(at=pulses.c.ended_at, keys=[pulses.c.id]),
    RetentionKind.APPROVALS: ExpiringRows(at=approvals.c.closed_at, keys=[approvals.c.id]),
    RetentionKind.CONVERSATIONS: ExpiringRows(
        at=conversations.c.at, keys=[conversations.c.agent_id, conversations.c.id]
    ),
    RetentionKind.PROVIDER_IDS: ExpiringRows(
        at=provider_ids.c.at, keys=[provider_ids.c.upstream, provider_ids.c.provider_id]
    ),
    RetentionKind.ALERTS: ExpiringRows(
        at=alerts.c.told_at, keys=[alerts.c.cause, alerts.c.subject], only=[alerts.c.post.is_(None)]
    ),
    RetentionKind.HOOK_DELIVERIES: ExpiringRows(
        at=hook_deliveries.c.at, keys=[hook_deliveries.c.hook, hook_deliveries.c.delivery_id]
    ),
    RetentionKind.SPANS: ExpiringRows(at=spans.c.ended_at, keys=[spans.c.number]),
    RetentionKind.SPAN_SUMS: ExpiringRows(at=span_sums.c.at, keys=[*span_sums.primary_key]),
    RetentionKind.ALERT_HISTORY: ExpiringRows(at=alert_history.c.at, keys=[alert_history.c.id]),
    RetentionKind.DELIVERIES: ExpiringRows(
        at=agents.c.deleted_at,
        keys=[deliveries.c.agent_id, deliveries.c.message_id],
        source=agents.join(deliveries, deliveries.c.agent_id == agents.c.id),
    ),
    RetentionKind.MESSAGES: ExpiringRows(
        at=messages.c.at,
        keys=[messages.c.number],
        is_free=~or_(_has(deliveries.c.message_id == messages.c.id), _has(wakes.c.message_id == messages.c.id)),
        clear=_remove_words,
    ),
    RetentionKind.THREADS: ExpiringRows(
        at=threads.c.closed_at,
        keys=[threads.c.id],
        is_free=~_has(messages.c.thread_id == threads.c.id),
        clear=_clear_by("id", participants.c.thread_id),
        largest_page=100,
    ),
    RetentionKind.AGENTS: ExpiringRows(
        at=agents.c.deleted_at,
        keys=[agents.c.id],
        is_free=~or_(_has(messages.c.sender_id == agents.c.id), _has(deliveries.c.agent_id == agents.c.id)),
        clear=_clear_by(
            "id", participants.c.agent_id, routines.c.agent_id, event_waits.c.agent_id, delivery_counts.c.agent_id
        ),
        largest_page=100,
    ),
    RetentionKind.SESSIONS: ExpiringRows(
        at=sessions.c.closed_at,
        keys=[sessions.c.id],
        is_free=~or_(_has(agents.c.session_id == sessions.c.id), _has(_OF_SESSION, _IS_IN_USE)),
        clear=_remove_direct_threads,
    ),
    RetentionKind.PASSES: ExpiringRows(
        at=passes.c.ended_at, keys=[passes.c.id], clear=_clear_by("id", pass_changes.c.pass_id), largest_page=20
    ),
    RetentionKind.SLEEP_ANSWERS: ExpiringRows(
        at=sleep_calls.c.at, keys=[sleep_calls.c.id], only=[sleep_calls.c.error == ""], remove=_forget_answers
    ),
    RetentionKind.SLEEP_CALLS: ExpiringRows(at=sleep_calls.c.at, keys=[sleep_calls.c.id]),
    RetentionKind.BENEFITS: ExpiringRows(
        at=benefits.c.day, keys=[benefits.c.bank_id, benefits.c.operation, benefits.c.day]
    ),
    RetentionKind.DREAM_JOBS: ExpiringRows(at=dream_jobs.c.ended_at, keys=[dream_jobs.c.id]),
    RetentionKind.ANSWERS: ExpiringRows(
        at=answers.c.dropped_at,
        keys=[answers.c.id],
        more=[answers.c.bank_id, answers.c.revision],
        clear=_note_purged_answers,
    ),
    RetentionKind.ANSWER_USES: ExpiringRows(at=answer_uses.c.at, keys=[answer_uses.c.id]),
    RetentionKind.ANSWER_FRAMES: ExpiringRows(
        at=answer_frames.c.at, keys=[*answer_frames.primary_key.columns], largest_page=100
    ),
    RetentionKind.ANSWER_VERDICTS: ExpiringRows(at=answer_verdicts.c.at, keys=[answer_verdicts.c.id]),
    RetentionKind.ANSWER_DAYS: ExpiringRows(at=answer_days.c.day, keys=[answer_days.c.bank_id, answer_days.c.day]),
    RetentionKind.FORGOTTEN_EPISODES: ExpiringRows(
        at=forgotten_episodes.c.forgotten_at,
        keys=[forgotten_episodes.c.id],
        more=[forgotten_episodes.c.bank_id],
        in_banks=True,
    ),
    RetentionKind.NOTES: ExpiringRows(
        at=notes.c.retired_at,
        keys=[notes.c.id],
        more=[notes.c.bank_id],
        clear=_clear_by("id", evidence.c.note_id),
        largest_page=100,
        in_banks=True,
    ),
    RetentionKind.BLOCKS: ExpiringRows(
        at=blocks.c.at,
        keys=[*blocks.primary_key.columns],
        is_free=or_(_HAS_NEWER_VERSIONS, _IS_OF_DELETED_BLOCK),
        in_banks=True,
    ),
}

_NEWEST_EVENT: Final = select(func.max(events.c.number)).scalar_subquery()
_FIRST_EVENTS: Final = (
    select(events.c.number, events.c.at)
    .where(events.c.number > 0)
    .order_by(events.c.number)
    .limit(bindparam("most"))
    .subquery()
)
_OLD_EVENTS: Final = select(_FIRST_EVENTS.c.number).where(
    _FIRST_EVENTS.c.at < bindparam("before"), _FIRST_EVENTS.c.number < _NEWEST_EVENT
)
_DELETE_EVENTS: Final = delete(events).where(events.c.number.in_(_OLD_EVENTS))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_STEP: Final = timedelta(microseconds=1)


class Retention(Noun):
    """Deletes old rows."""

    async def delete_page(
        self, what: RetentionKind, before: datetime, *, limit: int, after: datetime | None = None
    ) -> RetentionPage:
        """Look at up to `limit` rows that ended before `before`, oldest first from `after` on, and delete what is free.

        Open rows, the newest event, and what another row needs are kept. Calls leave daily sums by session, agent,
        tier, upstream and model.
        """
        await self._hold(RETENTION_KEY)
        if what is RetentionKind.EVENTS:
            return await self._run(lambda connection: _delete_events(connection, before, limit), short=False)
        rows, most = EXPIRING[what], min(limit, EXPIRING[what].largest_page)
        if rows.in_banks:
            found = await self._run(lambda connection: _find(connection, rows, before, after, most), short=False)
            await self._hold(*{bank_key(BankId(row.bank_id)) for row in found})
        return await self._run(lambda connection: _delete_page(connection, rows, before, after, most), short=False)


def _find(
    connection: Connection, rows: ExpiringRows, before: datetime, after: datetime | None, most: int
) -> Sequence[Row[Any]]:
    """Return the oldest rows, with whether each is free."""
    statement = (
        select(*rows.keys, *rows.more, rows.at.label("due_at"), rows.is_free.label("free"))
        .select_from(rows.table if rows.source is None else rows.source)
        .where(rows.at < bindparam("before"), *rows.only)
        .order_by(rows.at)
        .limit(most)
    )
    if after is not None:
        statement = statement.where(rows.at >= _convert_time(rows, after))
    return connection.execute(statement, {"before": _convert_time(rows, before)}).all()


def _delete_page(
    connection: Connection, rows: ExpiringRows, before: datetime, after: datetime | None, most: int
) -> RetentionPage:
    page = _find(connection, rows, before, after, most)
    free = [row for row in page if row.free]
    if free:
        if rows.clear is not None:
            rows.clear(connection, free)
        if rows.remove is not None:
            rows.remove(connection, free)
        else:
            _delete_by_key(connection, rows, free)
    if not page:
        return RetentionPage(deleted=0)
    first, last, is_full = _read(page[0].due_at), _read(page[-1].due_at), len(page) == most
    is_stuck = is_full and not free and first == last  # the next page would be the same
    return RetentionPage(deleted=len(free), last=last + _STEP if is_stuck else last, is_full=is_full)


def _delete_by_key(connection: Connection, rows: ExpiringRows, page: Sequence[Row[Any]]) -> None:
    if len(rows.keys) == 1:
        key = rows.keys[0]
        connection.execute(delete(rows.table).where(key.in_([getattr(row, key.name) for row in page])))
        return
    # One by one: SQLite scans the table for a list of tuples.
    is_row = (key == bindparam(f"key_{key.name}") for key in rows.keys)
    values = [{f"key_{key.name}": getattr(row, key.name) for key in rows.keys} for row in page]
    connection.execute(delete(rows.table).where(*is_row), values)


def _convert_time(rows: ExpiringRows, at: datetime) -> datetime | int:
    """Return a time as the column has it: some count days since 1970."""
    if not isinstance(rows.at.type, Instant):
        return (at - _EPOCH) // _DAY
    return at.replace(hour=0, minute=0, second=0, microsecond=0) if rows.whole_days else at


def _read(stored: datetime | int) -> datetime:
    return stored if isinstance(stored, datetime) else _EPOCH + stored * _DAY


def _delete_events(connection: Connection, before: datetime, most: int) -> RetentionPage:
    deleted = connection.execute(_DELETE_EVENTS, {"before": before, "most": most}).rowcount
    return RetentionPage(deleted=deleted, is_full=deleted == most)
