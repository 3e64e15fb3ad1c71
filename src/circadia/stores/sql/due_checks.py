"""Checks of banks for a due pass.

Each change that a decision on passes rests on adds a row in its own transaction. Whoever decides reads the rows first,
then the bank, and deletes the rows that it had read: what is committed meanwhile stays, and asks for another decision.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, or_, select, true, update

from circadia.ids import BankId
from circadia.records.due_work import AgentsCheck, DueBanks, DueCheck
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.sleep_tables import due_checks, next_checks
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_REQUESTS_PER_BANK: Final = 10
"""Requests that are read for each bank that is wanted."""
_ADD = Statement(insert(due_checks).inline(), ("bank_id", "bound_name", "if_asleep"))
_SELECT_REQUESTS = Statement(select(due_checks).order_by(due_checks.c.number).limit(bindparam("most")))
_SELECT_TIMED = Statement(
    select(next_checks.c.bank_id)
    .where(next_checks.c.at <= bindparam("now"))
    .order_by(next_checks.c.at)
    .limit(bindparam("most"))
)
_DELETE_REQUESTS = Statement(delete(due_checks).where(due_checks.c.number == bindparam("of_number")), ("of_number",))
_SAVE_NEXT = Statement(
    Upsert(next_checks, keys=("bank_id",), new=("at", "has_backlog")), [column.name for column in next_checks.c]
)
_DELETE_NEXT = Statement(delete(next_checks).where(next_checks.c.bank_id == bindparam("bank")), ("bank",))


def _build_expansion(counted: ColumnElement[bool]) -> Statement[Any]:
    """Build the statement that brings the next checks of bound banks forward to now, up to `most` of them."""
    ids = (
        select(next_checks.c.bank_id)
        .join(banks, banks.c.id == next_checks.c.bank_id)
        .where(
            counted,
            or_(next_checks.c.at.is_(None), next_checks.c.at > bindparam("now")),
            or_(banks.c.name == bindparam("bound"), banks.c.template == bindparam("bound")),
        )
        .limit(bindparam("most"))
    )
    return Statement(update(next_checks).where(next_checks.c.bank_id.in_(ids)).values(at=bindparam("now")))


_EXPAND_BACKLOG = _build_expansion(next_checks.c.has_backlog)
_EXPAND_ALL = _build_expansion(true())


def queue_check(runner: Runner, bank_id: BankId) -> None:
    """Ask for a check of the bank, in the transaction of the change."""
    runner.queue_write(_ADD, (bank_id, None, False), key=bank_id)


def queue_check_of_agents(runner: Runner, bound_name: str, *, if_asleep: bool) -> None:
    """Ask for a check of all banks of this name or template; see `AgentsCheck`."""
    runner.queue_write(_ADD, (None, bound_name, if_asleep), key=(bound_name, if_asleep))


class DueChecks(Noun):
    """Checks of banks for a due pass.

    The nouns ask for one in the transaction of each change that a decision rests on, so none is lost.
    """

    async def add(self, bank_ids: Collection[BankId]) -> None:
        for bank_id in bank_ids:
            queue_check(self._runner, bank_id)

    async def add_of_agents(self, bound_name: str, *, if_asleep: bool) -> None:
        """Ask for a check of the banks with this name or template; see `AgentsCheck`."""
        queue_check_of_agents(self._runner, bound_name, if_asleep=if_asleep)

    async def find_due(self, now: datetime, *, limit: int) -> DueBanks:
        """Return up to `limit` banks for which a check was asked for, and as many whose time has come."""

        def work(connection: Connection) -> DueBanks:
            numbers: dict[BankId, list[int]] = {}
            agents: list[AgentsCheck] = []
            for row in _SELECT_REQUESTS.all(connection, {"most": limit * _REQUESTS_PER_BANK}):
                if row.bank_id is None:
                    agents.append(AgentsCheck(number=row.number, bound_name=row.bound_name, if_asleep=row.if_asleep))
                elif row.bank_id in numbers or len(numbers) < limit:
                    numbers.setdefault(BankId(row.bank_id), []).append(row.number)
            timed = _SELECT_TIMED.all(connection, {"now": now, "most": limit})
            return DueBanks(banks={**{BankId(row.bank_id): () for row in timed}, **numbers}, agents=agents)

        return await self._run(work, short=True)

    async def expand(self, check: AgentsCheck, now: datetime, *, limit: int) -> int:
        """Make up to `limit` of the bound banks due now; return how many were not due before."""
        statement = _EXPAND_BACKLOG if check.if_asleep else _EXPAND_ALL
        return await self._execute(statement, {"bound": check.bound_name, "now": now, "most": limit})

    async def settle(self, numbers: Collection[int], checks: Sequence[DueCheck]) -> None:
        """Delete the requests with these numbers, and set when the banks are checked again."""
        needed = sorted((each.bank_id, each.at, each.has_backlog) for each in checks if each.is_needed)
        over = sorted(each.bank_id for each in checks if not each.is_needed)

        def work(connection: Connection) -> None:
            _DELETE_REQUESTS.run_many(connection, [(number,) for number in sorted(numbers)])
            _DELETE_NEXT.run_many(connection, [(bank_id,) for bank_id in over])
            _SAVE_NEXT.run_many(connection, needed)

        await self._run(work)
