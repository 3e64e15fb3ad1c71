"""A pass works through all of its input once, whatever fails, stops or is killed in the middle."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import BaseModel

from circadia.ids import PassId
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.llm.usage import Usage
from circadia.memory.episodes import NewEpisode
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.sleep_pass import Leftover, Pass, PassStatus, Trigger
from circadia.sleeptime.budget.model_calls import Limit, PassModelClient, PassPreempted, Scope, Unit
from circadia.sleeptime.engine.pass_outcome import PassOutcome
from circadia.sleeptime.engine.pass_runner import PassRunner
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.testing.clock import ManualClock
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand

PAGE = 500

POISON = "poison"
STEP = 7


class ReaderOutput(BaseModel):
    """What the model has read."""

    texts: list[str]


class Reader:
    """An operation that has the model read each new episode, and notes what it read."""

    name = "reader"
    asks = True

    def plan(self, view: PageContext) -> Sequence[Step]:
        parts = [view.page[at : at + STEP] for at in range(0, len(view.page), STEP)]
        return [Step(name=part[0].text, episodes=part) for part in parts]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        data = "\n".join(each.text for each in step.episodes)
        read = await ask(Prompt(rules="Read.", data=data), ReaderOutput, most_tokens=10)
        key = f"note of {read.texts[0]} in {view.bank.name}"
        after = {
            "id": key, "kind": "summary", "text": " ".join(read.texts), "evidence": [each.id for each in step.episodes],
            "trust": "person", "importance": None, "at": view.now.isoformat(),
        }  # fmt: skip
        return [
            Change(
                pass_id=PassId(""), number=0, operation=self.name, kind=ChangeKind.ADD_NOTE, target=key, after=after,
                at=view.now,
            )
        ]  # fmt: skip


async def time_passes(clock: ManualClock) -> None:
    """Let time pass for whoever waits."""
    while True:
        await clock.wait_for_sleepers(1)
        clock.advance(60)


class Tier:
    """Runs passes over a stand's bank, one after the other."""

    def __init__(self, stand: Stand, mind: ScriptedChatModel, *limits: Limit) -> None:
        self.stand = stand
        self.mind = mind
        self.limits = limits
        self.passes = 0

    async def begun(self) -> tuple[Pass, int]:
        """Return the bank's pass as it is taken now: the one that was cut short, or a new one."""
        async with self.stand.store.begin_write() as tx:
            found = await tx.passes.get_open(self.stand.bank.id)
            if found is None:
                state = await tx.sleep_states.get(self.stand.bank.id)
                backlog = await tx.sleep_states.fetch_backlog(self.stand.bank.id, state.cursor)
                self.passes += 1
                found = Pass(
                    id=PassId(f"p{self.passes}"), bank_id=self.stand.bank.id, trigger=Trigger.IDLE,
                    created_at=self.stand.clock.now(), after=state.cursor, upto=max(state.cursor, backlog.last),
                )  # fmt: skip
                await tx.passes.add(found)
            taken = replace(found, status=PassStatus.RUNNING, epoch=found.epoch + 1, owner=f"exe{found.epoch}")
            assert await tx.passes.save(taken, origin=found)
        return taken, found.epoch

    async def run(self, *, stop_after: int | None = None) -> PassOutcome | None:
        """Run a pass; none if it was stopped before so many steps."""
        run, _ = await self.begun()
        left = stop_after

        async def go_on() -> None:
            nonlocal left
            if left is not None:
                left -= 1
                if left < 0:
                    raise PassPreempted

        asking = PassModelClient(self.stand.clock, self.stand.ids, self.stand.store, self.mind, run, self.limits)
        running = PassRunner(self.stand.clock, self.stand.context(), [Reader()], asking, go_on)
        passing = asyncio.create_task(time_passes(self.stand.clock))
        try:
            outcome = await running.run_pass(run, self.stand.bank)
        except PassPreempted:
            return None
        finally:
            passing.cancel()
        async with self.stand.store.begin_write() as tx:
            ended = replace(outcome.run, status=outcome.status, ended_at=self.stand.clock.now(), detail=outcome.detail)
            assert await tx.passes.save(ended, origin=outcome.run)
        return outcome

    async def read(self) -> Counter[str]:
        """Return how often each text stands in a note."""
        found = await self.stand.notes()
        return Counter(word for note in found for word in note.text.split())

    async def leftovers(self) -> Sequence[Leftover]:
        """Return what is to be tried again."""
        async with self.stand.store.begin_read() as tx:
            return (await tx.sleep_states.get(self.stand.bank.id)).leftovers


def reading(prompt: Prompt, _: type[BaseModel]) -> ReaderOutput | ModelAnswerError:
    """Read all but poison."""
    texts = prompt.data.split("\n")
    if any(text.startswith(POISON) for text in texts):
        return ModelAnswerError("prose instead of JSON", used=Usage(input_tokens=1, output_tokens=1))
    return ReaderOutput(texts=texts)


def names(number: int) -> list[str]:
    return [f"e{at}" for at in range(number)]


@pytest.mark.spec("SLEEP-11", "SLEEP-70")
async def test_a_backlog_of_61_turns_is_read_to_its_last_turn_and_none_twice(stand: Stand) -> None:
    texts = names(61)
    await stand.said(*texts)
    tier = Tier(stand, ScriptedChatModel(reading))
    outcome = await tier.run()
    assert outcome is not None
    assert (outcome.status, await tier.read()) == (PassStatus.SUCCEEDED, Counter(texts))
    await stand.said("e61")
    await tier.run()
    assert await tier.read() == Counter([*texts, "e61"])
    last = await tier.run()
    assert last is not None
    assert (last.status, len(tier.mind.asked)) == (PassStatus.NO_CHANGE, 10)


@pytest.mark.spec("SLEEP-11")
async def test_what_is_said_during_a_pass_belongs_to_the_next(stand: Stand) -> None:
    await stand.said(*names(3))
    tier = Tier(stand, ScriptedChatModel(reading))
    assert await tier.run(stop_after=0) is None
    await stand.said("late")
    await tier.run()
    assert await tier.read() == Counter(names(3))
    await tier.run()
    assert await tier.read() == Counter([*names(3), "late"])


@pytest.mark.spec("SLEEP-11")
async def test_a_backlog_longer_than_a_page_is_published_page_by_page(stand: Stand) -> None:
    texts = names(PAGE + 9)
    async with stand.store.begin_write() as tx:
        for text in texts:
            await stand.memory.episodes.remember(
                tx, stand.bank, NewEpisode(text=text, speaker="ann", trust=Trust.PERSON)
            )
    tier = Tier(stand, ScriptedChatModel(reading))
    assert await tier.run(stop_after=PAGE // STEP + 3) is None, "in the second page"
    assert sum((await tier.read()).values()) == PAGE
    outcome = await tier.run()
    assert outcome is not None
    assert await tier.read() == Counter(texts)
    assert len(tier.mind.asked) == len({prompt.data for prompt in tier.mind.asked}), "no answer is paid for twice"


@pytest.mark.spec("SLEEP-04", "SLEEP-10", "SLEEP-70")
async def test_what_was_asked_before_a_stop_is_not_asked_again(stand: Stand) -> None:
    await stand.said(*names(30))
    tier = Tier(stand, ScriptedChatModel(reading))
    for steps in (2, 0, 4):
        assert await tier.run(stop_after=steps) is None
    assert await tier.read() == Counter(), "nothing is published by half"
    await tier.run()
    assert await tier.read() == Counter(names(30))
    assert len(tier.mind.asked) == 5


@pytest.mark.spec("SLEEP-13")
async def test_a_poisonous_episode_is_found_and_set_apart_and_nothing_else_is_lost(stand: Stand) -> None:
    texts = [*names(10), POISON, *(f"f{at}" for at in range(10))]
    await stand.said(*texts)
    tier = Tier(stand, ScriptedChatModel(reading))
    statuses: list[PassStatus] = []
    for _ in range(9):
        outcome = await tier.run()
        assert outcome is not None
        statuses.append(outcome.status)
        if not [each for each in await tier.leftovers() if not each.is_quarantined]:
            break
    assert statuses[0] is PassStatus.PARTIAL
    (left,) = await tier.leftovers()
    assert (left.is_quarantined, left.cause) == (True, "prose instead of JSON")
    assert await tier.read() == Counter(text for text in texts if text != POISON)
    asked = len(tier.mind.asked)
    await tier.run()
    assert len(tier.mind.asked) == asked, "what is set apart is asked about no more"


@pytest.mark.spec("SLEEP-13", "SLEEP-40")
async def test_a_full_budget_in_the_middle_keeps_the_input_and_counts_no_failure(stand: Stand) -> None:
    await stand.said(*names(30))
    tier = Tier(stand, ScriptedChatModel(reading), Limit(scope=Scope.PASS, unit=Unit.CALLS, most=2))
    outcome = await tier.run()
    assert outcome is not None
    assert outcome.status is PassStatus.PARTIAL
    assert {each.failures for each in await tier.leftovers()} == {0}
    for _ in range(2):
        await tier.run()
    assert await tier.read() == Counter(names(30))
    assert await tier.leftovers() == ()


@pytest.mark.spec("SLEEP-10", "SLEEP-13", "SLEEP-70")
@pytest.mark.parametrize("seed", range(12))
async def test_whatever_fails_and_stops_each_episode_is_read_once(stand: Stand, seed: int) -> None:
    chance = random.Random(seed)
    texts = [f"{POISON}{at}" if chance.random() < 0.05 else f"e{at}" for at in range(chance.randrange(20, 60))]

    def moody(prompt: Prompt, output: type[BaseModel]) -> ReaderOutput | ModelAnswerError:
        if chance.random() < 0.3:
            return ModelAnswerError(chance.choice(["429", "500", "no connection"]), passing=True)
        return reading(prompt, output)

    tier = Tier(stand, ScriptedChatModel(moody))
    said, done = 0, Counter[str]()
    for _ in range(300):
        if said < len(texts) and chance.random() < 0.5:
            more = texts[said : said + chance.randrange(1, 15)]
            said += len(more)
            await stand.said(*more)
        await tier.run(stop_after=chance.choice([None, None, 0, 1, 2, 5]))
        stand.clock.advance(timedelta(minutes=1).total_seconds())
        done = await tier.read()
        assert max(done.values(), default=0) <= 1, "read twice"
        open_left = [each for each in await tier.leftovers() if not each.is_quarantined]
        if said == len(texts) and not open_left and sum(done.values()) + len(await tier.leftovers()) == len(texts):
            break
    assert done == Counter(text for text in texts if not text.startswith(POISON)), "nothing else is lost or set apart"
