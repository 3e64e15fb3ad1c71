"""What each store tells of which rows were handed to agents."""

from datetime import UTC, datetime, timedelta

import pytest

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.bank import Bank, Trust
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.stores.base import Store, Tx

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ANN, BOB = BankId("b1"), BankId("b2")
MANY = 70
"""More rows than one statement names."""


@pytest.fixture
async def banks(store: Store) -> Store:
    async with store.begin_write() as tx:
        for bank in (ANN, BOB):
            await tx.banks.add(Bank(id=bank, name=bank, created_at=NOON))
            for at in range(MANY):
                await said(tx, bank, f"{bank}-e{at}", importance=at / 100)
            await tx.notes.add_all([note(bank, at) for at in range(MANY)])
    return store


async def said(tx: Tx, bank: BankId, name: str, *, importance: float | None, **more: object) -> None:
    values = {
        "id": EpisodeId(name), "bank_id": bank, "number": 0, "at": NOON, "text": name, "trust": Trust.PERSON,
        "speaker": "Ann", "stored_at": NOON, "digest": name, "importance": importance,
    }  # fmt: skip
    await tx.episodes.add(Episode(**{**values, **more}))  # type: ignore[arg-type]


def note(bank: BankId, at: int) -> Note:
    return Note(
        id=NoteId(f"{bank}-n{at}"), bank_id=bank, number=0, at=NOON, text="t", trust=Trust.PERSON, created_at=NOON,
        kind=NoteKind.CONSOLIDATION, evidence=(EpisodeId(f"{bank}-e{at}"),),
    )  # fmt: skip


async def uses(store: Store, bank: BankId) -> list[datetime | None]:
    async with store.begin_read() as tx:
        return [each.used_at for each in await tx.notes.find_all(bank)]


@pytest.mark.spec("SLEEP-20")
async def test_a_note_tells_when_it_was_last_handed_out_and_is_written_no_oftener_than_asked(banks: Store) -> None:
    assert await uses(banks, ANN) == [None] * MANY
    async with banks.begin_write() as tx:
        numbers = [each.number for each in await tx.notes.find_all(ANN)]
        await tx.notes.mark_used(ANN, numbers[1:], NOON, before=NOON - DAY)
        await tx.notes.mark_used(ANN, numbers[:2], NOON + DAY, before=NOON)
        await tx.notes.mark_used(BOB, numbers, NOON, before=NOON)
        await tx.notes.mark_used(ANN, [], NOON, before=NOON)
    assert await uses(banks, ANN) == [NOON + DAY, *[NOON] * (MANY - 1)]
    assert await uses(banks, BOB) == [None] * MANY
    async with banks.begin_write() as tx:
        await tx.notes.mark_used(ANN, numbers[:2], NOON + 2 * DAY, before=NOON + DAY)
        assert [(await tx.notes.find_newest(ANN, MANY))[at].used_at for at in (0, 1)] == [NOON + DAY, NOON + 2 * DAY]
        await tx.notes.retire(NoteId("b1-n1"), NOON)
    async with banks.begin_read() as tx:
        last = dict.fromkeys(numbers[2:], NOON)
        assert await tx.notes.find_use_times(ANN, first=0) == {numbers[0]: NOON + DAY, **last}
        assert await tx.notes.find_use_times(ANN, first=numbers[3]) == dict.fromkeys(numbers[3:], NOON)
        assert await tx.notes.find_use_times(BOB, first=0) == {}


@pytest.mark.spec("SLEEP-20")
async def test_a_note_tells_whether_it_was_put_back(banks: Store) -> None:
    told: list[bool] = []
    for retired in (None, NOON, None):
        async with banks.begin_write() as tx:
            if told:
                await tx.notes.retire(NoteId("b1-n0"), retired)
            found = await tx.notes.get(ANN, NoteId("b1-n0"))
            assert found is not None
            told.append(found.returned)
    assert told == [False, False, True]
