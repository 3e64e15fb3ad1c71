"""Precompute: expected questions are answered ahead as the agent itself would, within the rules of passes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from circadia.memory.answers.lookup import Outcome
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.records.sleep_pass import PassStatus
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite
from tests.fixtures.database_file import put_database
from tests.sleeptime.answers_stand import CAT, HOME, JOB, Hall, expecting, hall, sent, tier_mind

pytestmark = pytest.mark.spec("SLEEP-28")


@pytest.fixture(scope="module")
def embedder() -> BundledEmbedder:
    """The words that come with the package, loaded once."""
    return BundledEmbedder()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database of the test's own; none for SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
async def both(url: str | None, tmp_path: Path, embedder: BundledEmbedder) -> AsyncIterator[Hall]:
    """A hall on each database."""
    store = await (open_sqlite(put_database(tmp_path)) if url is None else open_postgres(url))
    async with hall(store, embedder, "She lives in Porto.") as made:
        yield made
    await store.close()


@pytest.mark.spec("ANS-01")
async def test_what_is_expected_is_answered_by_the_agents_own_call_and_found(both: Hall) -> None:
    await both.said("I moved last year.")
    frame = await both.seen(tools=[{"type": "function", "function": {"name": "look", "parameters": {}}}])
    phrasings = [HOME, "In which city does Ann live?"]
    mind = tier_mind(expecting(phrasings, CAT))
    outcome = await both.run(mind)
    assert (outcome.status, outcome.run.counts) == (PassStatus.NO_CHANGE, {"answers": 2})
    first, second = await both.ready()
    assert (first.phrasings, second.phrasings) == (phrasings, [CAT])
    assert (first.text, first.confidence, first.scope) == ("She lives in Porto.", 0.8, frame.scope)
    assert first.rests.shown == ["ann"]
    body, _ = sent(both.up)
    assert body["messages"][-1]["role"] == "user"
    assert body["messages"][-1]["content"].startswith(HOME)
    assert "Ann lives in Porto." in body["messages"][0]["content"], "with what the bank says to it"
    assert body["tools"][0]["function"]["name"] == "look"
    for question in ("where does ann live", "In which city does Ann live?"):
        found = await both.found(frame, question)
        assert (found.outcome, found.answer and found.answer.id) == (Outcome.HIT, first.id)
