"""Asking the tier's model: paid for once, counted before, within every limit."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest
from pydantic import BaseModel

from circadia.ids import BankId, PassId
from circadia.llm.chat_model import ChatModel, Cut, ModelAnswerError, Prompt
from circadia.llm.schemas import answer_schema_json
from circadia.llm.usage import Usage
from circadia.records.call import UsageGroup
from circadia.records.sleep_call import SleepCost
from circadia.sleeptime.budget.model_calls import Limit, OverBudget, PassModelClient, PendingQuestions, Scope, Unit
from circadia.stores.base import Store
from circadia.testing.clock import ManualClock
from circadia.testing.scripted_model import ScriptedChatModel
from tests.contract.sleep_rows import banks_of, sleep_pass
from tests.full_disk import FullDiskStore
from tests.wake.fleet import CountedIds

T = TypeVar("T", bound=BaseModel)

PASS = sleep_pass("p1", BankId("bnk_team"))
PROMPT = Prompt(rules="Say what it is.", data="a" * 285)


class Word(BaseModel):
    """An answer."""

    word: str


class Words(BaseModel):
    """Another."""

    word: str
    more: int = 0


SCHEMA = len(answer_schema_json(Word))
RESERVED = -(-(300 + SCHEMA + 200) // 3) + 50
"""Tokens: bytes of the prompt, of the schema and of what is around them, a third each; and the longest answer."""


@pytest.fixture
async def store(sqlite_store: Store) -> Store:
    await banks_of(sqlite_store, "team")
    return sqlite_store


class Desk:
    """Asks for passes of one bank."""

    def __init__(self, store: Store, mind: ChatModel, *limits: Limit, process: str = "") -> None:
        self.clock = ManualClock()
        self._parts = (self.clock, CountedIds(process), store, mind)
        self._limits = limits
        self._store = store

    async def ask(self, run: str = "p1", operation: str = "reflect", output: type[Word | Words] = Word) -> str:
        asking = PassModelClient(*self._parts, sleep_pass(run, BankId("bnk_team")), self._limits, alone=True)
        return (await asking.ask(operation, PROMPT, output, most_tokens=50)).word

    async def spent(self) -> SleepCost:
        async with self._store.begin_read() as tx:
            return await tx.sleep_calls.sum_cost()


@pytest.mark.spec("SLEEP-10")
async def test_an_answer_is_paid_for_once_also_by_another_pass(store: Store) -> None:
    mind = ScriptedChatModel([Word(word="one"), Words(word="two")])
    desk = Desk(store, mind)
    assert [await desk.ask(), await desk.ask("p2")] == ["one", "one"]
    assert len(mind.asked) == 1
    assert await desk.ask(output=Words) == "two", "another schema is another question"
    assert (await desk.spent()).calls == 2


@pytest.mark.spec("SLEEP-13", "SLEEP-40")
async def test_a_failure_counts_and_is_asked_again(store: Store) -> None:
    desk = Desk(
        store,
        ScriptedChatModel(
            [ModelAnswerError("prose", used=Usage(input_tokens=7)), ModelAnswerError("429"), Word(word="ok")]
        ),
    )
    for cause in ("prose", "429"):
        with pytest.raises(ModelAnswerError) as found:
            await desk.ask()
        assert found.value.cause == cause
    assert await desk.ask() == "ok"
    spent = await desk.spent()
    assert (spent.calls, spent.tokens) == (3, 7 + RESERVED + 110), "a charge that is not known counts as reserved"


class Thinker(ScriptedChatModel):
    """A model that needs this room for its answer, and gets it or is cut off."""

    def __init__(self, needs: int, *, thinking_tokens: int = 0, cut: Cut = "thinking") -> None:
        super().__init__([], thinking_tokens=thinking_tokens)
        self.rooms: list[int] = []
        self._needs = needs
        self._cut: Cut = cut

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        self.rooms.append(most_tokens)
        written = min(most_tokens, self._needs)
        used = Usage(input_tokens=100, output_tokens=written, reasoning_tokens=written - 10)
        if most_tokens < self._needs:
            raise ModelAnswerError("cut off", used=used, cut=self._cut)
        return output.model_validate({"word": "ok"}), used


@pytest.mark.spec("SLEEP-81")
async def test_thinking_has_room_beside_the_answer_and_is_reserved(store: Store) -> None:
    mind = Thinker(2_050, thinking_tokens=2_000)
    reserved = RESERVED + 2_000
    over = Limit(scope=Scope.PASS, unit=Unit.TOKENS, most=reserved - 1)
    with pytest.raises(OverBudget):
        await Desk(store, mind, over).ask()
    assert await Desk(store, mind, replace(over, most=reserved)).ask() == "ok"
    assert mind.rooms == [2_050]


@pytest.mark.spec("SLEEP-81")
@pytest.mark.parametrize(
    ("thinking", "cut", "rooms"),
    [
        (0, "answer", [50, 100]), (2_000, "answer", [2_050, 4_100]), (8_000, "thinking", [8_050, 16_100]),
        (0, "thinking", [50, 4_100]),  # it thinks though it should not
    ],
)  # fmt: skip
async def test_a_cut_answer_is_asked_for_once_more_with_twice_the_room(
    store: Store, thinking: int, cut: Cut, rooms: list[int]
) -> None:
    mind = Thinker(rooms[1], thinking_tokens=thinking, cut=cut)
    desk = Desk(store, mind)
    assert await desk.ask() == "ok"
    assert mind.rooms == rooms
    assert await desk.ask("p2") == "ok", "it is found again, and not paid for twice"
    spent = await desk.spent()
    assert (spent.calls, spent.tokens) == (2, 200 + sum(rooms)), "both are paid for"
    assert (spent.thinking_tokens, spent.thinking_nanousd) == (sum(rooms) - 20, sum(rooms) - 20)
    mind = Thinker(rooms[1] + 1, thinking_tokens=thinking, cut=cut)
    with pytest.raises(ModelAnswerError, match="cut off"):
        await Desk(store, mind, process="p3").ask("p3", "rethink")
    assert mind.rooms == rooms, "and no third time"


@pytest.mark.spec("SLEEP-10", "SLEEP-40")
async def test_what_a_kill_or_a_wake_cut_short_counts_as_reserved(store: Store) -> None:
    begun = asyncio.Event()

    async def never(*_: object) -> Word:
        begun.set()
        await asyncio.Event().wait()
        return Word(word="never")

    desk = Desk(store, ScriptedChatModel(never))
    asking = asyncio.create_task(desk.ask())
    await begun.wait()
    assert await desk.spent() == SleepCost(calls=1, tokens=RESERVED, nanousd=RESERVED, seconds=0.0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    groups: Sequence[UsageGroup] = ()
    async with asyncio.timeout(60):
        while not groups:  # the question ends by itself, behind the one who asked
            async with store.begin_read() as tx:
                groups = await tx.calls.sum_by_group("tier")
    assert [(group.key, group.failed) for group in groups] == [("sleep", 1)]
    assert (await desk.spent()).tokens == RESERVED


@pytest.mark.spec("SLEEP-13")
async def test_a_question_at_which_three_processes_ended_is_asked_no_more_and_says_why(store: Store) -> None:
    begun = asyncio.Event()

    async def never(*_: object) -> Word:
        begun.set()
        await asyncio.Event().wait()
        return Word(word="never")

    dead = list[asyncio.Task[str]]()
    for _ in range(3):
        begun.clear()
        # A process that is killed settles nothing; its successor knows nothing of what flew.
        name = f"p{len(dead)}"
        desk = Desk(store, ScriptedChatModel(never), process=name)
        desk.clock.advance(20 * len(dead))  # more than a lease
        dead.append(asyncio.create_task(desk.ask(name)))
        async with asyncio.timeout(60):
            await begun.wait()
    mind = ScriptedChatModel([Words(word="another"), Word(word="fine")])
    last = Desk(store, mind, process="p9")
    last.clock.advance(60)
    with pytest.raises(ModelAnswerError, match="3 processes ended") as found:
        await last.ask("p9")
    assert not found.value.passing, "the others are asked"
    assert await last.ask("p9", output=Words) == "another"
    assert await last.ask("p9", "consolidate") == "fine"
    async with store.begin_read() as tx:
        assert [each.error for each in await tx.sleep_calls.find_by_pass(PassId("p9"))][:1] == [found.value.cause]
    assert (await last.spent()).calls == 5, "what is not asked costs nothing"
    for each in dead:
        each.cancel()
    await asyncio.gather(*dead, return_exceptions=True)


@pytest.mark.spec("SLEEP-10", "SLEEP-13")
@pytest.mark.parametrize(
    "answer", [Word(word="one"), ModelAnswerError("prose", used=Usage(input_tokens=100, output_tokens=10))]
)
async def test_what_a_model_said_while_nothing_could_be_written_is_kept(
    store: Store, answer: Word | ModelAnswerError
) -> None:
    disk = FullDiskStore(store)

    def said(*_: object) -> Word | ModelAnswerError:
        disk.full = True
        return answer

    mind = ScriptedChatModel(said)
    desk = Desk(disk, mind)
    asking = asyncio.create_task(desk.ask())
    async with asyncio.timeout(60):
        for _ in range(4):  # more than the processes that may end at a question
            await desk.clock.wait_for_sleepers(1)
            desk.clock.advance(60)
        await desk.clock.wait_for_sleepers(1)
        disk.full = False
        desk.clock.advance(60)
        [outcome] = await asyncio.gather(asking, return_exceptions=True)
    assert str(outcome) == ("prose" if isinstance(answer, ModelAnswerError) else "one")
    assert len(mind.asked) == 1
    assert await desk.spent() == SleepCost(calls=1, tokens=110, nanousd=110, seconds=0.0)


async def test_a_question_that_is_dropped_waits_for_no_database(store: Store) -> None:
    disk, begun = FullDiskStore(store), asyncio.Event()

    async def never(*_: object) -> Word:
        disk.full = True
        begun.set()
        await asyncio.Event().wait()
        return Word(word="never")

    flying: PendingQuestions = {}
    asking = PassModelClient(
        ManualClock(), CountedIds(""), disk, ScriptedChatModel(never), PASS, [], open_questions=flying
    )
    waiting = asyncio.create_task(asking.ask("reflect", PROMPT, Word, most_tokens=50))
    async with asyncio.timeout(60):
        await begun.wait()
        [question] = flying.values()
        waiting.cancel()
        await asyncio.gather(waiting, question, return_exceptions=True)
    assert not flying


@pytest.mark.spec("SLEEP-40")
@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        (Limit(scope=Scope.PASS, unit=Unit.CALLS, most=3), 3),
        (Limit(scope=Scope.BANK, unit=Unit.TOKENS, most=2 * 110 + RESERVED - 1), 2),
        (Limit(scope=Scope.FLEET, unit=Unit.NANOUSD, most=110 + RESERVED), 2),
        (Limit(scope=Scope.OPERATION, unit=Unit.CALLS, most=0), 0),
    ],
)
async def test_no_limit_is_passed(store: Store, limit: Limit, asked: int) -> None:
    mind = ScriptedChatModel(lambda _, __: ModelAnswerError("bad JSON", used=Usage(input_tokens=100, output_tokens=10)))
    desk = Desk(store, mind, limit)
    for _ in range(asked):
        with pytest.raises(ModelAnswerError):
            await desk.ask()
    with pytest.raises(OverBudget) as found:
        await desk.ask()
    assert found.value.limit == limit
    assert len(mind.asked) == asked


@pytest.mark.spec("SLEEP-40", "SLEEP-60")
@pytest.mark.parametrize(
    ("limit", "alone", "told"),
    [
        (
            Limit(scope=Scope.FLEET, unit=Unit.NANOUSD, most=5e9, window=timedelta(days=1)), False,
            "$5 for all banks within 24 h leave no room for the next question",
        ),
        (
            Limit(scope=Scope.BANK, unit=Unit.NANOUSD, most=1_250_000, window=timedelta(hours=1)), True,
            "$0.00125 for each bank within 1 h are less than one question may take",
        ),
        (
            Limit(scope=Scope.PASS, unit=Unit.TOKENS, most=3_000_000), False,
            "3,000,000 tokens for each pass leave no room for the next question",
        ),
        (
            Limit(scope=Scope.OPERATION, unit=Unit.CALLS, most=7, window=timedelta(days=1), operation="rethink"), False,
            "7 calls of rethink for all banks within 24 h leave no room for the next question",
        ),
    ],
)  # fmt: skip
def test_a_limit_that_is_met_is_told_in_its_own_unit(limit: Limit, alone: bool, told: str) -> None:
    assert str(OverBudget(limit, alone=alone)) == told


@pytest.mark.spec("SLEEP-40")
async def test_calls_are_exact_however_many_ask_at_once(store: Store) -> None:
    mind = ScriptedChatModel(lambda _, __: ModelAnswerError("bad JSON", used=Usage(input_tokens=1)))
    desk = Desk(store, mind, Limit(scope=Scope.BANK, unit=Unit.CALLS, most=5))
    outcomes = await asyncio.gather(*(desk.ask(f"p{n}") for n in range(20)), return_exceptions=True)
    assert [type(each) for each in outcomes].count(ModelAnswerError) == len(mind.asked) == 5


@pytest.mark.spec("SLEEP-40")
async def test_a_window_moves_on_and_a_scope_counts_its_own(store: Store) -> None:
    mind = ScriptedChatModel(lambda _, __: ModelAnswerError("bad JSON", used=Usage(input_tokens=1)))
    hourly = Limit(scope=Scope.OPERATION, unit=Unit.CALLS, most=1, window=timedelta(hours=1))
    desk = Desk(store, mind, hourly)
    seen: list[str] = []
    for operation, minutes in (("reflect", 0), ("reflect", 59), ("dates", 0), ("reflect", 1.1)):
        desk.clock.advance(minutes * 60)
        with pytest.raises((ModelAnswerError, OverBudget)) as found:
            await desk.ask(operation=operation)
        seen.append(found.type.__name__)
    assert seen == ["ModelAnswerError", "OverBudget", "ModelAnswerError", "ModelAnswerError"]
    async with store.begin_read() as tx:
        assert {group.key for group in await tx.calls.sum_by_group("tier")} == {"sleep"}
