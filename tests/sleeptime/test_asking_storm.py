"""Whatever a model answers and whenever a pass is stopped: all that was said is worked through, and paid for once."""

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.records.episode import Episode
from circadia.records.sleep_pass import Pass, PassStatus
from circadia.sleeptime.budget.model_calls import PassModelClient, PassPreempted
from circadia.sleeptime.engine.pass_runner import PassRunner
from circadia.testing.rule_based_model import RuleBasedModel
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.night import Night
from tests.sleeptime.stand import Stand

MAY = datetime(2025, 5, 4, 10, tzinfo=UTC)
PEOPLE = ("ann", "ben", "cara")
PLACES = ("Porto", "Lisbon", "Faro", "Braga", "Oslo")


def facts(chance: random.Random, day: int) -> list[tuple[str, str]]:
    """Return what people say on a day: each line once, so that who was heard can be told."""
    return [
        (
            chance.choice(PEOPLE),
            chance.choice((
                f"I live in {chance.choice(PLACES)}.", f"I work as a {chance.choice(('nurse', 'cook', 'pilot'))}.",
                f"My lucky number is {day * 100 + at}.", f"The meeting room is R{day}x{at}.",
            )),
        )
        for at in range(chance.randrange(2, 9))
    ]  # fmt: skip


async def run(night: Night, chance: random.Random) -> bool:
    """Run the bank's pass, which stops at a step by chance; return whether it came to its end."""
    stand = night.stand
    async with stand.store.begin_write() as tx:
        found = await tx.passes.get_open(stand.bank.id) or await opened(night)
        taken = replace(found, status=PassStatus.RUNNING, epoch=found.epoch + 1, owner=f"exe{found.epoch}")
        if found.epoch:
            assert await tx.passes.save(taken, origin=found)
        else:
            await tx.passes.add(taken)
    left = chance.choice((None, None, 0, 1, 3, 6))

    async def go_on() -> None:
        nonlocal left
        if left is not None:
            left -= 1
            if left < 0:
                raise PassPreempted

    asking = PassModelClient(stand.clock, stand.ids, stand.store, night.mind, taken, [])
    running = PassRunner(stand.clock, stand.context(rules=night.rules), night.operations, asking, go_on)
    try:
        outcome = await running.run_pass(taken, stand.bank)
    except PassPreempted:
        return False
    async with stand.store.begin_write() as tx:
        ended = replace(outcome.run, status=outcome.status, ended_at=stand.clock.now())
        assert await tx.passes.save(ended, origin=outcome.run)
    return True


async def opened(night: Night) -> Pass:
    night.passes += 1
    return await night.new_pass()


@pytest.mark.spec("SLEEP-10", "SLEEP-11", "SLEEP-13")
@pytest.mark.parametrize("seed", range(8))
async def test_all_is_heard_and_no_answer_is_paid_for_twice(stand: Stand, seed: int) -> None:
    chance, dreamer, paid = random.Random(seed), RuleBasedModel(), Counter[str]()

    async def moody(prompt: Prompt, output: type[BaseModel]) -> BaseModel | ModelAnswerError:
        if chance.random() < 0.25:
            return ModelAnswerError(chance.choice(("prose", "truncated", "an empty body")))
        paid[f"{prompt.rules}\n{prompt.data}"] += 1
        return (await dreamer.ask(prompt, output, most_tokens=1_000))[0]

    night = Night(stand, ScriptedChatModel(moody))
    said: list[Episode] = []
    for day in range(8):
        for speaker, text in facts(chance, day):
            said += await night.said(text, speaker=speaker, at=MAY + timedelta(days=day), conversation=f"s{day}")
        await run(night, chance)
    for _ in range(200):
        done = await run(night, chance)
        async with night.stand.store.begin_read() as tx:
            state = await tx.sleep_states.get(night.stand.bank.id)
            backlog = await tx.sleep_states.fetch_backlog(night.stand.bank.id, state.cursor)
        if done and not backlog.episodes and not [each for each in state.leftovers if not each.is_quarantined]:
            break
    else:
        raise AssertionError("it never came to its end")
    assert max(paid.values()) == 1
    texts = await night.texts()
    assert len(texts) == len(set(texts))
    quarantined = {number for each in state.leftovers for number in range(each.first, each.last + 1)}
    assert len(quarantined) <= 2
    heard = "\n".join(paid)
    assert [each.text for each in said[1:] if each.number not in quarantined and each.text not in heard] == []
    async with night.stand.store.begin_read() as tx:
        for note in await night.notes(retired=True):
            assert len(set(note.evidence)) == len(note.evidence) >= 2
            assert len(await tx.episodes.find_bank_ids(note.evidence)) == len(note.evidence)
