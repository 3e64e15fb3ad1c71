"""What is written about answers holds in the transaction that writes, which looks at nothing that takes long."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from circadia.answers.lookup import AnswerLookup
from circadia.answers.services import Validity
from circadia.stores.base import Store, Tx
from circadia.stores.locks import LockKey
from tests.sleeptime.answers_stand import CAT, HOME, Hall, expecting, tier_mind

pytestmark = pytest.mark.spec("ANS-04")


class WriteHookStore:
    """A database that says when a transaction writes, and lets others write before it begins."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.writing = 0
        self.before: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def begin_write(self, *keys: LockKey) -> AsyncGenerator[Tx]:
        before, self.before = self.before, None
        if before is not None:
            await before()
        async with self._store.begin_write(*keys) as tx:
            self.writing += 1
            try:
                yield tx
            finally:
                self.writing -= 1


@pytest.fixture
def looks(one: Hall, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the database watched; return how many transactions wrote at each look at what an answer rests on."""
    watched, found, look = WriteHookStore(one.store), list[int](), AnswerLookup.validity
    one.store = cast("Store", watched)

    async def validity(*args: Any) -> Validity:
        found.append(watched.writing)
        return await look(*args)

    monkeypatch.setattr(AnswerLookup, "validity", validity)
    return found


async def test_nobody_who_writes_waits_for_a_look_at_what_an_answer_rests_on(one: Hall, looks: list[int]) -> None:
    one.set(sample_share=1.0)
    await one.said("I moved last year.")
    await one.seen()
    await one.run(tier_mind(expecting(HOME)))
    (answer,) = await one.ready()
    await one.used(answer, HOME)
    assert (await one.run(tier_mind())).run.counts == {"answers_judged": 1}
    assert looks == [0] * len(looks) != []


@pytest.mark.parametrize("kept", [False, True])
async def test_what_is_written_between_the_look_and_the_transaction_is_looked_at_first(
    one: Hall, looks: list[int], kept: bool
) -> None:
    await one.said("I moved last year.")
    await one.seen()
    watched = cast("WriteHookStore", one.store)
    look = AnswerLookup.validity

    async def validity(*args: Any) -> Validity:
        found = await look(*args)
        if len(looks) == 1:
            watched.before = lambda: one.said("Tea is at four.") if kept else one.write_block("Ann lives in Faro.")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnswerLookup, "validity", validity)
        await one.run(tier_mind(expecting(HOME)))
    assert (await one.questions(), looks) == ([HOME] if kept else [], [0, 0])
    if kept:
        (answer,) = await one.ready()
        async with one.store.begin_read() as tx:
            found = await one.lookup.validity(tx, await one.present(tx), answer)
        assert found.newer > answer.read_upto, "but it does not know the turn"


async def test_a_bank_that_never_rests_keeps_nothing_and_nobody_waits_for_it(one: Hall, looks: list[int]) -> None:
    await one.said("I moved last year.")
    await one.seen()
    watched = cast("WriteHookStore", one.store)
    look = AnswerLookup.validity

    async def validity(*args: Any) -> Validity:
        found = await look(*args)
        watched.before = lambda: one.said(f"Tea number {len(looks)} is served.")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnswerLookup, "validity", validity)
        await one.run(tier_mind(expecting(CAT)))
    assert await one.questions() == []
