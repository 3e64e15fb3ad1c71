"""What is asked is written down once, for a while, and not where nothing may be kept."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from circadia.errors import UpstreamFailed
from circadia.memory.search.question_counter import count_recent_askings
from circadia.records.bank import Bank, BankPolicy, CaptureMode
from circadia.records.benefit import Benefit
from circadia.records.ready_view import ReadyView, ViewKind
from circadia.records.retention import RetentionKind
from circadia.server.retention import RetentionSweep
from circadia.settings import Settings
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.operations.reindex import forget_askings, write_askings
from circadia.stores.base import Store
from tests.contract.rows import expire
from tests.sleeptime.stand import Stand
from tests.sleeptime.test_reindex import POLICY, Home, often

WINDOW = timedelta(days=14)

pytestmark = pytest.mark.spec("SLEEP-26")


@pytest.fixture
async def home(sqlite_store: Store) -> Home:
    """A bank with nothing in it."""
    return await Home.made(sqlite_store)


async def test_what_is_written_twice_at_once_is_counted_once_and_what_could_not_be_written_is_kept(home: Home) -> None:
    await often(home, "Porto")
    askings = home.memory.retrieval.askings
    await asyncio.gather(*(write_askings(home.store, askings, lambda _: POLICY) for _ in range(2)))
    await often(home, "Porto")

    def broken(_: Bank) -> SleepPolicySettings:
        raise UpstreamFailed("away")

    with pytest.raises(UpstreamFailed):
        await write_askings(home.store, askings, broken)
    await write_askings(home.store, askings, lambda _: POLICY)
    assert [count_recent_askings(each, home.clock.now()) for each in await home.views()] == [4]


@pytest.mark.spec("MEM-14", "MEM-18")
async def test_no_question_with_a_secret_is_written_nor_any_of_a_bank_that_takes_only_what_it_is_given(
    home: Home,
) -> None:
    await often(home, "is sk-abcdefghijklmnop1234 my key?", "Porto")
    await home.close()
    assert [each.asked["text"] for each in await home.views()] == ["Porto"]
    async with home.store.begin_write() as tx:
        await home.memory.banks.change(tx, home.bank, by="t", policy=BankPolicy(capture_mode=CaptureMode.EXPLICIT))
    await forget_askings(home.store, lambda _: POLICY)
    assert await home.views() == []
    await often(home, "Porto", counted=True)
    await home.close()
    assert await home.views() == []


async def test_what_nobody_asks_any_more_is_deleted_though_this_process_was_never_asked(home: Home) -> None:
    await home.said("Ann lives in Porto.", "Ann left Porto.")
    await home.noted("So Ann knows Porto.", *await home.said("Porto!"))
    await home.noted("Ann loves Porto.", *await home.said("Porto?"))
    await often(home, "Porto")
    await home.close()
    for seconds, left in ((0, 1), (1, 0)):
        async with home.store.begin_write() as tx:
            await expire(tx, home.clock.now() + timedelta(seconds=seconds), RetentionKind.VIEWS)
        assert len(await home.views()) == left
    assert (await home.views(), len(await home.views(ViewKind.SUBJECT))) == ([], 2)
    none = SleepPolicySettings.model_validate({"views": 0})
    await forget_askings(home.store, lambda _: none)
    assert await home.views(ViewKind.SUBJECT) == []


async def test_a_long_conversation_is_counted_too(home: Home) -> None:
    await home.said("Ann lives in Porto.")
    for _ in range(2):
        question = await home.memory.retrieval.prepare_question("Porto", explained=False)
        async with home.store.begin_read() as tx:
            await home.memory.contexts.build(
                tx, home.bank, question, stable_tokens=0, fitting_tokens=500, known=[f"turn {at}" for at in range(500)]
            )
    assert len(home.memory.retrieval.askings.pending_questions()) == 1


@pytest.mark.spec("SLEEP-42")
async def test_what_was_asked_and_what_was_saved_long_ago_is_deleted(stand: Stand) -> None:
    today = stand.clock.now().date()
    days = [today - timedelta(days=each) for each in (367, 366)]
    asked = ReadyView(bank_id=stand.bank.id, kind=ViewKind.QUESTION, key="k", asked={"text": "?"})
    async with stand.store.begin_write() as tx:
        await tx.views.put(replace(asked, asked_at=stand.clock.now() - WINDOW - timedelta(seconds=1)))
        await tx.benefits.add([
            Benefit(
                bank_id=stand.bank.id, operation="reflect", day=day, uses=1, saved_tokens=1, saved_seconds=0.0,
                saved_nanousd=0, unpriced_tokens=0,
            )
            for day in days
        ])  # fmt: skip
    sweep = RetentionSweep(stand.clock, stand.store, Settings.model_validate({}))
    stand.clock.advance(60)  # it begins after the start
    await sweep.sweep()
    async with stand.store.begin_read() as tx:
        assert await tx.views.find_all(stand.bank.id) == []
        assert [each.day for each in await tx.benefits.find_all(stand.bank.id, since=days[0])] == days[1:]
