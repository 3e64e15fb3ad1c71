"""Vectors that are made while nobody waits: what has none, what has another embedder's, what cannot be embedded."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pytest

from circadia.errors import UpstreamFailed
from circadia.ids import BankId
from circadia.memory.embedding.background import PLAIN, BackgroundEmbedder, BackgroundSplitter
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.columns import Array
from circadia.memory.search.retrieval import SearchHit
from circadia.records.index_entry import Layer
from tests.memory.embedding.stand import FakeEmbedder, Stands, parts

AGAIN_SECONDS = 3_600.0
AT_ONCE = 100
EVERY_SECONDS = 30.0
GATHER_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 300.0

pytestmark = pytest.mark.spec("MEM-08")


def meant(found: Sequence[SearchHit], text: str) -> bool:
    """Return whether the text was found by a vector that is just the question's."""
    return parts(found).get(text, {}).get("meaning", 0) > 0.19


@pytest.mark.spec("MEM-01", "MEM-02")
async def test_a_text_is_found_by_its_words_before_it_has_a_vector_and_by_its_meaning_after(stands: Stands) -> None:
    embedder = BundledEmbedder()
    await embedder.embed([PLAIN])  # loads it, which no question waits for on a slow machine
    server = stands.stand(embedder)
    await server.remember("The puppy chewed on my slippers.", "Taxes are due in spring.")
    assert list(parts(await server.find("slippers"))) == ["The puppy chewed on my slippers."]
    assert await server.find("dogs ruin shoes") == []
    await server.catch_up()
    found = await server.find("dogs ruin shoes")
    assert found[0].item.text == "The puppy chewed on my slippers."
    assert found[0].scored.parts["meaning"] > 0
    assert "words" not in found[0].scored.parts


async def test_notes_get_vectors_too(stands: Stands) -> None:
    server = stands.stand(FakeEmbedder())
    await server.note("Ann loves trains.")
    await server.catch_up()
    found = await server.find("Ann loves trains.")
    assert found[0].scored.layer is Layer.NOTES
    assert found[0].scored.parts["meaning"] == pytest.approx(0.2, abs=0.01)


@pytest.mark.spec("MEM-01")
async def test_what_is_remembered_is_embedded_a_moment_later_together(stands: Stands) -> None:
    embedder = FakeEmbedder()
    server = stands.stand(embedder)
    async with server.running():
        began = stands.clock.monotonic()
        await server.remember("one")
        await server.remember("two")
        for _ in range(100):
            stands.clock.advance(GATHER_SECONDS)
            await asyncio.sleep(0)
        while None in await server.embedders():
            await asyncio.sleep(0)
        assert stands.clock.monotonic() - began < EVERY_SECONDS
    assert [len(texts) for texts in embedder.asked] == [2]
    assert embedder.texts[0].endswith("Ann: one")


async def test_what_another_server_took_in_is_found_within_half_a_minute(stands: Stands) -> None:
    server = stands.stand(FakeEmbedder())
    async with server.running():
        await stands.stand(None).remember("from elsewhere")
        await server.pass_on(EVERY_SECONDS)
        assert await server.embedders() == ["fake@1/8"]


async def test_a_long_backlog_is_embedded_in_batches(stands: Stands) -> None:
    embedder = FakeEmbedder()
    server = stands.stand(embedder)
    await server.remember(*(f"text {number}" for number in range(2 * AT_ONCE + 1)))
    await server.catch_up()
    assert [len(texts) for texts in embedder.asked] == [AT_ONCE, AT_ONCE, 1]
    assert set(await server.embedders()) == {"fake@1/8"}


async def test_another_embedder_makes_the_vectors_anew_and_both_are_read_until_then(stands: Stands) -> None:
    old, new = FakeEmbedder(name="old@1/8"), FakeEmbedder(name="new@1/8")
    texts = [f"text {number}" for number in range(AT_ONCE + 1)]
    before = stands.stand(old)
    await before.remember(*texts)
    await before.remember("other", bank="bob")
    await before.catch_up()
    server = stands.stand(new, old)
    new.error = UpstreamFailed("away")
    assert meant(await server.find("1 January 2026 Ann: text 7"), "text 7"), "by the old one"
    with pytest.raises(UpstreamFailed):
        await server.catch_up()
    new.error = None
    await server.remember("newer")
    assert meant(await server.find("1 January 2026 Ann: text 8"), "text 8"), "still by the old one"
    generations = {name: (await server.bank(name)).generation for name in ("ann", "bob")}
    await server.catch_up()
    assert set(await server.embedders()) == {"new@1/8"}
    asked = len(old.asked)
    assert meant(await server.find("1 January 2026 Ann: text 9"), "text 9"), "by the new one"
    assert len(old.asked) == asked, "the old one is not asked any more"
    after = {name: (await server.bank(name)).generation for name in ("ann", "bob")}
    assert after == {name: generation + 1 for name, generation in generations.items()}


@dataclass(kw_only=True)
class Dying(FakeEmbedder):
    """Embeds so many times, and then nothing any more."""

    times: int

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        if not self.times:
            raise UpstreamFailed("dead", retry_after_seconds=1)
        self.times -= 1
        return await super().embed(texts, question=question)


async def test_who_dies_while_vectors_are_made_anew_leaves_no_index_with_old_ones(stands: Stands) -> None:
    before = stands.stand(FakeEmbedder(name="old@1/8"))
    await before.remember(*(f"text {number}" for number in range(AT_ONCE - 1)))
    await before.remember(*(f"text {number}" for number in range(AT_ONCE)), bank="bob")
    await before.catch_up()
    with pytest.raises(UpstreamFailed):
        await stands.stand(Dying(name="new@1/8", times=1)).catch_up()
    assert set((await before.embedders())[: AT_ONCE - 1]) == {"new@1/8"}
    assert [(await before.bank(name)).generation for name in ("ann", "bob")] == [1, 0], "bob has more to come"
    await stands.stand(FakeEmbedder(name="new@1/8")).catch_up()
    assert [(await before.bank(name)).generation for name in ("ann", "bob")] == [1, 1]


async def test_a_server_loads_its_embedder_when_it_starts_if_there_may_be_questions(stands: Stands) -> None:
    first, second = FakeEmbedder(), FakeEmbedder()
    async with stands.stand(first).running():
        assert first.asked == [], "there is no bank"
    await stands.stand(None).remember("one")
    async with stands.stand(second).running():
        assert second.asked[0] == [PLAIN]


async def test_new_texts_do_not_make_an_index_load_anew(stands: Stands) -> None:
    server = stands.stand(FakeEmbedder())
    await server.remember("one")
    await server.catch_up()
    assert (await server.bank()).generation == 0


async def test_a_text_that_is_refused_keeps_no_other_from_its_vector_and_is_tried_again_after_an_hour(
    stands: Stands, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = FakeEmbedder(refused="bad")
    server = stands.stand(embedder)
    await server.remember(*(f"text {number}" for number in range(30)), "bad one", *(f"more {n}" for n in range(69)))
    await server.catch_up()
    assert (await server.embedders()).count(None) == 1
    assert caplog.text.count("refuses 1 of 100 texts") == 1
    await server.remember("later")
    embedder.asked.clear()
    await server.catch_up()
    assert [text.partition(": ")[2] for text in embedder.texts] == ["later"]
    embedder.refused = None
    stands.clock.advance(AGAIN_SECONDS)
    await server.catch_up()
    assert None not in await server.embedders()


async def test_a_refused_text_keeps_its_old_vector_which_is_still_read(stands: Stands) -> None:
    old, new = FakeEmbedder(name="old@1/8"), FakeEmbedder(name="new@1/8", refused="bad")
    before = stands.stand(old)
    await before.remember("bad one", "good one")
    await before.catch_up()
    server = stands.stand(new, old)
    await server.catch_up()
    assert await server.embedders() == ["old@1/8", "new@1/8"]
    assert meant(await server.find("1 January 2026 Ann: bad one"), "bad one")


async def test_an_embedder_that_fails_is_asked_ever_more_seldom_and_told_of_once(
    stands: Stands, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    embedder = FakeEmbedder(error=UpstreamFailed("the embedder is away"))
    server = stands.stand(embedder)
    await server.remember("one", "two")
    async with server.running():
        for pause in (1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS):
            asked = len(embedder.asked)
            await server.remember(f"at {stands.clock.monotonic()}")  # hurries nobody
            await server.pass_on(pause - 0.01)
            assert len(embedder.asked) == asked
            await server.pass_on(0.01)
            assert len(embedder.asked) == asked + 2, "the texts, and one that no embedder refuses"
            assert embedder.asked[-1] == [PLAIN]
        assert caplog.text.count("the embedder is away") == 1
        embedder.error = None
        await server.pass_on(LONGEST_PAUSE_SECONDS)
    assert None not in await server.embedders()
    assert caplog.text.count("texts are embedded again") == 1


async def test_an_embedder_that_asks_for_less_is_left_alone_for_so_long(stands: Stands) -> None:
    embedder = FakeEmbedder(error=UpstreamFailed("too many requests", retry_after_seconds=40))
    server = stands.stand(embedder)
    await server.remember("one", "two")
    async with server.running():
        assert [len(texts) for texts in embedder.asked] == [1, 2], "its texts are not tried one by one"
        embedder.error = None
        await server.pass_on(39)
        assert await server.embedders() == [None, None]
        await server.pass_on(1)
        assert await server.embedders() == ["fake@1/8", "fake@1/8"]


async def test_servers_with_different_embedders_do_not_undo_each_others_work_for_ever(stands: Stands) -> None:
    one, two = FakeEmbedder(name="one@1/8"), FakeEmbedder(name="two@1/8")
    first, second = stands.stand(one), stands.stand(two)
    await first.remember("text")
    for _ in range(5):
        await first.catch_up()
        await second.catch_up()
        stands.clock.advance(EVERY_SECONDS)
    assert (len(one.asked), len(two.asked)) == (1, 1)


async def test_without_an_embedder_searches_go_by_words(stands: Stands) -> None:
    server = stands.stand(None)
    await server.remember("The puppy chewed on my slippers.")
    found = parts(await server.find("slippers"))["The puppy chewed on my slippers."]
    assert set(found) == {"words", "window", "statement", "weight"}


async def test_of_which_banks_something_was_embedded_is_told_once_it_is_written(stands: Stands) -> None:
    told = list[set[str]]()

    async def taken_in(banks: Collection[BankId]) -> None:
        assert None not in await server.embedders()
        told.append({name for name in ("ann", "bob") if (await server.bank(name)).id in banks})

    server = stands.stand(FakeEmbedder())
    background = BackgroundEmbedder(stands.clock, server.store, server.signals, FakeEmbedder(), taken_in=taken_in)
    await server.remember(*(f"text {number}" for number in range(AT_ONCE + 1)))
    await server.remember("other", bank="bob")
    await background.catch_up()
    await background.catch_up()
    await server.remember("more")
    await background.catch_up()
    assert told == [{"ann", "bob"}, {"ann"}]


@pytest.mark.spec("MEM-30")
async def test_a_long_text_has_a_vector_for_each_passage(stands: Stands) -> None:
    embedder = FakeEmbedder()
    server = stands.stand(embedder)
    await server.remember("One sentence of many. " * 100)
    await server.find("anything")
    embedder.asked.clear()
    await server.catch_up()
    assert [len(text) > 300 for text in embedder.texts] == [True] * 4
    asked = embedder.texts[2]
    for reader in (server, stands.stand(embedder)):
        hit = next(hit for hit in await reader.find(asked) if hit.scored.parts.get("meaning", 0) > 0.19)
        assert hit.scored.passage == 3


@pytest.mark.spec("MEM-30")
@pytest.mark.parametrize("embedded", [True, False])
async def test_texts_of_an_older_release_are_split_in_the_background_and_found_as_one_until_then(
    stands: Stands, embedded: bool
) -> None:
    embedder = FakeEmbedder()
    server = stands.stand(embedder if embedded else None)
    await server.remember("One sentence of many. " * 100, "A short one. ", bank="ann")
    await server.join_passages(embedder if embedded else None)
    before = (await server.find("sentence of many"))[0]
    assert before.scored.passage == 0
    assert meant(await server.find(f"1 January 2026 Ann: {before.item.text}"), before.item.text) is embedded
    if server.background is not None:
        await server.catch_up()
    else:
        await BackgroundSplitter(stands.clock, server.store).catch_up()
    for reader in (server, stands.stand(embedder if embedded else None)):
        found = await reader.find("sentence of many")
        assert sorted(hit.scored.passage for hit in found if len(hit.item.text) > 600) == [1, 2, 3, 4]
        if embedded:
            (hit,) = [hit for hit in await reader.find(embedder.texts[-1]) if hit.scored.parts.get("meaning", 0) > 0.19]
            assert hit.scored.passage == 4
    assert (await server.bank()).generation == 1
    embedder.asked.clear()
    stands.clock.advance(AGAIN_SECONDS)
    if server.background is not None:
        await server.catch_up()
        assert embedder.texts == [], "all is done"


@pytest.mark.spec("MEM-30")
async def test_a_whole_library_is_embedded_some_passages_at_once(stands: Stands) -> None:
    embedder = FakeEmbedder()
    server = stands.stand(embedder)
    await server.remember(*(f"Book {number}. " + "One sentence of many. " * 1_000 for number in range(13)))
    await server.catch_up()
    assert None not in await server.embedders()
    assert 100 < max(map(len, embedder.asked)) < 450
