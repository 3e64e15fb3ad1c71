"""Reindex: what is often asked is ready when a pass ends, and a view never answers otherwise than the search itself."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self

import pytest

from circadia.errors import UpstreamFailed
from circadia.ids import EpisodeId, NoteId
from circadia.memory.banks import NewBank
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.memory.context import Context
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.memory.episodes import NewEpisode
from circadia.memory.forgetting import forget
from circadia.memory.search.index import Question
from circadia.memory.search.question_counter import count_recent_askings
from circadia.memory.search.retrieval import SearchHit
from circadia.memory.search.terms import stored_terms
from circadia.memory.services import MemoryServices
from circadia.records.bank import Bank, Trust
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteKind
from circadia.records.ready_view import ReadyView, ViewKind
from circadia.records.sleep_pass import PassStatus
from circadia.server.memory_wiring import build_memory_services
from circadia.settings import Settings
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.budget.model_calls import PassPreempted
from circadia.sleeptime.engine.pass_tasks import SleepParts
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.operations import reindex
from circadia.sleeptime.operations.registry import choose_operations
from circadia.sleeptime.operations.reindex import Reindex, write_askings
from circadia.sleeptime.proposals.operation import PassContext
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.testing import ManualClock
from tests.memory.embedding.stand import FakeEmbedder
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier
from tests.wake.fleet import CountedIds

WINDOW = timedelta(days=14)

pytestmark = pytest.mark.spec("SLEEP-26")

POLICY = SleepPolicySettings.model_validate({})


class Home:
    """A bank, and the memory of one process or of another."""

    def __init__(self, store: Store, clock: ManualClock, embedder: FakeEmbedder, ids: CountedIds) -> None:
        self.store = store
        self.clock = clock
        self.embedder = embedder
        self.ids = ids
        self.memory: MemoryServices = build_memory_services(
            Settings.model_validate({}), clock, self.ids, EventLog(clock, LocalSignals()), embedder
        )
        self.background = BackgroundEmbedder(clock, store, LocalSignals(), embedder)
        self.bank = Bank(id="", name="", created_at=clock.now())  # pyright: ignore[reportArgumentType]

    @classmethod
    async def made(cls, store: Store) -> Self:
        """Return a first one."""
        home = cls(store, ManualClock(), FakeEmbedder(), CountedIds())
        async with store.begin_write() as tx:
            home.bank = await home.memory.banks.create(tx, NewBank(name="ann"), by="test")
        return home

    def another(self, embedder: FakeEmbedder | None = None) -> "Home":
        """Return the memory of a process that has just started."""
        other = Home(self.store, self.clock, embedder or FakeEmbedder(), self.ids)
        other.bank = self.bank
        return other

    async def said(self, *texts: str, **more: Any) -> list[EpisodeId]:
        """Remember."""
        async with self.store.begin_write() as tx:
            new = [NewEpisode(text=text, speaker="Ann", trust=Trust.PERSON, **more) for text in texts]
            return [(await self.memory.episodes.remember(tx, self.bank, each)).episode.id for each in new]

    async def noted(self, text: str, *evidence: EpisodeId, kind: NoteKind = NoteKind.BELIEF) -> NoteId:
        """Add a note."""
        note = Note(
            id=NoteId(self.ids.new("not")), bank_id=self.bank.id, number=0, at=self.clock.now(), text=text,
            trust=Trust.PERSON, kind=kind, evidence=evidence, created_at=self.clock.now(), terms=stored_terms(text),
        )  # fmt: skip
        async with self.store.begin_write() as tx:
            await tx.notes.add(note)
        return note.id

    async def find(self, question: str, *, viewless: bool = False, **more: Any) -> Sequence[SearchHit]:
        """Search as an entrance does it, or without looking at views."""

        async def work(tx: Tx, asked: Question) -> Sequence[SearchHit]:
            bank = await tx.banks.get(self.bank.id)
            assert bank is not None
            return await self.memory.retrieval.find(tx, bank, replace(asked, **more))

        if not viewless:
            return await self.memory.retrieval.run_question(self.store, question, work)
        asked = replace(await self.memory.retrieval.prepare_question(question), text="")
        async with self.store.begin_read() as tx:
            return await work(tx, asked)

    async def told(self, question: str, *, viewless: bool = False) -> Context:
        """Return what the bank says in a prompt to a question, as the gateway puts it in."""
        asked = await self.memory.retrieval.prepare_question(question, explained=False)
        async with self.store.begin_read() as tx:
            bank = await tx.banks.get(self.bank.id)
            assert bank is not None
            return await self.memory.contexts.build(
                tx, bank, replace(asked, text="") if viewless else asked, stable_tokens=100, fitting_tokens=500
            )

    async def close(self, *, views: int = 32, stop: bool = False, said: str = "") -> dict[str, int]:
        """Do what the end of a pass does; somebody may say something before views are made."""

        async def go_on() -> None:
            if stop:
                raise PassPreempted

        async def embed() -> None:
            await self.background.catch_up()
            if said:
                await self.said(said)

        ground = PassContext(
            store=self.store, events=self.memory.events, retrieval=self.memory.retrieval, now=self.clock.now(),
            go_on=go_on, embed=embed,
        )  # fmt: skip
        return dict(await Reindex(views=views).close(self.bank, ground))

    async def views(self, kind: ViewKind = ViewKind.QUESTION) -> Sequence[ReadyView]:
        """Return the bank's views."""
        async with self.store.begin_read() as tx:
            return [each for each in await tx.views.find_all(self.bank.id) if each.kind is kind]


@pytest.fixture
async def home(either_store: Store) -> Home:
    """A bank with nothing in it."""
    return await Home.made(either_store)


async def often(home: Home, *questions: str, **more: Any) -> None:
    """Ask each twice."""
    for question in (*questions, *questions):
        await home.find(question, **more)


async def test_what_was_asked_often_is_answered_without_an_index_and_without_the_questions_vector(home: Home) -> None:
    await home.said("Ann lives in Porto.", "Ann has a cat.")
    await often(home, "where does Ann live?")
    assert await home.close() == {"vectors": 2, "views": 1}
    embedder = FakeEmbedder()
    embedder.gate.clear()  # it never answers
    other = home.another(embedder)
    async with asyncio.timeout(60):
        found = await other.find(" where  does Ann live?", limit=2)
    assert found == (await home.find("where does Ann live?", viewless=True))[:2]
    assert found[0].scored.parts["meaning"] > 0
    embedder.gate.set()
    assert await home.close() == {}, "it is as it was"


async def everything(home: Home, draw: random.Random, episodes: list[EpisodeId], notes: list[NoteId]) -> None:
    """Change something of the bank, as any process may."""
    writer = draw.choice([home, home.another()])
    act = draw.choice(["say", "say", "note", "demote", "restore", "retire", "forget", "block", "embed", "bring"])
    one = draw.choice(episodes) if episodes else None
    word = draw.choice(["Porto", "Oslo", "tea", "a cat", "chess"])
    async with home.store.begin_read() as tx:
        bank = await tx.banks.get(home.bank.id)
    assert bank is not None
    if act == "say":
        episodes += await writer.said(
            f"Ann {draw.choice(['likes', 'left'])} {word} {draw.randrange(99)}", conversation="s"
        )
    elif act == "embed":
        await home.close(views=0)
    elif act == "block":
        async with home.store.begin_write() as tx:
            edit = BlockUpdate(value=word * draw.randrange(9))
            await writer.memory.blocks.write(tx, bank, "human", edit, writer=BlockAuthor.PERSON, by="test")
    elif act in ("retire", "bring") and notes:
        async with home.store.begin_write() as tx:
            await tx.notes.retire(draw.choice(notes), home.clock.now() if act == "retire" else None)
    elif one is not None and act == "note":
        notes.append(await writer.noted(f"Ann and {word}", one))
    elif one is not None and act in ("demote", "restore"):
        async with home.store.begin_write() as tx:
            if act == "demote":
                await writer.memory.episodes.demote(tx, bank, one, by="t", reason="r", evidence=draw.choice("abc"))
            else:
                await writer.memory.episodes.restore(tx, bank, one, evidence=draw.choice("abc"))
    elif one is not None and act == "forget":
        episodes.remove(one)
        async with home.store.begin_write() as tx:
            await forget(tx, bank, [one])
            notes[:] = [each for each in notes if await tx.notes.get(bank.id, each) is not None]


@pytest.mark.parametrize("seed", range(2))
async def test_a_search_finds_the_same_with_and_without_views_whatever_happens_between(home: Home, seed: int) -> None:
    draw = random.Random(seed)
    asked: Sequence[dict[str, Any]] = [
        {}, {"limit": 3}, {"layers": (Layer.NOTES,)}, {"conversation": "s"}, {"importance": 0.5}, {"recency": 0.5},
        {"since": home.clock.now().timestamp()},
    ]  # fmt: skip
    episodes, notes = await home.said("Ann lives in Porto.", "Ann has a cat."), list[NoteId]()
    fresh = 0
    for _ in range(50):
        for _ in range(draw.randrange(3)):
            await everything(home, draw, episodes, notes)
        if draw.random() < 0.3:
            fresh += (await home.close(views=draw.choice([1, 4]))).get("views", 0)
        question, more = draw.choice(["where is Ann?", "tea and cats", "Oslo"]), draw.choice(asked)
        with_views = await home.find(question, **more)
        assert with_views == await home.find(question, viewless=True, **more), (question, more)
        assert await home.told(question) == await home.told(question, viewless=True), question
    assert fresh > 3


async def test_a_change_by_another_process_makes_a_view_useless_at_once(home: Home) -> None:
    (one, _) = await home.said("Ann lives in Porto.", "Ann has a cat.")
    await often(home, "Porto")
    await home.close()
    assert [each.item.id for each in await home.find("Porto", limit=1)] == [one]
    (new,) = await home.another().said("Porto, Porto!")
    found = await home.find("Porto", limit=10)
    assert new in [each.item.id for each in found]
    assert await home.close() == {"vectors": 1, "views": 1}
    assert await home.find("Porto") == await home.find("Porto", viewless=True)


async def test_a_vector_that_comes_after_a_view_was_made_makes_it_useless(home: Home) -> None:
    await home.said("Ann has a cat.")
    await often(home, "1 January 2026 Ann: Porto!")
    assert await home.close(said="Porto!") == {"vectors": 1, "views": 1}
    assert await home.find("1 January 2026 Ann: Porto!") == await home.find("1 January 2026 Ann: Porto!", viewless=True)
    await home.background.catch_up()
    found = await home.find("1 January 2026 Ann: Porto!")
    assert "meaning" in found[0].scored.parts
    assert found == await home.find("1 January 2026 Ann: Porto!", viewless=True)


async def test_what_is_forgotten_takes_the_questions_with_it_also_those_that_are_not_written_yet(home: Home) -> None:
    (one,) = await home.said("My secret is 4711.")
    await often(home, "My secret is 4711.")
    await home.close()
    await often(home, "Again: my secret is 4711.")
    assert len(await home.views()) == 1
    async with home.store.begin_write() as tx:
        await forget(tx, home.bank, [one])
    assert await home.views() == []
    await home.close()
    assert await home.views() == []
    async with home.store.begin_write() as tx:
        await home.memory.banks.delete(tx, home.bank, by="test")
    await write_askings(home.store, home.memory.retrieval.askings, lambda _: POLICY)


async def test_the_most_asked_within_the_window_are_kept_ready_and_the_others_are_counted_only(home: Home) -> None:
    await home.said("Ann lives in Porto.")
    await often(home, "one", "two", "two", "three", "three")
    await home.find("once")
    await home.close(views=2)
    assert sorted(str(each.asked["text"]) for each in await home.views() if each.stamp) == ["three", "two"]
    assert sorted(str(each.asked["text"]) for each in await home.views()) == ["one", "three", "two"]
    home.clock.advance((WINDOW + timedelta(days=1)).total_seconds())
    await often(home, "four")
    await home.close(views=2)
    (four,) = await home.views()
    assert (four.asked, count_recent_askings(four, home.clock.now()), four.limit) == ({"text": "four"}, 2, 10)


async def test_only_so_many_questions_of_a_bank_are_counted_those_that_are_asked_most(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindex, "CANDIDATES", 3)
    await often(home, "question 0", "question 0")
    for at in range(1, 5):
        home.clock.advance(1)
        await often(home, f"question {at}")
    policy = SleepPolicySettings.model_validate({"views": 1})
    await write_askings(home.store, home.memory.retrieval.askings, lambda _: policy)
    found = sorted(str(each.asked["text"]) for each in await home.views())
    assert found == [f"question {at}" for at in (0, 2, 3, 4)], "four times the views"
    assert not home.memory.retrieval.askings.pending_questions()


@pytest.mark.parametrize("policy", [{"views": 0}, {"operations": {"reindex": {"enabled": False}}}, {"enabled": False}])
async def test_a_bank_that_wants_no_views_has_no_question_written(home: Home, policy: dict[str, Any]) -> None:
    await often(home, "one")
    await write_askings(home.store, home.memory.retrieval.askings, lambda _: POLICY)
    await often(home, "one")
    stated = SleepPolicySettings.model_validate(policy)
    await write_askings(home.store, home.memory.retrieval.askings, lambda _: stated)
    assert await home.views() == []


async def test_without_its_vectors_a_bank_gets_no_views_and_whoever_waits_is_not_kept(home: Home) -> None:
    await home.said("Ann lives in Porto.")
    await often(home, "Porto")
    home.embedder.error = UpstreamFailed("away")
    assert await home.close() == {}
    home.embedder.error = None
    assert await home.close(stop=True) == {"vectors": 1}
    assert await home.close() == {"views": 1}


async def test_a_subject_shows_beliefs_then_the_newest_notes_and_is_put_together_anew_with_them(home: Home) -> None:
    said = await home.said("Ann lives in Porto.", "Ann met Bob in Porto on Monday.")
    old = await home.noted("In Porto Ann lives.", *said, kind=NoteKind.CONSOLIDATION)
    belief = await home.noted("It is said that Ann likes Porto on a Monday.", *said)
    new = await home.noted("Last Monday in Porto Ann’s friend Bob came.", *said, kind=NoteKind.CONSOLIDATION)
    await home.noted("All of Bob and Bob.", *said, kind=NoteKind.SUMMARY)
    assert await home.close() == {"vectors": 6, "views": 2}
    found = {str(each.asked["text"]): each for each in await home.views(ViewKind.SUBJECT)}
    assert set(found) == {"Ann", "Porto"}
    async with home.store.begin_read() as tx:
        notes = await tx.notes.get_by_numbers(home.bank.id, [each.number for each in found["Porto"].hits])
    assert [notes[each.number].id for each in found["Porto"].hits] == [belief, new, old]
    assert await home.close() == {}
    async with home.store.begin_write() as tx:
        await tx.notes.retire(new, home.clock.now())
    assert await home.close() == {"views": 2}
    assert [len(each.hits) for each in await home.views(ViewKind.SUBJECT)] == [2, 2]


async def test_a_pass_makes_views_after_it_has_published_and_its_record_counts_them(stand: Stand) -> None:
    await stand.said("I live in Porto now.", "I have a cat called Tom.")
    tier = Tier(stand, None, does=[])
    retrieval = stand.memory.retrieval
    parts = SleepParts(
        store=stand.store,
        signals=tier.signals,
        ids=stand.ids,
        tier=tier.tier,
        operations=choose_operations,
        retrieval=retrieval,
    )
    worker = SleepWorker(stand.clock, parts, owner="exe1", alone=True)

    async def search(tx: Tx, question: Question) -> Sequence[SearchHit]:
        return await retrieval.find(tx, stand.bank, question)

    for _ in range(2):
        await retrieval.run_question(stand.store, "cat", search)
    await tier.asked(operations=("reindex",))
    await worker.step()
    (run,) = await tier.ended()
    assert (run.status, run.counts) == (PassStatus.NO_CHANGE, {"views": 1})
    assert run.detail == "there was nothing to change (made anew: views 1)"
