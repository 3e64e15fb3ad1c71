"""What is asked of ready answers costs steps in indexes: no table is gone through, and nothing is sorted."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, create_engine

from circadia.errors import CircadiaError
from circadia.ids import AgentId, AnswerId, BankId, SessionId
from circadia.records.answer import DropReason
from circadia.stores.locks import LockKey
from circadia.stores.sql.link import Row, Single, Tables, Work
from circadia.stores.sql.statement import DRIVER_CONNECTION, Statement
from circadia.stores.sql.tx import Tx
from tests.contract.rows import at
from tests.contract.test_store_answers import answer, frame, use
from tests.contract.test_store_verdicts import verdict
from tests.fixtures.database_file import put_database

T = TypeVar("T")
BANK, AGENT, ONE = BankId("bnk_team"), AgentId("agt_ada"), AnswerId("a1")


class Traced:
    """Does work on a SQLite database and tells how the database goes about it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver = connection.info[DRIVER_CONNECTION] = connection.connection.driver_connection

    async def run(self, work: Work[T], *, of: Tables = None, short: bool | None = None, single: Single = None) -> T:
        return work(self._connection)

    async def hold(self, *keys: LockKey) -> bool:
        return False

    def queue_write(
        self, statement: Statement[Any], row: Row, *, key: object = None, or_raise: CircadiaError | None = None
    ) -> None:
        raise AssertionError("nothing of answers may wait")

    async def plan(self, ask: Callable[[Tx], Awaitable[object]]) -> list[str]:
        """Return the steps of all statements."""
        assert self._driver is not None
        statements: list[str] = []
        self._driver.set_trace_callback(statements.append)
        await ask(Tx(self, _refuse, _refuse, _note_no_touch))
        self._driver.set_trace_callback(None)
        assert statements
        return [row[3] for each in statements for row in self._driver.execute(f"EXPLAIN QUERY PLAN {each}")]


def _refuse(act: Callable[[], None]) -> None:
    raise AssertionError("nothing of answers waits for the commit")


def _note_no_touch(session_id: SessionId, at: datetime) -> None:
    raise AssertionError("answers touch no session")


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    engine = create_engine(f"sqlite:///{put_database(tmp_path)}")
    with closing(engine.connect()) as connection:
        yield Traced(connection)
    engine.dispose()


ASKED: Sequence[Callable[[Tx], Awaitable[object]]] = (
    lambda tx: tx.answers.get(BANK, ONE),
    lambda tx: tx.answers.find_changed(BANK, after=0),
    lambda tx: tx.answers.find_changed(BANK, after=1),
    lambda tx: tx.answers.find_live(BANK, after=ONE),
    lambda tx: tx.answers.find_live(BANK, agent_id=AGENT),
    lambda tx: tx.answers.find_live(BANK, agent_id=AGENT, behind=7),
    lambda tx: tx.answers.fetch_use_span(BANK, AGENT, ""),
    lambda tx: tx.answers.count_live(BANK, at(0)),
    lambda tx: tx.answers.drop(BANK, [ONE], DropReason.VOID, at(0)),
    lambda tx: tx.answer_uses.find_uses(BANK),
    lambda tx: tx.answer_uses.find_uses(BANK, agent_id=AGENT, judged=True),
    lambda tx: tx.answer_uses.record_uses([use("u1", answer(ONE, BANK))]),
    lambda tx: tx.answer_uses.save_judgment(BANK, "u1", right=True, at=at(0)),
    lambda tx: tx.answer_frames.save_frames([frame(BANK)]),
    lambda tx: tx.answer_frames.find_recent_scopes(BANK),
    lambda tx: tx.answer_frames.find_scopes(BANK, AGENT, ""),
    lambda tx: tx.answer_frames.get_frame(BANK, frame(BANK).scope),
    lambda tx: tx.answer_uses.find_days(BANK, since=at(0).date()),
    lambda tx: tx.answer_uses.save_judgment(BANK, "u1", right=None, at=at(0)),
    lambda tx: tx.answers.find_expired(BANK, at(0), limit=1),
    lambda tx: tx.answer_uses.save_verdicts([verdict("v1", answer(ONE, BANK))]),
    lambda tx: tx.answer_uses.find_verdicts(BANK, ["v1"]),
    lambda tx: tx.answers.find_banks_with_expired(at(0), limit=1),
    lambda tx: tx.answers.clear(BANK),
)


@pytest.mark.spec("ANS-05", "ANS-09")
async def test_every_question_is_answered_by_an_index_in_its_order(traced: Traced) -> None:
    for number, ask in enumerate(ASKED):
        steps = await traced.plan(ask)
        assert all(step.startswith("SEARCH") for step in steps), (number, steps)


@pytest.mark.spec("ANS-20")
async def test_banks_to_review_are_looked_for_among_the_live_answers_alone(traced: Traced) -> None:
    steps = await traced.plan(lambda tx: tx.answers.find_banks_to_review(at(0), after=BankId(""), limit=9))
    assert steps[0] == "SEARCH answers USING INDEX answers_expiring (expires_at>?)"
    assert "SEARCH episodes USING INDEX episodes_bank (bank_id=? AND number>?)" in steps


@pytest.mark.spec("ANS-05")
async def test_what_is_too_much_is_told_by_an_index_alone(traced: Traced) -> None:
    steps = await traced.plan(lambda tx: tx.answers.find_surplus(BANK, max_answers=1, max_bytes=1, max_per_agent=1))
    assert [step for step in steps if "answers" in step] == [
        "SEARCH answers USING COVERING INDEX answers_touched (bank_id=? AND dropped=?)"
    ]
