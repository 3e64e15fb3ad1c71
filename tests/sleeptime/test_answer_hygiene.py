"""What is void or over goes, also where no model answers and where no pass runs."""

import pytest

from circadia.answers import cleanup
from circadia.records.answer import DropReason
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.operations.precompute import Precompute
from circadia.sleeptime.proposals.operation import PassContext
from tests.sleeptime.answers_stand import CAT, HOME, JOB, Hall, expecting, tier_mind


@pytest.mark.spec("ANS-04")
async def test_what_is_void_is_dropped_also_while_no_model_answers(one: Hall) -> None:
    await one.said("I moved last year.")
    await one.seen()
    await one.run(tier_mind(expecting(HOME, CAT)))
    await one.write_block("Ann lives in Faro.")
    run = await one.begun()
    ground = PassContext(
        store=one.store, yield_to_calls=_going, run=run, answer_services=one.readying()
    )  # fmt: skip
    assert await Precompute().close(one.bank, ground) == {"answers_dropped": 2}
    assert await one.questions() == []


async def _going() -> None:
    """Nobody waits."""


@pytest.mark.spec("ANS-05", "ANS-08")
async def test_what_is_over_goes_in_each_bank_also_where_no_pass_runs(
    one: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "PAGE", 2)
    await one.said("I moved last year.")
    await one.seen()
    await one.run(tier_mind(expecting(HOME, CAT, JOB)))
    made = await one.ready()
    await one.used(made[0], HOME)
    worker = worker_of(one)
    await worker.step()
    assert len(await one.ready()) == 3
    one.clock.advance(24 * 3600)
    await worker.step()
    assert await one.ready() == []
    async with one.store.begin_read() as tx:
        gone = [await tx.answers.get(one.bank.id, each.id) for each in made]
        changes = await tx.answers.find_changed(one.bank.id, after=made[-1].revision)
    assert [each and (each.dropped, each.text) for each in gone] == 3 * [(DropReason.EXPIRED, "")]
    assert len(changes.answers) == 3, "other processes learn of it"
    assert (await one.day()).wasted == 2


def worker_of(hall: Hall) -> SleepWorker:
    """Return a worker on the hall's database, which asks no model."""
    return SleepWorker(hall.clock, hall.context(), owner="exe1", alone=True)
