"""What the server does by the clock: it frees, indexes and retires, and nobody asks it to."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from circadia.agents.approvals import ApprovalService
from circadia.agents.presence import Presence
from circadia.agents.waits import Waits
from circadia.ids import BankId, EpisodeId, MessageId, NoteId
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.block import Block, BlockSpan
from circadia.records.episode import Episode
from circadia.records.event import EventType
from circadia.records.message import DeliveryState
from circadia.records.note import Note, NoteKind
from circadia.server.sweeps import Sweeps
from circadia.server.wake_wiring import build_agent_services, build_wake_services
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import START, ManualClock
from tests.contract.rows import agent, message, session, stored, thread
from tests.wake.fleet import CountedIds

FORGOTTEN_AT_ONCE = 200
RETIRE_EVERY_SECONDS = 3_600.0
RETIRED_AT_ONCE = 500

ANN, BOB, TALK = agent("ann"), agent("bob"), thread()
DAY = 86_400.0


@asynccontextmanager
async def sweeping(store: Store, clock: ManualClock, keep_handled_days: int | None) -> AsyncGenerator[None]:
    """Sweep in the background, as a server does."""
    signals, ids = LocalSignals(), CountedIds()
    settings = Settings.model_validate({"limits": {"keep_handled_days": keep_handled_days}})
    events = EventLog(clock, signals)
    tier = build_wake_services(settings, clock, ids, events)
    _, _, sessions = build_agent_services(settings, clock, ids, events, tier)
    approvals = ApprovalService(clock, ids, events)
    waits = Waits(clock, store, signals, Presence(store, signals))
    running = asyncio.create_task(Sweeps(clock, store, events, waits, sessions, approvals, settings).run())
    try:
        await clock.wait_for_sleepers(1)
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def passes(clock: ManualClock, seconds: float) -> None:
    """Let time pass, and the sweep that is due then come to its end."""
    clock.advance(seconds)
    await clock.wait_for_sleepers(1)


@pytest.fixture
async def store(sqlite_store: Store) -> Store:
    await stored(sqlite_store, session(), ANN, BOB, TALK)
    return sqlite_store


async def handled(store: Store, names: list[str]) -> None:
    """Store messages to bob that he has handled at the clock's start, and one that is unread."""
    async with store.begin_write() as tx:
        for name in (*names, "unread"):
            await tx.messages.add(message(name, to=TALK, sender=ANN), [(BOB.id, False)])
        await tx.deliveries.mark_handled(BOB.id, [MessageId(name) for name in names], START)


async def counts(store: Store) -> tuple[int, int]:
    """Return how many of bob's are unread, and handled."""
    async with store.begin_read() as tx:
        found = await tx.deliveries.count_by_state(BOB.id)
    return found[DeliveryState.UNREAD], found[DeliveryState.HANDLED]


@pytest.mark.spec("WAKE-33")
@pytest.mark.parametrize("days", [1, 90])
async def test_what_was_handled_is_deleted_after_its_days_and_not_before(store: Store, days: int) -> None:
    clock = ManualClock()
    await handled(store, ["one", "two"])
    async with sweeping(store, clock, days):
        await passes(clock, 1)
        await passes(clock, days * DAY - 1)
        assert await counts(store) == (1, 2)
        await passes(clock, RETIRE_EVERY_SECONDS)
        assert await counts(store) == (1, 0)


@pytest.mark.spec("WAKE-33")
async def test_a_long_backlog_is_deleted_bit_by_bit(store: Store) -> None:
    clock = ManualClock()
    await handled(store, [f"m{number}" for number in range(2 * RETIRED_AT_ONCE + 1)])
    clock.advance(DAY)
    async with sweeping(store, clock, 0):
        for left in (RETIRED_AT_ONCE + 1, 1, 0):
            await passes(clock, 1)
            assert await counts(store) == (1, left)


@pytest.mark.spec("WAKE-33")
async def test_without_a_limit_everything_is_kept(store: Store) -> None:
    clock = ManualClock()
    await handled(store, ["one"])
    async with sweeping(store, clock, None):
        await passes(clock, 1000 * DAY)
        assert await counts(store) == (1, 1)


@pytest.mark.spec("WAKE-33")
async def test_new_messages_come_into_the_index_by_themselves(store: Store) -> None:
    clock = ManualClock()
    await handled(store, [f"m{number}" for number in range(120)])
    async with sweeping(store, clock, None):
        await passes(clock, 1)
    async with store.begin_write() as tx:
        assert await tx.messages.index_next(limit=1000) == 0


async def remembered(store: Store, bank: str, days: float | None, episodes: Mapping[str, float]) -> None:
    """Make a bank with a rule of retention, and episodes that happened so many days before the clock's start."""
    async with store.begin_write() as tx:
        await tx.banks.add(Bank(id=BankId(bank), name=bank, created_at=START, policy=BankPolicy(keep_days=days)))
        for name, ago in episodes.items():
            at = START - timedelta(days=ago)
            await tx.episodes.add(
                Episode(
                    id=EpisodeId(name), number=0, bank_id=BankId(bank), at=at, text=name, trust=Trust.PERSON,
                    speaker="Ann", stored_at=START,
                )
            )  # fmt: skip


async def kept(store: Store, bank: str) -> list[str]:
    async with store.begin_read() as tx:
        return [each.id for each in await tx.episodes.find_all(BankId(bank), limit=1000)]


@pytest.mark.spec("MEM-03")
async def test_episodes_go_after_the_days_of_their_bank_with_what_rests_on_them_and_nothing_else(store: Store) -> None:
    clock = ManualClock()
    await remembered(store, "short", 30.0, {"old": 31, "young": 28.5})
    await remembered(store, "long", 1e9, {"long-old": 10_000})
    await remembered(store, "ever", None, {"ever-old": 10_000})
    notes = {"rests": ("old", "young"), "stands": ("young",)}
    async with store.begin_write() as tx:
        for name, evidence in notes.items():
            await tx.notes.add(
                Note(
                    id=NoteId(name), number=0, bank_id=BankId("short"), kind=NoteKind.BELIEF, at=START, text=name,
                    trust=Trust.PERSON, evidence=[EpisodeId(each) for each in evidence], created_at=START,
                )
            )  # fmt: skip
        await tx.blocks.add(
            Block(
                bank_id=BankId("short"), label="human", version=1, parent=None, value="old\nyoung", limit=100,
                by="pass", at=START, spans=(BlockSpan(start=0, end=3, episodes=(EpisodeId("old"),)),),
            )
        )  # fmt: skip
    async with sweeping(store, clock, None):
        await passes(clock, 1)
        assert await kept(store, "short") == ["young"]
        async with store.begin_read() as tx:
            assert [each.id for each in await tx.notes.find_all(BankId("short"))] == ["stands"]
        await passes(clock, DAY)
        assert await kept(store, "short") == ["young"]
        await passes(clock, DAY)
        assert await kept(store, "short") == []
    assert (await kept(store, "long"), await kept(store, "ever")) == (["long-old"], ["ever-old"])
    async with store.begin_read() as tx:
        assert await tx.notes.find_all(BankId("short")) == []
        history = await tx.blocks.history(BankId("short"), "human")
        events = await tx.events.find_after(0, types=[EventType.FORGOTTEN], limit=9)
    assert [each.value for each in history] == ["young"]
    told = {"bank": "short", "by": "circadia", "keep_days": 30.0, "episodes": 1, "versions": 1, "notes": 1}
    assert [each.data for each in events] == [told, {**told, "versions": 0}]


@pytest.mark.spec("MEM-03")
async def test_a_long_backlog_of_episodes_is_forgotten_bit_by_bit(store: Store) -> None:
    clock = ManualClock()
    await remembered(store, "bank", 1.0, {f"e{number}": 2 for number in range(FORGOTTEN_AT_ONCE + 1)})
    async with sweeping(store, clock, None):
        for left in (1, 0):
            await passes(clock, 1)
            assert len(await kept(store, "bank")) == left
