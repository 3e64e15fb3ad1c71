"""A fleet of a million agents as rows: one agent is made by the services, the others are its copies in PostgreSQL."""

from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Table

from benchmarks.cluster_process import ClusterMember
from benchmarks.pulse_agent import NO_LIMITS
from circadia.ids import AgentId, SessionId, hash_token
from circadia.records.agent import Agent, Cause
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.session import Session, SessionStatus
from circadia.stores.sql.schema import agents, routines, sessions

DAY: Final = timedelta(days=1)
_MICROSECONDS: Final = 86_400_000_000
_STEP: Final = 7_919
"""A prime: agents whose numbers follow each other are due far apart."""
_MODEL: Final = "model"


async def add_fleet(member: ClusterMember, connection: Any, count: int, session_size: int, begin: datetime) -> None:
    """Make so many agents, each with a routine that is due once a day, evenly over the day from `begin`."""
    await _add_model(member, begin)
    session = f"(n / {session_size})"
    await _copy(connection, sessions, f"generate_series(0, {(count - 1) // session_size}) AS n", {
        "id": "'ses_' || n", "name": "'team-' || n",
    })  # fmt: skip
    numbers = f"generate_series(0, {count - 1}) AS n"
    await _copy(connection, agents, numbers, {
        "id": "'agt_' || n", "session_id": f"'ses_' || {session}", "name": "'agent-' || n",
        "token_hash": "md5(n::text)",
    })  # fmt: skip
    micros = f"(n::bigint * {_STEP} % {count}) * {_MICROSECONDS} / {count}"
    due = f"(next_at - {_MICROSECONDS} + {micros})"
    anchor = f"to_char(to_timestamp({due} / 1e6) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    await _copy(connection, routines, numbers, {
        "id": "'rtn_' || n", "agent_id": "'agt_' || n", "next_at": due,
        "spec": f"jsonb_set(spec::jsonb, '{{recurrence,anchor}}', to_jsonb({anchor}))::json",
    })  # fmt: skip
    await connection.execute("DELETE FROM routines WHERE agent_id NOT LIKE 'agt\\_%' OR id NOT LIKE 'rtn\\_%'")
    await connection.execute("VACUUM ANALYZE")


def agent_of(number: int) -> AgentId:
    return AgentId(f"agt_{number}")


async def finish_until(connection: Any, instant: datetime) -> int:
    """Plan what was due before this instant for the next day, as if it had run; return the number of rows."""
    micros = int(instant.timestamp()) * 1_000_000
    done = await connection.execute(
        f"UPDATE routines SET last_at = next_at, next_at = next_at + {_MICROSECONDS} "
        f"WHERE enabled AND next_at < {micros}"
    )
    return int(done.split()[-1])


async def _add_model(member: ClusterMember, begin: datetime) -> None:
    """Make the agent that is copied, with a routine due a day after `begin`."""
    now = member.clock.now()
    home = Session(
        id=SessionId(_MODEL), name=_MODEL, status=SessionStatus.OPEN, created_at=now, touched_at=now
    )  # fmt: skip
    agent = Agent(
        id=AgentId(_MODEL), session_id=home.id, session=home.name, name=_MODEL, token_hash=hash_token(_MODEL),
        asleep=True, since=now, cause=Cause.OPERATOR, actor="operator", created_at=now,
    )  # fmt: skip
    recurrence = Recurrence(every_seconds=86_400, anchor=begin + DAY)
    async with member.store.begin_write() as tx:
        await tx.sessions.add(home)
        await tx.agents.add(agent)
        agent = await member.tier.coordinations.patch(tx, agent, {"launcher": "own", **NO_LIMITS}, by="operator")
        spec = RoutineSpec(name="daily", instructions="Look after your work.", recurrence=recurrence)
        await member.tier.routines.replace(tx, agent, [spec], by="operator")


async def _copy(connection: Any, table: Table, numbers: str, values: dict[str, str]) -> None:
    """Copy the model's row once for each number, with these values."""
    names = [column.name for column in table.columns]
    own = ", ".join(values.get(name, f"model.{name}") for name in names)
    key = "agent_id" if table is routines else "id"
    await connection.execute(
        f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {own} FROM {table.name} AS model, {numbers} "
        f"WHERE model.{key} = '{_MODEL}'"
    )
