"""A notebook shows what the rows hold, whatever was done to them since it last read them."""

import random
from dataclasses import replace

import pytest

from circadia.ids import NoteId
from circadia.memory.forgetting import forget
from circadia.records.bank import Bank
from circadia.records.note import Note
from circadia.sleeptime.proposals.notebook import Notebook
from circadia.stores.base import Tx
from tests.sleeptime.stand import Stand

pytestmark = pytest.mark.spec("SLEEP-20")


async def shown(stand: Stand, book: Notebook) -> list[Note]:
    async with stand.store.begin_read() as tx:
        return list(await book.fetch_newest(tx, await present(tx, stand.bank)))


async def present(tx: Tx, bank: Bank) -> Bank:
    found = await tx.banks.get(bank.id)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_it_shows_the_newest_that_stand_after_any_additions_retirements_and_returns(
    stand: Stand, seed: int
) -> None:
    draw = random.Random(seed)
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    run = await stand.begun()
    book = Notebook(newest=6, spare=2)
    every: list[NoteId] = []
    for at in range(40):
        act = draw.choice(("add", "add", "retire", "return", "forget" if at % 9 == 8 else "add"))
        if act == "add":
            new = [NoteId(f"n{at}-{each}") for each in range(draw.randint(1, 4))]
            every += new
            run = await stand.publish(run, *(stand.note(each, sources) for each in new))
        elif act == "forget":
            async with stand.store.begin_write() as tx:
                await forget(tx, await present(tx, stand.bank), [draw.choice(every or [NoteId("none")])])
        elif every:
            async with stand.store.begin_write() as tx:
                for each in draw.sample(every, min(3, len(every))):
                    await tx.notes.retire(each, stand.clock.now() if act == "retire" else None)
        if draw.random() < 0.7:
            async with stand.store.begin_read() as tx:
                rows = [replace(each, used_at=None) for each in await tx.notes.find_newest(stand.bank.id, 6)]
            assert await shown(stand, book) == rows


async def test_notes_are_shown_without_what_changes_beside_them_and_read_once(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    await stand.publish(await stand.begun(), stand.note("n1", sources))
    async with stand.store.begin_write() as tx:
        (note,) = await tx.notes.find_all(stand.bank.id)
        await tx.notes.save_vectors({note.number: b"1234"}, "a model")
        await tx.notes.mark_used(stand.bank.id, [note.number], stand.clock.now(), before=stand.clock.now())
    book = Notebook()
    (first,) = await shown(stand, book)
    assert first == replace(note, vector=None, embedder=None)
    assert (await shown(stand, book))[0] is first


async def test_it_keeps_the_notes_of_the_banks_that_it_was_asked_for_last(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    await stand.publish(await stand.begun(), *(stand.note(f"n{at}", sources) for at in range(3)))
    book = Notebook(most=2)
    before = await shown(stand, book)
    assert (await shown(stand, book))[0] is before[0]  # the only bank, whatever it takes
    other = replace(stand.bank, id=type(stand.bank.id)("bnk_other"), name="other")
    async with stand.store.begin_write() as tx:
        await tx.banks.add(other)
        assert await book.fetch_newest(tx, await present(tx, other)) == []
    again = await shown(stand, book)
    assert again == before
    assert again[0] is not before[0]
