"""What every store promises of what waits for a person: staged changes, dreams, alerts, and the texts of changes."""

from dataclasses import replace
from typing import Any

import pytest

from circadia.ids import AlertId, DreamId, EpisodeId, MessageId, PassId
from circadia.records.alert import AlertRecord
from circadia.records.bank import Trust
from circadia.records.change import ChangeState
from circadia.records.dream_job import DreamJob, DreamJobStatus, DreamReview, DreamSource, ReviewKind
from circadia.records.episode import Episode
from circadia.records.retention import RetentionKind
from circadia.records.sleep_pass import PassStatus
from circadia.stores.base import Store
from circadia.stores.locks import agent_key
from tests.contract.rows import agent, at, expire, session, stored
from tests.contract.sleep_rows import banks_of, change, sleep_pass
from tests.contract.wake_rows import wake

pytestmark = pytest.mark.spec("UI-19")


async def test_staged_changes_of_ended_passes_are_read_page_by_page_over_all_banks(store: Store) -> None:
    one, other = await banks_of(store, "one", "other")
    ended: dict[str, Any] = {"status": PassStatus.SUCCEEDED, "ended_at": at(1)}
    async with store.begin_write() as tx:
        await tx.passes.add(sleep_pass("p1", one, **ended))
        await tx.passes.add(sleep_pass("p2", other, **ended))
        await tx.passes.add(sleep_pass("p3", one, dry_run=True, **ended))
        await tx.passes.add(sleep_pass("p4", one, status=PassStatus.RUNNING))
        for run in ("p1", "p2", "p3", "p4"):
            rows = [replace(change(run, number), state=ChangeState.STAGED) for number in (1, 2)]
            await tx.passes.save_changes([*rows, replace(change(run, 3), state=ChangeState.REFUSED)])
    async with store.begin_read() as tx:
        first = await tx.passes.find_staged(limit=3)
        assert [(bank, row.pass_id, row.number) for bank, row in first] == [
            (one, "p1", 1),
            (one, "p1", 2),
            (other, "p2", 1),
        ]
        rest = await tx.passes.find_staged(after=(PassId("p2"), 1), limit=3)
        assert [(row.pass_id, row.number) for _, row in rest] == [("p2", 2)]
        assert len(await tx.passes.find_staged(bank_id=other, limit=9)) == 2
        assert (await tx.passes.count_staged(limit=9), await tx.passes.count_staged(limit=3)) == (4, 3)


async def test_an_alert_is_acknowledged_once_counted_while_open_and_deleted_by_age(store: Store) -> None:
    alerts = [
        AlertRecord(id=AlertId(f"alr_{number}"), cause=cause, session="s", agent=None, at=at(number), detail={"é": [1]})
        for number, cause in enumerate(("budget", "backlog", "budget"))
    ]
    async with store.begin_write() as tx:
        for each in alerts:
            await tx.alert_history.add(each)
        assert await tx.alert_history.acknowledge(AlertId("alr_1"), at(9), "ann")
        assert not await tx.alert_history.acknowledge(AlertId("alr_1"), at(10), "bob")
        assert not await tx.alert_history.acknowledge(AlertId("none"), at(10), "bob")
    async with store.begin_read() as tx:
        done = replace(alerts[1], acknowledged_at=at(9), acknowledged_by="ann")
        assert await tx.alert_history.get(AlertId("alr_1")) == done
        assert await tx.alert_history.find_all(limit=2) == [alerts[2], done]
        assert await tx.alert_history.find_all(before=AlertId("alr_1")) == [alerts[0]]
        assert await tx.alert_history.find_all(cause="budget", is_open=True) == [alerts[2], alerts[0]]
        assert (await tx.alert_history.count_open(limit=9), await tx.alert_history.count_open(limit=1)) == (2, 1)
    async with store.begin_write() as tx:
        assert await expire(tx, at(1), RetentionKind.ALERT_HISTORY) == 1


async def test_a_dream_keeps_whether_it_waits_and_what_people_decided_on_it(store: Store) -> None:
    job = DreamJob(
        id=DreamId("drm_1"), source=DreamSource.FOLDER, name="app", mode="propose", instructions="", by="ann",
        status=DreamJobStatus.COMPLETED, created_at=at(1), ended_at=at(2), pass_id="chg_1", waits=True,
    )  # fmt: skip
    review = DreamReview(act=ReviewKind.ACCEPTED, by="operator/ann", at=at(3.5), files=("a.md", "é.md"))
    reviewed = replace(job, waits=False, reviews=(review,))
    async with store.begin_write() as tx:
        assert await tx.dream_jobs.add(job)
        assert (await tx.dream_jobs.count_waiting(), await tx.dream_jobs.find_all(waits=True)) == (1, [job])
        assert await tx.dream_jobs.save(reviewed, origin=[DreamJobStatus.COMPLETED])
    async with store.begin_read() as tx:
        assert await tx.dream_jobs.find_all(source=DreamSource.FOLDER, name="app", entry="chg_1") == [reviewed]
        assert await tx.dream_jobs.find_all(entry="chg_2") == []
        assert (await tx.dream_jobs.count_waiting(), await tx.dream_jobs.find_all(waits=True)) == (0, [])


async def test_texts_are_read_by_their_ids_within_their_bank_and_cut(store: Store) -> None:
    one, other = await banks_of(store, "one", "other")
    async with store.begin_write() as tx:
        for bank, key in ((one, "epi_1"), (other, "epi_2")):
            episode = Episode(
                id=EpisodeId(key), number=0, bank_id=bank, at=at(1), stored_at=at(1), text="漢é" * 100,
                trust=Trust.PERSON, speaker="ann", digest=key,
            )  # fmt: skip
            await tx.episodes.add(episode)
    async with store.begin_read() as tx:
        ids = [EpisodeId("epi_1"), EpisodeId("epi_2"), EpisodeId("epi_3")]
        found = await tx.episodes.find_excerpts(one, ids, characters=3)
        assert {key: (row.text, row.speaker, row.at) for key, row in found.items()} == {
            "epi_1": ("漢é漢", "ann", at(1))
        }
        assert await tx.notes.find_excerpts(one, [], characters=3) == {}


@pytest.mark.spec("UI-18")
async def test_the_requests_that_a_message_has_caused_are_found_in_order(store: Store) -> None:
    ann, bob = agent("ann"), agent("bob")
    await stored(store, session(), ann, bob)
    caused = [
        wake("w1", to=ann, message_id=MessageId("m1")), wake("w2", to=bob, message_id=MessageId("m1")),
        wake("w3", to=bob, message_id=MessageId("m2")), wake("w4", to=ann),
    ]  # fmt: skip
    async with store.begin_write() as tx:
        await tx.hold(agent_key(ann.id), agent_key(bob.id))
        for each in caused:
            await tx.wakes.add(each)
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.wakes.find_by_message(MessageId("m1"))] == [caused[0].id, caused[1].id]
        assert await tx.wakes.find_by_message(MessageId("m3")) == []
