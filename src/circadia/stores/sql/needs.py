"""What needs a person: spent budgets, agents whose pulses fail, the oldest dead letter, staged proposals (UI-16)."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import BigInteger, bindparam, case, cast, func, or_, select, text

from circadia.ids import AgentId
from circadia.records.call import AgentSpend
from circadia.records.overview import StagedPass
from circadia.records.pulse import FAILED
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader
from circadia.stores.sql.schema import HAS_BUDGET, agents, deliveries, pulses, sessions
from circadia.stores.sql.sleep_tables import pass_changes, passes
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.usage_days import count_days, usage_days

_CALLS, _TOKENS, _NANOUSD = (
    cast(func.sum(column), BigInteger)
    for column in (usage_days.c.calls, usage_days.c.charged_tokens, usage_days.c.charged_nanousd)
)


_SELECT_SPENT = Statement(
    select(agents.c.id, _CALLS.label("calls"), _TOKENS.label("tokens"), _NANOUSD.label("nanousd"))
    .select_from(agents)
    .join(sessions)
    .join(usage_days, (usage_days.c.agent == agents.c.name) & (usage_days.c.session == sessions.c.name))
    .where(
        text(f"agents.deleted_at IS NULL AND ({HAS_BUDGET})"),
        text("usage_days.scope = 'agent'"),
        usage_days.c.day == bindparam("day"),
    )
    .group_by(agents.c.id)
    .having(
        or_(
            text("sum(usage_days.calls) >= CAST(agents.policy ->> 'max_calls_per_day' AS NUMERIC)"),
            *(
                text(
                    f"sum(usage_days.charged_{column}) * (sum(usage_days.calls) + 1) > sum(usage_days.calls)"
                    f" * {factor} * CAST(agents.policy ->> 'max_{what}_per_day' AS NUMERIC)"
                )
                for column, what, factor in (("tokens", "tokens", 1), ("nanousd", "usd", 10**9))
            ),
        )
    )
    .order_by(agents.c.id)
    .limit(bindparam("most"))
)
_SELECT_FAILING = Statement(
    select(pulses.c.agent_id)
    .where(pulses.c.ended_at >= bindparam("since"), pulses.c.status.in_([status.value for status in FAILED]))
    .distinct()
    .limit(bindparam("most"))
)
_SELECT_OLDEST_DEAD = Statement(
    select(deliveries.c.ended_at)
    .where(
        text("deliveries.state <> 'handled'"),
        deliveries.c.state == "dead",
        select(agents.c.deleted_at).where(agents.c.id == deliveries.c.agent_id).scalar_subquery().is_(None),
    )
    .order_by(deliveries.c.number)
    .limit(1)
)
_STAGED = (
    select(pass_changes.c.pass_id, func.count().label("changes"))
    .where(text("pass_changes.state = 'staged'"))
    .group_by(pass_changes.c.pass_id)
    .subquery()
)
_SELECT_STAGED = Statement(
    select(
        _STAGED.c.pass_id,
        banks.c.name.label("bank"),
        _STAGED.c.changes,
        case((passes.c.ended_at.is_(None), passes.c.created_at), else_=passes.c.ended_at).label("since"),
    )
    .select_from(_STAGED)
    .join(passes, passes.c.id == _STAGED.c.pass_id)
    .join(banks, banks.c.id == passes.c.bank_id)
    .where(passes.c.dry_run.is_(False))
    .order_by(_STAGED.c.pass_id.desc())
    .limit(bindparam("most")),
    read=build_reader(StagedPass),
)


class Needs(Noun):
    """What needs a person."""

    async def find_spent_budgets(self, now: datetime, *, limit: int) -> Mapping[AgentId, AgentSpend]:
        """Return agents that are at a limit of their policy for the UTC day: another average call does not fit."""
        rows = await self._all(_SELECT_SPENT, {"day": count_days(now), "most": limit})
        return {
            AgentId(row.id): AgentSpend(calls=int(row.calls), tokens=int(row.tokens), nanousd=int(row.nanousd))
            for row in rows
        }

    async def find_failing_agents(self, since: datetime, *, limit: int) -> Sequence[AgentId]:
        """Return agents with a pulse that has failed since then."""
        rows = await self._all(_SELECT_FAILING, {"since": since, "most": limit})
        return [AgentId(row.agent_id) for row in rows]

    async def find_oldest_dead_letter(self) -> datetime | None:
        """Return when the oldest dead letter became one."""
        return await self._scalar(_SELECT_OLDEST_DEAD)

    async def find_staged_passes(self, *, limit: int) -> Sequence[StagedPass]:
        """Return passes whose proposals wait for a person, newest first."""
        return await self._all(_SELECT_STAGED, {"most": limit})
