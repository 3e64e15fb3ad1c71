"""What each store promises of ready views, and of what tells whether one still holds."""

from dataclasses import replace
from datetime import timedelta

import pytest

from circadia.ids import EpisodeId, NoteId
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteKind
from circadia.records.ready_view import BankHeads, ReadyView, ViewHit, ViewKind
from circadia.records.retention import RetentionKind
from circadia.stores.base import Store
from tests.contract.rows import expire
from tests.contract.test_store_memory import BANK, NOON, OTHER, block, episode

pytestmark = pytest.mark.spec("SLEEP-26")

HITS = (ViewHit(Layer.EPISODES, 2, 0.1 + 0.2, {"words": 0.7, "weight": 1.0}), ViewHit(Layer.NOTES, 1, 0.0, {}))
ASKED = ReadyView(
    bank_id=BANK.id, kind=ViewKind.QUESTION, key="k1", asked={"text": "Où vit Ann?", "conversation": "s"}, limit=30,
    days={"2026-01-01": 3}, asked_at=NOON,
)  # fmt: skip
SUBJECT = ReadyView(
    bank_id=BANK.id, kind=ViewKind.SUBJECT, key="ann", asked={"text": "Ann"}, stamp="1", hits=HITS, made_at=NOON
)


@pytest.fixture
async def banks(store: Store) -> Store:
    async with store.begin_write() as tx:
        await tx.banks.add(BANK)
        await tx.banks.add(OTHER)
    return store


async def test_a_view_is_kept_as_it_was_given_and_ready_once_it_was_worked_out(banks: Store) -> None:
    made = replace(ASKED, stamp="0 0 1", depth=30, hits=HITS, made_at=NOON)
    async with banks.begin_write() as tx:
        await tx.views.put(ASKED)
        await tx.views.put(SUBJECT)
        await tx.views.put(replace(ASKED, bank_id=OTHER.id))
        assert await tx.views.get(BANK.id, ViewKind.QUESTION, "k1") == ASKED
        assert await tx.views.get(BANK.id, ViewKind.QUESTION, "k2") is None
        assert await tx.views.find_all(BANK.id) == [ASKED, SUBJECT]
    async with banks.begin_read() as tx:
        assert await tx.views.find_ready(BANK.id, "k1") is None, "it is counted only"
        assert await tx.views.find_ready(BANK.id, "ann") is None, "no question"
    async with banks.begin_write() as tx:
        await tx.views.save_hits(made)
        await tx.views.save_hits(replace(made, key="forgotten meanwhile"))
    async with banks.begin_read() as tx:
        assert await tx.views.find_all(BANK.id) == [made, SUBJECT]
        assert await tx.views.find_ready(BANK.id, "k1") == ("0 0 1", 30, HITS, BankHeads(0, 0))
        assert await tx.views.find_ready(OTHER.id, "k1") is None


async def test_what_changes_a_bank_shows_in_its_heads_or_counts(banks: Store) -> None:
    note = Note(
        id=NoteId("n1"), bank_id=BANK.id, number=0, at=NOON, text="t", trust=episode("x").trust,
        kind=NoteKind.BELIEF, evidence=(EpisodeId("e1"),), created_at=NOON,
    )  # fmt: skip
    async with banks.begin_write() as tx:
        assert await tx.views.fetch_heads(BANK.id) == BankHeads(0, 0)
        for name in ("e1", "e2"):
            await tx.episodes.add(episode(name))
        await tx.episodes.add(episode("e3", bank=OTHER.id))
        number = await tx.notes.add(note)
        numbers = [each.number for each in await tx.episodes.find_all(BANK.id)]
        (elsewhere,) = [each.number for each in await tx.episodes.find_all(OTHER.id)]
        assert await tx.views.fetch_heads(BANK.id) == BankHeads(numbers[-1], number)
        await tx.episodes.save_vectors(dict.fromkeys([*numbers, elsewhere], b"xx"), "a@1/1")
        await tx.notes.save_vectors({number: b"xx"}, "a@1/1")
        await tx.episodes.save_vectors({}, "a@1/1")
        await tx.blocks.add(block(1, "no part of a search"))
        found = [await tx.banks.get(each.id) for each in (BANK, OTHER)]
    assert [each and (each.vectors, each.generation, each.demotions) for each in found] == [(3, 0, 0), (1, 0, 0)]


async def test_questions_of_long_ago_go_and_of_the_others_those_that_were_asked_most_stay(banks: Store) -> None:
    async with banks.begin_write() as tx:
        await tx.views.put(SUBJECT)
        for bank in (BANK, OTHER):
            for at in range(5):
                asked_at = NOON + timedelta(seconds=at)
                await tx.views.put(replace(ASKED, bank_id=bank.id, key=f"k{at}", asked_at=asked_at))
        await tx.views.trim_questions(BANK.id, before=NOON + timedelta(seconds=2), keep=10)
        assert [each.key for each in await tx.views.find_all(BANK.id)] == ["k2", "k3", "k4", "ann"]
        await tx.views.trim_questions(BANK.id, before=NOON, keep=2)
        assert [each.key for each in await tx.views.find_all(BANK.id)] == ["k3", "k4", "ann"]
        await tx.views.drop(BANK.id, ViewKind.SUBJECT)
        assert [each.key for each in await tx.views.find_all(BANK.id)] == ["k3", "k4"]
        often = {"2025-12-31": 90, "2026-01-01": 4}
        await tx.views.put(replace(ASKED, key="k0", days=often))
        await tx.views.put(replace(ASKED, key="k1", days={"2025-12-31": 90}, asked_at=NOON + timedelta(days=1)))
        await tx.views.trim_questions(BANK.id, before=NOON, keep=2)
        assert [each.key for each in await tx.views.find_all(BANK.id)] == ["k0", "k4"]
        assert sorted(await tx.views.find_bank_ids()) == sorted([BANK.id, OTHER.id])
        await expire(tx, NOON + timedelta(seconds=1), RetentionKind.VIEWS)
        assert [each.key for each in await tx.views.find_all(BANK.id)] == ["k4"]
        await tx.views.drop(BANK.id)
        assert await tx.views.find_all(BANK.id) == []
        assert len(await tx.views.find_all(OTHER.id)) == 4
        await tx.banks.remove(OTHER.id)
        assert await tx.views.find_all(OTHER.id) == []
