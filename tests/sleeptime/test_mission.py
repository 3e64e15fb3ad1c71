"""What a bank's owner wants remembered stands in every prompt of a pass, of its judges, and of ready answers."""

from collections.abc import Sequence

import pytest

from circadia.gateway.answers.judging import judge_prompt
from circadia.llm.chat_model import Prompt
from circadia.memory.banks import BankService
from circadia.records.bank import Bank, BankPolicy
from circadia.sleeptime.answers.still_right import AnswerVerdict, AnswerVerdicts
from circadia.sleeptime.operations.compress import Compress
from circadia.sleeptime.operations.consolidate import Consolidate
from circadia.sleeptime.operations.contradictions import Contradictions
from circadia.sleeptime.operations.reflect import Reflect
from circadia.sleeptime.operations.rethink import Rethink
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.stores.base import Store
from circadia.testing.clock import ManualClock
from tests.sleeptime.answers_stand import HOME, Hall, expecting, tier_mind
from tests.sleeptime.night import Night, answering, data_of, writing
from tests.sleeptime.stand import Stand

pytestmark = pytest.mark.spec("MEM-36")

MISSION = "A law firm.\nRemember deadlines, never health. password: hunter2hunter2"
SHOWN = "A law firm. Remember deadlines, never health. password: [redacted: secret]"
PASS = (
    "write the notes of a memory", "compare statements", "what follows from several", "summarize a long span",
    "keep the short texts", "You judge whether",
)  # fmt: skip
"""Words of the prompts of a pass over a bank."""
ANSWERS = ("You foresee", "questions that were foreseen", "still right after", "two answers to it")
"""Words of the prompts that make answers ready."""


async def with_mission(store: Store, banks: BankService, bank: Bank) -> Bank:
    async with store.begin_write() as tx:
        return await banks.change(tx, bank, by="operator", policy=BankPolicy(mission=MISSION))


def missing(asked: Sequence[Prompt], words: Sequence[str]) -> list[str]:
    """Return which of the prompts with these words were not asked; every one that was has the mission once."""
    for each in asked:
        assert each.rules.count(SHOWN) == 1, each.rules
        assert "hunter2" not in each.rules + each.data
        assert "law firm" not in each.data, "it is the owner's, and not of the material"
        assert each.rules.index("never an instruction") < each.rules.index(SHOWN)
    return [each for each in words if not any(each in prompt.rules for prompt in asked)]


async def test_every_prompt_of_a_pass_has_the_mission(stand: Stand) -> None:
    stand.bank = await with_mission(stand.store, stand.memory.banks, stand.bank)
    operations = [Consolidate(), Contradictions(), Reflect(each=1), Compress(long=0), Rethink()]
    night = Night(stand, operations=operations)
    asked: list[Prompt] = []
    for city in ("Porto", "Lisbon"):
        mind = answering(writing(f"Ann lives in {city}."))
        night.mind = mind
        await night.said(f"I live in {city}.", conversation=city)
        await night.run()
        asked += mind.asked
    assert missing(asked, PASS) == []


async def test_every_prompt_of_ready_answers_has_the_mission(one: Hall) -> None:
    one.bank = await with_mission(one.store, one.memory.banks, one.bank)
    one.set(sample_share=1.0)
    await one.said("I moved last year.")
    await one.seen()
    first = tier_mind(expecting(HOME))
    await one.run(first)
    (answer,) = await one.ready()
    await one.used(answer, HOME)
    await one.said("Ann likes strawberries.")
    second = tier_mind(AnswerVerdicts(verdicts=[AnswerVerdict(id="a1", right=True)]))
    one.up.next(text="Her home is Porto.")
    await one.run(second)
    assert missing([*first.asked, *second.asked], ANSWERS) == []


def test_the_judge_of_a_call_reads_the_mission() -> None:
    today = ManualClock().now().date()
    assert missing([judge_prompt(HOME, ["Where is Ann's home?"], today, mission=MISSION)], ["own, by the same"]) == []
    assert "owner" not in judge_prompt(HOME, ["Where is Ann's home?"], today).rules


async def test_what_the_mission_does_not_want_is_refused_on_record(stand: Stand) -> None:
    stand.bank = await with_mission(stand.store, stand.memory.banks, stand.bank)
    verdict = ClaimVerdict(id="c1", why="health", verdict="unwanted")
    mind = answering(writing("Ann has diabetes."), ClaimVerdicts(verdicts=[verdict]))
    night = Night(stand, mind, [Consolidate()])
    await night.said("I have diabetes.")
    await night.run()
    assert await night.texts() == []
    assert await night.refused() == ["the mission of the bank does not want it remembered, as the model judges: health"]
    assert len(data_of(mind, "write the notes of a memory")) == 1, "no other words make it wanted"
    assert '- "unwanted": ' in next(each.rules for each in mind.asked if "You judge whether" in each.rules)


async def test_without_a_mission_no_prompt_speaks_of_an_owner(stand: Stand) -> None:
    mind = answering(writing("Ann lives in Porto."))
    night = Night(stand, mind)
    await night.said("I live in Porto.")
    await night.run()
    assert len(mind.asked) > 1
    assert not [each for each in mind.asked if "owner" in each.rules or "unwanted" in each.rules]
