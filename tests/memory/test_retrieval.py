"""Searches of banks: what was committed is found, on both databases alike, while others write, delete and search."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from circadia.ids import EpisodeId
from circadia.memory.episodes import NewEpisode
from circadia.memory.forgetting import forget
from circadia.memory.search import retrieval
from circadia.memory.search.question import Question
from circadia.memory.search.terms import question_terms
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind
from circadia.records.index_entry import Layer
from circadia.stores.postgres import open_postgres
from circadia.stores.sql import banks
from circadia.stores.sqlite import open_sqlite
from tests.fixtures.database_file import put_database
from tests.memory.interrupted import Interrupted
from tests.memory.world import EMBEDDER, World, vector


@pytest.mark.spec("MEM-02")
async def test_what_was_remembered_is_found_by_the_next_search_by_words_and_later_by_its_vector(world: World) -> None:
    world.questions.by_question["feline"] = {EMBEDDER: vector("the cat sat down")}
    assert await world.texts("cat") == []
    made = await world.remember("the cat sat down")
    assert await world.texts("cats sitting") == ["the cat sat down"]
    assert await world.texts("feline") == []
    async with world.store.begin_read() as tx:
        number = (await world.episodes.get(tx, world.bank, made.episode.id)).number
    await world.embed({number: "the cat sat down"})
    assert await world.texts("feline") == ["the cat sat down"]
    (hit,) = await world.find("feline")
    assert hit.scored.parts == {"meaning": 0.2, "statement": 0.16, "weight": 1.0}


@pytest.mark.spec("MEM-02")
async def test_what_comes_in_any_order_of_texts_and_vectors_is_found_by_the_search_after_it(world: World) -> None:
    world.questions.by_question["far"] = {EMBEDDER: vector("0")}
    numbers: list[int] = []
    for at in range(12):
        await world.remember(f"episode {at}")
        async with world.store.begin_read() as tx:
            numbers = [each.number for each in await tx.episodes.find_all(world.bank.id)]
        if at % 3 == 1:  # with a search between the row and its vector, and without one
            assert len(await world.texts("episode", limit=20)) == at + 1
        if at % 2:
            await world.embed({numbers[at - 1]: "0"})
        assert len(await world.texts("far", limit=20)) == (at + 1) // 2
    late = numbers[1::2]
    for done, number in enumerate(late, 1):
        await world.embed({number: "0"})
        assert len(await world.texts("far", limit=20)) == 6 + done


@pytest.mark.spec("MEM-02")
async def test_a_bank_read_once_in_a_transaction_shows_that_state_and_the_next_one_what_came_since(
    world: World,
) -> None:
    asked = await world.retrieval.prepare_question("episode")
    await world.remember("episode 0")
    async with world.store.begin_read() as tx:
        bank = await tx.banks.get_by_name("ann")
        assert bank is not None
        await world.remember("episode 1")
        for _ in range(2):
            assert len(await world.retrieval.find(tx, bank, asked)) == 1
    assert len(await world.find("episode")) == 2
    async with world.store.begin_write() as tx:  # here the bank is read before what is written
        bank = await world.banks.get(tx, "ann")
        new = NewEpisode(text="episode 2", speaker="Ann", trust=Trust.PERSON)
        await world.episodes.remember(tx, bank, new)
        assert len(await world.retrieval.find(tx, bank, asked)) == 3


@pytest.mark.spec("MEM-05")
async def test_each_filter_leaves_out_the_others_and_what_they_would_lend_to_their_neighbours(world: World) -> None:
    at = world.clock.now()
    world.clock.advance(3600)
    await world.remember("where does the whale live?", conversation="s", speaker="Bob", at=at, trust=Trust.TOOL)
    await world.remember("in the sea", conversation="s", kind=EpisodeKind.FACT)
    asked = "whale"
    assert await world.texts(asked) == ["in the sea", "where does the whale live?"]
    assert await world.texts(asked, speaker="Ann") == []
    assert await world.texts(asked, speaker="Bob") == ["where does the whale live?"]
    assert await world.texts(asked, kinds=("fact",)) == []
    assert await world.texts(asked, trusts=("person",)) == []
    assert await world.texts(asked, trusts=("tool", "person")) == ["in the sea", "where does the whale live?"]
    since = at.timestamp() + 1
    assert await world.texts(asked, since=since) == []
    assert await world.texts(asked, until=since) == ["where does the whale live?"]
    assert await world.texts("sea", since=since) == ["in the sea"]
    assert await world.texts("sea", conversation="s", limit=1) == ["in the sea"]
    assert await world.texts("sea", conversation="t") == []


@pytest.mark.spec("MEM-05")
async def test_notes_and_episodes_are_searched_together_or_apart_and_retired_notes_are_not(world: World) -> None:
    made = [(await world.remember(text)).episode.id for text in ("Ann bought tea", "Ann sold tea")]
    note = await world.note("Ann trades in tea", made)
    assert len(await world.texts("tea")) == 3
    assert await world.texts("tea", layers=(Layer.NOTES,)) == ["Ann trades in tea"]
    assert len(await world.texts("tea", layers=(Layer.EPISODES,))) == 2
    async with world.store.begin_write() as tx:
        await tx.notes.retire(note, world.clock.now())
        await tx.banks.bump_generation(world.bank.id)
    assert await world.texts("tea", layers=(Layer.NOTES,)) == []


@pytest.mark.spec("MEM-32")
async def test_a_note_that_held_then_takes_the_place_that_it_would_have_had(world: World) -> None:
    """A search among what is retired says nothing about how well it fits beside the rest."""
    texts = ("Ann bought green tea in Porto", "Ann sold black tea in Faro", "Bo has a boat", "the boat of Bo is red")
    made = [(await world.remember(text)).episode.id for text in texts]
    fits, fits_less = await world.note("Ann drank green tea in Porto", made), await world.note("Bo is in Porto", made)
    then = world.clock.now()
    asked = "Where did Ann buy green tea in Porto?"
    whole = [each.text for each in await world.find(asked)]
    world.clock.advance(60)
    async with world.store.begin_write() as tx:
        for note in (fits, fits_less):
            await tx.notes.retire(note, world.clock.now(), valid_to=world.clock.now())
        await tx.banks.bump_generation(world.bank.id)
    question = await world.retrieval.prepare_question(asked, as_of=then)
    found = await world.find_asked(question)
    assert ([each.text for each in found], found[1].item.id) == (whole, fits)
    assert [each.text for each in await world.find_asked(replace(question, limit=2))] == whole[:2]
    assert await world.find_asked(replace(question, layers=(Layer.NOTES,), speaker="ann")) == []
    assert len(await world.find_asked(replace(question, layers=(Layer.EPISODES,)))) == len(texts)
    for each in found:
        parts = dict(each.scored.parts)
        weight = parts.pop("weight")
        assert each.scored.score == pytest.approx(weight * sum(parts.values()), abs=1e-3)


@pytest.mark.spec("MEM-03", "MEM-05")
async def test_a_demotion_lowers_a_hit_until_it_is_taken_back_and_says_so(world: World) -> None:
    first = await world.remember("Ann lives in Oslo")
    await world.remember("Bo lives in Oslo", speaker="Bo")
    async with world.store.begin_write() as tx:
        assert await world.episodes.demote(tx, world.bank, first.episode.id, by="p", reason="moved", evidence="e")
        assert not await world.episodes.demote(tx, world.bank, first.episode.id, by="p", reason="moved", evidence="e")
    found = await world.find("Oslo")
    assert [each.scored.parts["weight"] for each in found] == [1.0, 0.3]
    async with world.store.begin_write() as tx:
        assert await world.episodes.restore(tx, world.bank, first.episode.id, evidence="e")
    assert [each.scored.parts["weight"] for each in await world.find("Oslo")] == [1.0, 1.0]
    async with world.store.begin_read() as tx:
        bank = await tx.banks.get(world.bank.id)
    assert bank is not None
    assert (bank.generation, bank.demotions) == (0, 2), "its index is weighed anew, not made anew"


@pytest.mark.spec("MEM-03")
async def test_what_was_forgotten_is_not_found_and_what_comes_after_it_is(world: World) -> None:
    for round_ in range(3):  # the last row goes each time: its number must not stand for another row
        made = await world.remember(f"secret {round_}")
        assert await world.texts("secret") == [f"secret {round_}"]
        async with world.store.begin_write() as tx:
            await forget(tx, world.bank, [made.episode.id])
            kept = await world.episodes.remember(tx, world.bank, _new(f"harmless {round_}"))
        assert await world.texts("secret") == []
        assert await world.texts(f"harmless {round_}", limit=1) == [f"harmless {round_}"]
        async with world.store.begin_read() as tx:
            (number,) = [each.number for each in await tx.episodes.find_all(world.bank.id, newest_first=True, limit=1)]
            assert (await tx.episodes.get_by_numbers(world.bank.id, [number]))[number].id == kept.episode.id


@pytest.mark.spec("MEM-03")
async def test_the_number_of_a_forgotten_episode_is_never_given_again(world: World) -> None:
    made = await world.remember("one")
    async with world.store.begin_write() as tx:
        number = (await world.episodes.get(tx, world.bank, made.episode.id)).number
        await forget(tx, world.bank, [made.episode.id])
    again = await world.remember("two")
    async with world.store.begin_read() as tx:
        assert (await world.episodes.get(tx, world.bank, again.episode.id)).number > number


async def test_a_search_in_an_older_state_harms_no_later_one(world: World) -> None:
    gone = await world.remember("old cat")
    async with world.store.begin_read() as older:
        before = await older.banks.get(world.bank.id)
        assert before is not None
        async with world.store.begin_write() as tx:
            await forget(tx, world.bank, [gone.episode.id])
        await world.remember("new cat")
        asked = await world.retrieval.prepare_question("cat")
        assert [each.item.text for each in await world.retrieval.find(older, before, asked)] == ["old cat"]
        assert await world.texts("cat") == ["new cat"]
        assert "new cat" not in [each.item.text for each in await world.retrieval.find(older, before, asked)]
        assert await world.texts("cat") == ["new cat"]


@pytest.mark.spec("MEM-12")
async def test_no_search_finds_what_is_in_another_bank(world: World) -> None:
    other = await world.add_bank("bob")
    await world.remember("the cat of Ann")
    await world.remember("the cat of Bob", bank=other)
    assert await world.texts("cat") == ["the cat of Ann"]
    assert await world.texts("cat", bank=other) == ["the cat of Bob"]


@pytest.mark.spec("MEM-02")
async def test_searches_of_one_bank_at_once_and_a_caller_who_goes_away_spoil_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "ROWS_FOR_THREAD", 0)
    await world.remember("cat 0")
    terms = Interrupted(question_terms("cat"))
    first = asyncio.create_task(world.find_asked(Question(terms=terms)))
    await asyncio.to_thread(terms.reached.wait)
    await world.remember("cat 1")
    second = asyncio.create_task(world.texts("cat"))
    first.cancel()
    terms.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert set(await second) == {"cat 0", "cat 1"}
    found = await asyncio.gather(*(world.texts("cat") for _ in range(4)), world.remember("cat 2"))
    assert all({"cat 0", "cat 1"} <= set(texts) for texts in found[:4] if isinstance(texts, list))
    assert set(await world.texts("cat")) == {"cat 0", "cat 1", "cat 2"}


@pytest.mark.spec("MEM-02")
async def test_each_of_eight_writers_finds_at_once_what_it_wrote(world: World) -> None:
    async def write(writer: int) -> None:
        for at in range(10):
            made = await world.remember(f"word{writer}x{at} of a writer", conversation=f"s{writer}")
            found = await world.find(f"word{writer}x{at}", limit=3)
            assert made.episode.id in {each.item.id for each in found}

    await asyncio.gather(*(write(writer) for writer in range(8)))
    async with world.store.begin_read() as tx:
        assert await tx.episodes.count(world.bank.id) == 80


@pytest.mark.spec("MEM-05")
async def test_both_databases_find_the_same_with_the_same_scores(tmp_path: Path, postgres_url: str) -> None:
    stores = [await open_sqlite(put_database(tmp_path)), await open_postgres(postgres_url)]
    told: list[list[tuple[str, float, object]]] = []
    for store in stores:
        world = await World.made(store)
        ids: list[EpisodeId] = []
        for at in range(60):
            text = f"{'who' if at % 7 else 'what'} saw animal{at % 5} near river{at % 3}{'?' if at % 4 == 0 else ''}"
            made = await world.remember(
                f"{text} day{at}", conversation=f"s{at % 2}", speaker=("Ann", "Bo")[at % 3 == 0], importance=at / 100
            )
            ids.append(made.episode.id)
            world.clock.advance(3600)
        await world.note("animal1 lives near river2", ids[:2])
        async with store.begin_write() as tx:
            await world.episodes.demote(tx, world.bank, ids[6], by="p", reason="r", evidence="e")
            numbers = [each.number for each in await tx.episodes.find_all(world.bank.id)]
        await world.embed({number: str(at % 9) for at, number in enumerate(numbers) if at % 2})
        world.questions.by_question["did Bo see animal1 near river2"] = {EMBEDDER: vector("4")}
        found = await world.find("did Bo see animal1 near river2", limit=30, recency=0.2, importance=0.1)
        told.append([(each.item.text, round(each.scored.score, 5), each.scored.parts) for each in found])
    assert told[0] == told[1]
    assert len(told[0]) == 30
    for store in stores:
        await store.close()


async def test_a_bank_that_was_deleted_and_made_again_starts_empty(world: World) -> None:
    await world.remember("cat")
    assert await world.texts("cat") == ["cat"]
    async with world.store.begin_write() as tx:
        await world.banks.delete(tx, world.bank, by="operator")
    again = await world.add_bank("ann")
    assert await world.texts("cat", bank=again) == []
    asked = replace(await world.retrieval.prepare_question("cat"), limit=1)
    async with world.store.begin_read() as tx:
        assert await world.retrieval.find(tx, world.bank, asked) == []


def _new(text: str) -> NewEpisode:
    return NewEpisode(text=text, speaker="Ann", trust=Trust.PERSON)


async def test_looks_of_one_transaction_find_what_each_finds_and_read_what_is_new_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("the cat sat down", "a dog ran off", "the cat and the dog"):
        await world.remember(text)
    asked = [Question(terms=question_terms(each), explained=False) for each in ("cat", "dog", "nothing of it")]
    async with world.store.begin_read() as tx:
        bank = await tx.banks.get(world.bank.id)
        assert bank is not None
        alone = [(await world.retrieval.read_bank(tx, bank, each)).scored for each in asked]
        await world.remember("another cat")  # later than the transaction
        read, news = list[object](), type(tx.banks).fetch_index_delta

        async def counted(self: Any, *args: Any, **more: Any) -> Any:
            read.append(args)
            return await news(self, *args, **more)

        monkeypatch.setattr(type(tx.banks), "fetch_index_delta", counted)
        assert [each async for each in world.retrieval.find_each(tx, bank, asked)] == alone
    assert len(read) == 1
    assert [len(each) for each in alone] == [2, 2, 0]


@pytest.mark.spec("MEM-02")
async def test_what_is_new_of_a_bank_that_was_searched_is_taken_in_before_its_next_search(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, news = list[object](), banks.fetch_delta

    def counted(*args: Any) -> Any:
        read.append(args)
        return news(*args)

    monkeypatch.setattr(banks, "fetch_delta", counted)

    async def reads(work: Awaitable[object]) -> int:
        before = len(read)
        await work
        return len(read) - before

    other = await world.add_bank("bob")
    await world.remember("a cat")
    both = [world.bank.id, other.id]
    assert await reads(world.retrieval.keep_up(world.store, both)) == 0, "nobody has searched them"
    await world.find("cat")
    made = await world.remember("a cat and a dog")
    async with world.store.begin_read() as tx:
        number = (await world.episodes.get(tx, world.bank, made.episode.id)).number
    await world.embed({number: "a cat and a dog"})
    world.questions.by_question["feline"] = {EMBEDDER: vector("a cat and a dog")}
    assert await reads(world.retrieval.keep_up(world.store, both)) == 1
    assert await reads(world.find("cat")) == 0
    assert await world.texts("feline") == ["a cat and a dog"]
    await world.retrieval.keep_up(world.store, both)
    await world.remember("a third cat")
    assert await reads(world.retrieval.keep_up(world.store, both)) == 0, "it was not searched since"
    assert await world.texts("third") == ["a third cat"]
    async with world.store.begin_write() as tx:
        await forget(tx, world.bank, [made.episode.id])
    await world.retrieval.keep_up(world.store, both)
    assert sorted(await world.texts("cat")) == ["a cat", "a third cat"]


@pytest.mark.spec("MEM-02", "LARGE-03")
async def test_a_bank_whose_newest_note_is_retired_is_not_read_again_at_each_search(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, news = list[object](), banks.fetch_delta

    def counted(*args: Any) -> Any:
        read.append(args)
        return news(*args)

    made = await world.remember("a cat")
    note = await world.note("the cat is old", [made.episode.id])
    async with world.store.begin_write() as tx:
        await tx.notes.retire(note, world.clock.now())
    await world.find("cat")
    monkeypatch.setattr(banks, "fetch_delta", counted)
    assert [await world.texts("cat") for _ in range(2)] == [["a cat"]] * 2
    assert not read
    await world.remember("a third cat")
    assert sorted(await world.texts("cat")) == ["a cat", "a third cat"]


@pytest.mark.spec("MEM-32")
@pytest.mark.parametrize(
    "question",
    [
        "What did we do with the boat last week?",
        "Was haben wir letzte Woche mit dem boat gemacht?",
        "Qu'avons-nous fait du boat la semaine dernière ?",
        "¿Qué hicimos con el boat la semana pasada?",
        "上周我们对boat做了什么？",
        "先週boatで何をした？",
        "ماذا فعلنا بـ boat الأسبوع الماضي؟",
    ],
)
async def test_days_that_a_question_names_weigh_and_do_not_filter(world: World, question: str) -> None:
    """The clock of the world says 1 January 2026, a Thursday."""
    said = {"The boat was painted.": 24, "The boat was sold to Lund.": 10, "Nothing else happened.": 23}
    for text, day in said.items():
        await world.remember(text, at=datetime(2025, 12, day, 12, tzinfo=UTC))
    found = [hit.text for hit in await world.find(question)]
    assert found[0] == "The boat was painted."
    assert set(found) == set(said), "the others are found behind it"
    hits = await world.find(question)
    assert hits[0].scored.parts["days"] == 0.4
    assert "days" not in hits[[hit.text for hit in hits].index("The boat was sold to Lund.")].scored.parts


@pytest.mark.spec("MEM-32")
async def test_today_and_what_is_to_come_name_no_days_of_memory(world: World) -> None:
    await world.remember("The boat was painted.", at=world.clock.now())
    for question in ("Where is the boat today?", "Where will the boat be next week?"):
        (hit,) = await world.find(question)
        assert "days" not in hit.scored.parts
