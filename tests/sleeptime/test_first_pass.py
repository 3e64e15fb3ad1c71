"""A pass with a budget of its own: what it takes the place of, what it counts against, and how it gets to its end."""

from datetime import timedelta

import pytest
from pydantic import BaseModel

from circadia.errors import Conflict
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.records.sleep_pass import PassStatus, Trigger
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import PairOutput, Tier, reading

WAY_TOO_LITTLE = {"per_pass": {"calls": 1}, "per_day": {"calls": 1}}
ALL = frozenset("abcdef")


async def read(stand: Stand) -> frozenset[str]:
    return frozenset(word for note in await stand.notes() for word in note.text.split())


@pytest.mark.spec("SLEEP-87", "SLEEP-40")
async def test_a_pass_with_its_own_budget_runs_to_the_end_and_counts_against_no_other(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), budget=WAY_TOO_LITTLE, fleet_budget={"per_day": {"calls": 1}})
    worker = tier.worker()
    await stand.said(*sorted(ALL))
    await tier.asked(budget_tokens=100_000)
    await worker.step()
    (run,) = await tier.ended()
    assert (run.status, run.after) == (PassStatus.SUCCEEDED, 6), run.detail
    assert await read(stand) == ALL
    await stand.said("g", "h")
    await tier.asked()
    await worker.step()
    assert (await tier.ended(2))[-1].status is PassStatus.SUCCEEDED, "the one call of the day is left"
    await stand.said("i", "j")
    await tier.asked()
    await worker.step()
    assert "1 calls" in (await tier.ended(3))[-1].detail


@pytest.mark.spec("SLEEP-87")
async def test_at_the_end_of_its_own_budget_the_pass_ends_and_the_rest_waits(stand: Stand) -> None:
    mind = ScriptedChatModel(reading)
    tier = Tier(stand, mind)
    await stand.said(*sorted(ALL))
    await tier.asked(budget_tokens=250)
    await tier.worker().step()
    (run,) = await tier.ended()
    assert run.status is PassStatus.PARTIAL
    assert "250 tokens for each pass leave no room" in run.detail
    assert len(mind.asked) == 2
    async with stand.store.begin_read() as tx:
        assert (await tx.sleep_states.get(stand.bank.id)).leftovers


@pytest.mark.spec("SLEEP-87")
async def test_it_takes_the_place_of_an_open_pass_that_nobody_asked_for_and_of_no_other(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading))
    await stand.said("a", "b")
    idle = await tier.asked(trigger=Trigger.IDLE)
    with pytest.raises(Conflict, match="open pass"):
        await tier.asked()
    own = await tier.asked(budget_tokens=100_000)
    first, second = await tier.passes()
    assert (first.id, first.status) == (idle.id, PassStatus.CANCELLED)
    assert (second.id, second.status, second.budget_tokens) == (own.id, PassStatus.PENDING, 100_000)
    with pytest.raises(Conflict, match="open pass"):
        await tier.asked(budget_tokens=100_000)


@pytest.mark.spec("SLEEP-87")
async def test_while_the_provider_is_away_it_waits_and_then_goes_on(stand: Stand) -> None:
    away = True

    def moody(prompt: Prompt, output: type[BaseModel]) -> PairOutput | ModelAnswerError:
        if away and "e" in prompt.data:
            return ModelAnswerError("500", passing=True, retry_after_seconds=999)
        return reading(prompt, output)

    mind = ScriptedChatModel(moody)
    tier = Tier(stand, mind)
    worker = tier.worker()
    await stand.said(*sorted(ALL))
    await tier.asked(budget_tokens=100_000)
    for _ in range(5):  # more than the failures in a row after which another pass goes on without the step
        await worker.step()
        (run,) = await tier.until(lambda found: found[0].status is PassStatus.PENDING and not worker.running_count)
        assert run.detail == "pairs: episodes 5 to 6: 500"
        assert run.not_before is not None
        assert run.not_before - stand.clock.now() == timedelta(minutes=1)
        stand.clock.advance(60)
    away = False
    await worker.step()
    (run,) = await tier.ended()
    assert run.status is PassStatus.SUCCEEDED
    assert await read(stand) == ALL
    assert len([each for each in mind.asked if "a" in each.data]) == 1, "what was answered is not asked again"
