"""Wake requests: the ledger of decisions that all budgets are counted from (WAKE-13)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final

from sqlalchemy import BigInteger, String, bindparam, column, func, insert, literal_column, select, text, tuple_, update

from circadia.ids import AgentId, MessageId, PulseId, WakeId
from circadia.records.message import Priority
from circadia.records.pulse import FAILED
from circadia.records.wake import Charge, Decision, GuardrailCheck, GuardrailCounts, WaitingAgent, Wake, WakeCount
from circadia.stores.locks import FLEET_KEY, agent_key, request_key
from circadia.stores.sql.agents import save_next_wake
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, pulses, wakes
from circadia.stores.sql.statement import Statement

ALL: Final = 2**62
"""Larger than any count."""
_FIELDS: Final = tuple(field.name for field in fields(Wake))
_read_wake = build_reader(
    Wake, priority=tuple(Priority).__getitem__, trace=lambda trace: tuple(GuardrailCheck(**check) for check in trace)
)
_write_wake = build_writer(_FIELDS, priority=lambda wake: wake.priority.rank)
_ADD = Statement(insert(wakes).inline(), _FIELDS)
_DECIDED: Final = (
    "decision", "rule", "detail", "not_before", "expires_at", "decided_at", "charge", "pulse_id", "overridden_by",
    "trace",
)  # fmt: skip
_write_decision = build_writer((*_DECIDED, "id"))
_SAVE = Statement(
    update(wakes)
    .where(wakes.c.id == bindparam("key_id"), wakes.c.decision == Decision.DEFERRED.value)
    .values({name: bindparam(f"new_{name}") for name in _DECIDED}),
    [*(f"new_{name}" for name in _DECIDED), "key_id"],
)
_OF_RESERVED = update(wakes).where(wakes.c.pulse_id == bindparam("pulse"), wakes.c.charge == Charge.RESERVED.value)
_CHARGE_RESERVED = Statement(_OF_RESERVED.values(charge=Charge.CHARGED.value), ["pulse"])
_RELEASE_RESERVED = Statement(_OF_RESERVED.values(charge=Charge.RELEASED.value))
_SELECT = Statement(select(wakes).where(wakes.c.id == bindparam("key_id")), read=_read_wake)
_SELECT_BY_KEY = Statement(select(wakes).where(wakes.c.key == bindparam("idempotency")), read=_read_wake)
_SELECT_OF_PULSE = Statement(
    select(wakes).where(wakes.c.pulse_id == bindparam("pulse")).order_by(wakes.c.number), read=_read_wake
)
_SELECT_OF_ROOT = Statement(
    select(wakes).where(wakes.c.root_id == bindparam("root")).order_by(wakes.c.number), read=_read_wake
)
_SELECT_OF_MESSAGE = Statement(
    select(wakes).where(wakes.c.message_id == bindparam("message")).order_by(wakes.c.number), read=_read_wake
)
_IS_DEFERRED = wakes.c.decision == literal_column(f"'{Decision.DEFERRED.value}'")
"""A literal, not a parameter: SQLite uses a partial index only if the statement shows that its condition holds."""
_SELECT_DEFERRED = Statement(
    select(wakes).where(wakes.c.agent_id == bindparam("agent_id"), _IS_DEFERRED).order_by(wakes.c.number),
    read=_read_wake,
)
_SELECT_DUE = text(
    """
    WITH due AS (
      SELECT agent_id FROM wakes WHERE decision = 'deferred' AND not_before <= :now
      UNION SELECT agent_id FROM wakes WHERE decision = 'deferred' AND expires_at <= :now
      UNION SELECT agent_id FROM wakes WHERE decision = 'deferred' AND rule = :rule
      UNION SELECT agent_id FROM wakes WHERE decision = 'deferred' AND agent_id IN :agents
      UNION SELECT agent_id FROM wakes WHERE decision = 'deferred' AND :every = 1)
    SELECT agent_id, max(priority + CASE WHEN at < :now THEN (:now - at) / :ageing ELSE 0 END) AS pressing,
      min(at) AS since
    FROM wakes WHERE decision = 'deferred' AND agent_id IN (SELECT agent_id FROM due) GROUP BY agent_id
    ORDER BY pressing DESC, since LIMIT :most
    """
).bindparams(
    bindparam("now", type_=Instant), bindparam("ageing", type_=BigInteger), bindparam("rule", type_=String),
    bindparam("agents", expanding=True, type_=String), bindparam("every", type_=BigInteger),
).columns(column("agent_id"), column("pressing"), column("since", Instant))  # fmt: skip
_SELECT_ONE_DEFERRED_BY = Statement(
    select(wakes.c.number).where(_IS_DEFERRED, wakes.c.rule == bindparam("by")).limit(1)
)
_MAX_LISTED: Final = 500
"""Maximum number of agents listed in a statement; beyond it covers all agents."""
_COUNT_BY_RULE = Statement(
    select(wakes.c.rule, func.count())
    .where(
        wakes.c.agent_id == bindparam("agent_id"),
        text("wakes.decision = 'refused'"),  # the form of the index `wakes_refused`
        wakes.c.decided_at >= bindparam("since"),
    )
    .group_by(wakes.c.rule)
)
_COUNTS = "charge IN ('reserved', 'charged')"
_COUNT_BY_SENDER = Statement(
    select(wakes.c.sender, func.count())
    .where(wakes.c.agent_id == bindparam("agent_id"), text(_COUNTS), wakes.c.decided_at >= bindparam("since"))
    .group_by(wakes.c.sender)
)
_FROM = "CASE WHEN started_at > :day THEN started_at ELSE :day END"
"""Start of a pulse's run within the day."""
_RUN = "id, status, prompted_at, started_at, ended_at, run_seconds"
_PAIR = (wakes.c.sender, wakes.c.agent, wakes.c.decision)
_COUNT_BY_PAIR = select(*_PAIR, func.count()).group_by(*_PAIR).order_by(*_PAIR)
_TABLES_OF_TALLY: Final = (wakes, pulses)
_FAILED: Final = ", ".join(f"'{status.value}'" for status in FAILED)
_read_counts = build_reader(
    GuardrailCounts,
    of_row={"run_seconds_today": lambda row: float(row.earlier_seconds) + float(row.microseconds) / 1e6},
)
_TALLY = Statement(text(
    f"""
    SELECT
      today.wakes_today, today.by_sender_today,
      (SELECT count(*) FROM wakes WHERE agent_id = :sender AND sender_id = :agent AND {_COUNTS}
         AND decided_at >= :day) AS of_sender_today,
      (SELECT max(decided_at) FROM wakes WHERE agent_id = :agent AND {_COUNTS}) AS last_wake_at,
      (SELECT count(*) FROM (SELECT 1 FROM wakes WHERE sender_id = :sender AND at >= :asked_since AND id <> :wake
         AND (decision IN ('deferred', 'expired') OR decision = 'admitted' AND charge <> 'none')
         AND (CAST(:sender_pulse AS VARCHAR) IS NULL OR sender_pulse = :sender_pulse)
         LIMIT :asked_most) AS asked) AS asked_in_session,
      (SELECT count(*) FROM wakes WHERE root_id = :root AND agent_id = :agent AND {_COUNTS}) AS visits,
      own.joinable, own.under_way, own.open_pulses, own.earlier_seconds, own.microseconds,
      ended.failures, ended.failed_at,
      (SELECT count(*) FROM (SELECT 1 FROM pulses WHERE ended_at IS NULL AND kind <> 'gate'
         LIMIT :fleet_open_most) AS open) AS fleet_open,
      (SELECT count(*) FROM (SELECT 1 FROM wakes WHERE {_COUNTS} AND decided_at >= :utc_day
         LIMIT :fleet_wakes_most) AS counted) AS fleet_wakes_today
    FROM
      (SELECT count(*) AS wakes_today, count(CASE WHEN sender_id = :sender THEN 1 END) AS by_sender_today
         FROM wakes WHERE agent_id = :agent AND {_COUNTS} AND decided_at >= :day) AS today,
      (SELECT
         min(CASE WHEN ended_at IS NULL AND status IN ('pending', 'starting') AND prompted_at IS NULL THEN id END)
           AS joinable,
         count(CASE WHEN ended_at IS NULL AND status IN ('starting', 'running') THEN 1 END) AS under_way,
         count(CASE WHEN ended_at IS NULL THEN 1 END) AS open_pulses,
         coalesce(sum(run_seconds), 0) AS earlier_seconds,
         coalesce(sum(CASE WHEN started_at < :now AND coalesce(ended_at, :now) > {_FROM}
           THEN coalesce(ended_at, :now) - {_FROM} END), 0) AS microseconds
         FROM (
           SELECT {_RUN} FROM pulses WHERE agent_id = :agent AND ended_at IS NULL
           UNION ALL SELECT {_RUN} FROM pulses WHERE agent_id = :agent AND ended_at > :day) AS run) AS own,
      (SELECT count(CASE WHEN good = 0 THEN 1 END) AS failures, max(CASE WHEN good = 0 THEN ended_at END) AS failed_at
         FROM (
           SELECT ended_at, count(CASE WHEN status NOT IN ({_FAILED}) THEN 1 END)
             OVER (ORDER BY ended_at DESC ROWS UNBOUNDED PRECEDING) AS good
             FROM (SELECT status, ended_at FROM pulses WHERE agent_id = :agent AND ended_at IS NOT NULL
               AND kind <> 'gate' ORDER BY ended_at DESC LIMIT :failures_most) AS last) AS streak) AS ended
    """  # noqa: S608 - no value is interpolated
).bindparams(
    bindparam("day", type_=Instant), bindparam("now", type_=Instant), bindparam("asked_since", type_=Instant),
    bindparam("utc_day", type_=Instant),
).columns(
    *(column(name, Instant if name in ("last_wake_at", "failed_at") else None) for name in (
        "wakes_today", "by_sender_today", "of_sender_today", "last_wake_at", "asked_in_session", "visits", "joinable",
        "under_way", "open_pulses", "earlier_seconds", "microseconds", "failures", "failed_at", "fleet_open",
        "fleet_wakes_today",
    ))
), read=_read_counts)  # fmt: skip


class Wakes(Noun):
    """Wake requests: the ledger of decisions that all budgets are counted from (WAKE-13)."""

    async def add(self, wake: Wake) -> None:
        """Store a new request. Raises Conflict if its idempotency key exists."""
        await self._hold(agent_key(wake.agent_id))
        self._queue_write(_ADD, _write_wake(wake))
        if wake.decision is Decision.DEFERRED:
            await save_next_wake(self._runner, wake.agent_id)

    async def save(self, wake: Wake) -> bool:
        """Write the new decision of a deferred request; return whether it was deferred."""
        await self._hold(agent_key(wake.agent_id))
        saved = await self._write(_SAVE, _write_decision(wake)) == 1
        await save_next_wake(self._runner, wake.agent_id)
        return saved

    async def charge_reserved(self, pulse_id: PulseId) -> None:
        self._queue_write(_CHARGE_RESERVED, [pulse_id], key=pulse_id)

    async def release_reserved(self, pulse_id: PulseId) -> int:
        """Release the pulse's reserved requests, which never ran; return their number."""
        return await self._execute(_RELEASE_RESERVED, {"pulse": pulse_id})

    async def get(self, wake_id: WakeId) -> Wake | None:
        return await self._first(_SELECT, {"key_id": wake_id})

    async def get_by_key(self, key: str) -> Wake | None:
        await self._hold(request_key(key))
        return await self._first(_SELECT_BY_KEY, {"idempotency": key})

    async def find_by_pulse(self, pulse_id: PulseId) -> Sequence[Wake]:
        """Return the requests that started or joined the pulse, in order."""
        return await self._all(_SELECT_OF_PULSE, {"pulse": pulse_id})

    async def find_by_root(self, root_id: str) -> Sequence[Wake]:
        """Return the requests of a chain in order."""
        return await self._all(_SELECT_OF_ROOT, {"root": root_id})

    async def find_by_message(self, message_id: MessageId) -> Sequence[Wake]:
        """Return the requests that a message has caused, in order."""
        return await self._all(_SELECT_OF_MESSAGE, {"message": message_id})

    async def find_deferred(self, agent_id: AgentId) -> Sequence[Wake]:
        """Return the agent's deferred requests, oldest first."""
        await self._hold(agent_key(agent_id))
        return await self._all(_SELECT_DEFERRED, {"agent_id": agent_id})

    async def find_due_agents(
        self,
        now: datetime,
        *,
        ageing_seconds: float,
        of: Collection[AgentId] | None = (),
        rule: str | None = None,
        limit: int = ALL,
    ) -> Sequence[WaitingAgent]:
        """Return agents whose deferred requests are due for a check, most urgent first, then oldest.

        These are agents with a request whose time has come, that expires, or that `rule` defers, and agents in `of`
        with any deferred request; None for `of` means all agents. Waiting raises a request's rank by one per
        `ageing_seconds`.
        """
        every = of is None or len(of) > _MAX_LISTED
        values = {
            "now": now, "ageing": int(ageing_seconds * 1_000_000), "rule": rule or "", "every": int(every),
            "agents": [] if of is None or every else list(of), "most": limit,
        }  # fmt: skip
        rows = await self._run(lambda connection: connection.execute(_SELECT_DUE, values).all())
        return [
            WaitingAgent(agent_id=AgentId(row.agent_id), pressing=int(row.pressing), since=row.since) for row in rows
        ]

    async def has_deferred_by(self, rule: str) -> bool:
        """Return whether this rule defers any request."""
        return await self._first(_SELECT_ONE_DEFERRED_BY, {"by": rule}) is not None

    async def count_refused_by_rule(self, agent_id: AgentId, since: datetime) -> Mapping[str, int]:
        """Return the number of requests that each rule refused since then."""
        rows = await self._all(_COUNT_BY_RULE, {"agent_id": agent_id, "since": since})
        return {str(row[0]): int(row[1]) for row in rows}

    async def count_by_sender(self, agent_id: AgentId, since: datetime) -> Mapping[str, int]:
        """Return the agent's counted wakes since then, by sender."""
        rows = await self._all(_COUNT_BY_SENDER, {"agent_id": agent_id, "since": since})
        return {str(row[0]): int(row[1]) for row in rows}

    async def count_by_pair(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Sequence[WakeCount]:
        """Return request counts by sender, target and decision in that time, ordered by name."""
        statement = where_given(_COUNT_BY_PAIR, time=wakes.c.at, since=since, until=until)
        rows = await self._run(lambda connection: connection.execute(statement).all())
        return [WakeCount(sender=row[0], agent=row[1], decision=Decision(row[2]), count=int(row[3])) for row in rows]

    async def find_all(
        self,
        *,
        agent_id: AgentId | None = None,
        sender_id: AgentId | None = None,
        decision: Decision | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: WakeId | None = None,
        limit: int = 100,
    ) -> Sequence[Wake]:
        """Return requests, newest first; `before` is the last one of the previous page."""
        statement = where_given(
            select(wakes).order_by(wakes.c.at.desc(), wakes.c.number.desc()).limit(limit),
            (wakes.c.agent_id, agent_id),
            (wakes.c.sender_id, sender_id),
            (wakes.c.decision, decision),
            time=wakes.c.at,
            since=since,
            until=until,
        )
        if before is not None:
            last = wakes.alias()
            place = tuple_(
                *(select(key).where(last.c.id == before).scalar_subquery() for key in (last.c.at, last.c.number))
            )
            statement = statement.where(tuple_(wakes.c.at, wakes.c.number) < place)
        return await self._select(statement, _read_wake)

    async def tally(
        self,
        agent_id: AgentId,
        *,
        wake_id: WakeId,
        sender_id: AgentId | None,
        sender_pulse: PulseId | None,
        asked_since: datetime,
        root_id: str,
        day: datetime,
        utc_day: datetime,
        now: datetime,
        asked_most: int = ALL,
        failures_most: int = 0,
        fleet_open_most: int = 0,
        fleet_wakes_most: int = 0,
    ) -> GuardrailCounts:
        """Count what the admission of `wake_id` needs, excluding the request itself.

        `day` is the start of the target's day; `asked_since` that of the sender's pulse or waking period. Potentially
        large counts (`asked_in_session`, `fleet_open`, `fleet_wakes_today`) stop at their `_most`; failures are counted
        among the last `failures_most` pulses.
        """
        values = {
            "agent": agent_id, "sender": sender_id or "", "sender_pulse": sender_pulse, "asked_since": asked_since,
            "root": root_id, "wake": wake_id, "day": day, "utc_day": utc_day, "now": now,
            "asked_most": asked_most, "failures_most": failures_most, "fleet_open_most": fleet_open_most,
            "fleet_wakes_most": fleet_wakes_most,
        }  # fmt: skip
        keys = [agent_key(agent_id)] if sender_id is None else [agent_key(agent_id), agent_key(sender_id)]
        if any(0 < most < ALL for most in (fleet_open_most, fleet_wakes_most)):
            keys.append(FLEET_KEY)
        await self._hold(*keys)
        (counts,) = await self._all(_TALLY, values, of=_TABLES_OF_TALLY)
        return counts
