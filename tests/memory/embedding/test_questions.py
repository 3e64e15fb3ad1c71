"""Vectors of questions: remembered, asked for once, done without where an embedder fails or is slow."""

import asyncio
import logging

import numpy as np
import pytest

from circadia.errors import UpstreamFailed
from circadia.memory.embedding.base import normalize_vectors
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.embedding.questions import ActiveEmbedder, QuestionVectors
from circadia.testing.clock import ManualClock
from tests.memory.embedding.stand import FakeEmbedder, Stands

MAX_CHARACTERS = 2_000
REST_SECONDS = 30.0

pytestmark = pytest.mark.spec("MEM-08")


def asked_by(*embedders: FakeEmbedder, clock: ManualClock | None = None, seconds: float = 10) -> QuestionVectors:
    readings = [ActiveEmbedder(each) for each in embedders]
    return QuestionVectors(clock or ManualClock(), readings, timeout_seconds=seconds)


async def test_a_question_is_embedded_once_by_each_embedder() -> None:
    one, two = FakeEmbedder(name="one"), FakeEmbedder(name="two")
    questions = asked_by(one, two)
    first = await questions.vectors("who?")
    again = await questions.vectors("who?")
    assert set(first) == {"one", "two"}
    assert all((first[name] == again[name]).all() for name in first)
    assert (one.asked, two.asked) == ([["who?"]], [["who?"]])
    assert await questions.vectors(" \n") == {}


async def test_nobody_waits_for_vectors_that_are_known_or_quickly_made_by_each_embedder_that_is_read() -> None:
    bundled, slow = BundledEmbedder(), FakeEmbedder()
    before = ActiveEmbedder(slow)
    questions = QuestionVectors(ManualClock(), [ActiveEmbedder(bundled), before], timeout_seconds=10)
    assert questions.vectors_nowait("who?") is None, "nothing is loaded yet"
    made = await questions.vectors("who?")
    at_once = questions.vectors_nowait("who?")
    assert at_once is not None
    assert {name: vector.tolist() for name, vector in made.items()} == {
        name: vector.tolist() for name, vector in at_once.items()
    }
    assert questions.vectors_nowait("when?") is None, "one of them would have to be asked"
    before.needed = False
    (vector,) = (questions.vectors_nowait("when?") or {}).values()
    assert (vector == (await bundled.embed(["when?"], question=True))[0]).all()
    assert questions.vectors_nowait("when?\ud83d") is not None, "half a character is read as any other"
    assert questions.vectors_nowait(" \n") == {}
    assert slow.asked == [["who?"]]


async def test_equal_questions_at_the_same_time_share_an_answer_which_no_caller_takes_away() -> None:
    embedder = FakeEmbedder()
    embedder.gate.clear()
    questions = asked_by(embedder)
    callers = [asyncio.create_task(questions.vectors("who?")) for _ in range(5)]
    while not embedder.asked:
        await asyncio.sleep(0)
    callers[0].cancel()
    embedder.gate.set()
    found = await asyncio.gather(*callers[1:])
    assert all(set(each) == {"fake@1/8"} for each in found)
    assert embedder.asked == [["who?"]]


async def test_nobody_waits_for_an_embedder_that_was_too_slow_until_it_was_quick_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock, slow, quick = ManualClock(), FakeEmbedder(name="slow"), FakeEmbedder(name="quick")
    slow.gate.clear()
    questions = asked_by(slow, quick, clock=clock, seconds=0.02)
    assert set(await questions.vectors("who?")) == {"quick"}
    assert set(await questions.vectors("when?")) == {"quick"}
    assert slow.asked == [["who?"]]
    clock.advance(REST_SECONDS)
    callers = [asyncio.create_task(questions.vectors(each)) for each in ("where?", "whence?")]
    for _ in range(20):
        await asyncio.sleep(0)
    assert [set(each.result()) for each in callers] == [{"quick"}] * 2, "without waiting"
    slow.gate.set()
    while "slow" not in await questions.vectors(f"at {clock.monotonic()}"):
        clock.advance(REST_SECONDS)
        await asyncio.sleep(0)
    assert "whence?" not in slow.texts
    assert set(await questions.vectors("why?")) == {"slow", "quick"}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"], "each change is told once"


async def test_an_embedder_that_fails_is_asked_again_with_the_next_question() -> None:
    embedder = FakeEmbedder(error=UpstreamFailed("away"))
    questions = asked_by(embedder)
    assert await questions.vectors("who?") == {}
    embedder.error = None
    assert set(await questions.vectors("who?")) == {"fake@1/8"}


async def test_a_question_of_any_length_and_with_half_a_character_is_embedded() -> None:
    embedder = FakeEmbedder()
    questions = asked_by(embedder)
    assert set(await questions.vectors("\ud800" + "x" * 10_000)) == {"fake@1/8"}
    assert embedder.texts == ["?" + "x" * (MAX_CHARACTERS - 1)]
    real = QuestionVectors(ManualClock(), [ActiveEmbedder(BundledEmbedder())], timeout_seconds=10)
    assert len(await real.vectors("half a \udfff")) == 1


async def test_a_search_goes_by_words_while_the_embedder_is_slow(stands: Stands) -> None:
    embedder = FakeEmbedder()
    server = stands.stand(embedder)
    await server.remember("The puppy chewed on my slippers.")
    await server.catch_up()
    embedder.error = UpstreamFailed("away")
    found = await server.find("slippers")
    assert set(found[0].scored.parts) == {"words", "window", "statement", "weight"}


@pytest.mark.parametrize(
    "vectors",
    [
        np.zeros((2, 8)), np.zeros((1, 7)), np.zeros(8), np.full((1, 8), np.nan), np.full((1, 8), np.inf),
    ],
)  # fmt: skip
def test_vectors_that_are_not_sound_are_the_embedders_failure(vectors: "np.ndarray[tuple[int, ...]]") -> None:
    with pytest.raises(UpstreamFailed):
        normalize_vectors(vectors, 1, 8)
