"""Reindex: a pass waits for missing vectors, and its record counts them."""

import pytest

from circadia.errors import UpstreamFailed
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.records.sleep_pass import PassStatus
from circadia.sleeptime.budget.model_calls import PassPreempted
from circadia.sleeptime.engine.pass_runner import SleepContext
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.operations.registry import choose_operations
from circadia.sleeptime.operations.reindex import Reindex
from circadia.sleeptime.proposals.operation import PassContext
from circadia.stores.signals.local import LocalSignals
from tests.memory.embedding.stand import FakeEmbedder
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier

pytestmark = pytest.mark.spec("SLEEP-26")


async def close(stand: Stand, embedder: FakeEmbedder, *, stop: bool = False) -> dict[str, int]:
    """Do what the end of a pass does."""

    async def go_on() -> None:
        if stop:
            raise PassPreempted

    background = BackgroundEmbedder(stand.clock, stand.store, LocalSignals(), embedder)
    context = PassContext(store=stand.store, yield_to_calls=go_on, embed=background.catch_up)
    return dict(await Reindex().close(stand.bank, context))


async def test_vectors_are_there_when_a_pass_ends_and_an_embedder_that_is_away_stops_none(stand: Stand) -> None:
    await stand.said("Ann lives in Porto.", "Ann has a cat.")
    embedder = FakeEmbedder()
    embedder.error = UpstreamFailed("away")
    assert await close(stand, embedder) == {}
    embedder.error = None
    assert await close(stand, embedder, stop=True) == {"vectors": 2}
    assert await close(stand, embedder) == {}


async def test_the_record_of_a_pass_counts_the_vectors_that_it_waited_for(stand: Stand) -> None:
    await stand.said("I live in Porto now.", "I have a cat called Tom.")
    tier = Tier(stand, None, does=[])
    parts = SleepContext(
        store=stand.store,
        signals=tier.signals,
        ids=stand.ids,
        sleeptime=tier.tier,
        operations=choose_operations,
        retrieval=stand.memory.retrieval,
        embed=BackgroundEmbedder(stand.clock, stand.store, LocalSignals(), FakeEmbedder()).catch_up,
    )
    worker = SleepWorker(stand.clock, parts, owner="exe1", alone=True)
    await tier.asked(operations=("reindex",))
    await worker.step()
    (run,) = await tier.ended()
    assert (run.status, run.counts) == (PassStatus.NO_CHANGE, {"vectors": 2})
    assert run.detail == "there was nothing to change (made anew: vectors 2)"
