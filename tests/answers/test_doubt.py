"""An answer that a later statement may have changed is a hint, in every process at once, until a judge has looked."""

import pytest

from circadia.answers.freshness import fetch_bank_state, states_nothing
from circadia.ids import AnswerId
from circadia.memory.embedding.bundled import WordTable
from circadia.records.answer import Answer, DropReason, LookupOutcome
from circadia.records.bank import Trust
from circadia.records.index_entry import BankHeads
from tests.answers.shop import Shop
from tests.memory.world import World

pytestmark = pytest.mark.spec("ANS-04")

HOME = "Where does Ann live?"


@pytest.fixture
def shops(world: World, words: WordTable) -> tuple[Shop, Shop]:
    """Two processes on one database."""
    return Shop(world=world, words=words), Shop(world=world, words=words)


async def outcomes(shops: tuple[Shop, Shop]) -> list[LookupOutcome]:
    for shop in shops:
        await shop.explain(HOME)
    return [(await shop.ask(HOME)).outcome for shop in shops]


async def settle(shop: Shop, answer: Answer) -> None:
    async with shop.world.store.begin_read() as tx:
        bank = await tx.banks.get(answer.bank_id)
        assert bank is not None
        heads = (await fetch_bank_state(tx, bank)).heads
    async with shop.world.store.begin_write() as tx:
        await tx.answers.mark_still_right(answer.bank_id, {answer.id: heads})


async def test_what_may_have_changed_is_a_hint_in_each_process_until_a_judge_has_looked(
    world: World, shops: tuple[Shop, Shop]
) -> None:
    await world.remember("Ann lives near the fjord in Oslo")
    answer = await shops[0].ready(HOME, "In Oslo.")
    assert await outcomes(shops) == [LookupOutcome.HIT, LookupOutcome.HIT]
    await world.remember("Ann likes strawberries")
    assert await outcomes(shops) == [LookupOutcome.HINT, LookupOutcome.HINT]
    assert "may change it" in await shops[1].why_not(answer)
    await settle(shops[0], answer)
    assert await outcomes(shops) == [LookupOutcome.HIT, LookupOutcome.HIT]
    await world.remember("Ann likes cherries, too")
    assert await outcomes(shops) == [LookupOutcome.HINT, LookupOutcome.HINT], "nobody has looked at that"


async def test_what_says_all_that_is_asked_makes_it_a_miss(world: World, shops: tuple[Shop, Shop]) -> None:
    await world.remember("Ann lives near the fjord in Oslo")
    await shops[0].ready(HOME, "In Oslo.")
    await world.remember("Ann lives in Rome now")
    assert await outcomes(shops) == [LookupOutcome.MISS, LookupOutcome.MISS]


async def test_what_an_agent_says_puts_it_in_doubt_at_most(world: World, shops: tuple[Shop, Shop]) -> None:
    await world.remember("Ann lives near the fjord in Oslo")
    await shops[0].ready(HOME, "In Oslo.")
    await world.remember("As you told me, Ann lives in Oslo", speaker="guide", trust=Trust.AGENT)
    assert await outcomes(shops) == [LookupOutcome.HINT, LookupOutcome.HINT]


async def test_an_answer_that_was_made_since_is_served_in_place_of_one_in_doubt(
    world: World, shops: tuple[Shop, Shop]
) -> None:
    await world.remember("Ann lives near the fjord in Oslo")
    await shops[0].ready(HOME, "old", confidence=0.99)
    await world.remember("Ann likes strawberries")
    await shops[0].ready(HOME, "new")
    for shop in shops:
        assert await shop.told(HOME) == "new"
        assert (await shop.ask(HOME)).outcome is LookupOutcome.HIT


async def test_a_dropped_answer_is_not_settled(world: World, shops: tuple[Shop, Shop]) -> None:
    answer = await shops[0].ready(HOME, "In Oslo.")
    async with world.store.begin_write() as tx:
        await tx.answers.drop(answer.bank_id, [answer.id], DropReason.VOID, world.clock.now())
        await tx.answers.mark_still_right(
            answer.bank_id, {answer.id: BankHeads(9, 9), AnswerId("none"): BankHeads(9, 9)}
        )
        found = await tx.answers.get(answer.bank_id, answer.id)
    assert found is not None
    assert found.settled is None


@pytest.mark.parametrize("layer", ["the same question", "a stranger", "a paraphrase"])
async def test_a_question_states_nothing(layer: str, world: World, shops: tuple[Shop, Shop]) -> None:
    await world.remember("Ann lives near the fjord in Oslo")
    await shops[0].ready(HOME, "In Oslo.")
    asked = {"the same question": HOME, "a stranger": "Where does Bob live?", "a paraphrase": "Ann lives where?"}
    await world.remember(asked[layer], conversation="s")
    assert await outcomes(shops) == [LookupOutcome.HIT, LookupOutcome.HIT]


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        ("where does  Ann live", True), ("Ｗhere does Ann live？", True), ("in Oslo", True), ("In Oslo!", True),
        ("安娜住在哪里？", True), ("أين تسكن آنا؟", True), ("Does Ann live in Rome?", True),
        ("Ann has moved. Where does she live?", False), ("安娜搬家了。你知道吗？", False), ("In Oslo now.", False),
        ("Ann moved\nto Rome?", False), ("", False),
    ],
)  # fmt: skip
async def test_only_a_question_and_what_was_asked_and_answered_word_for_word_states_nothing(
    text: str, nothing: bool, shops: tuple[Shop, Shop]
) -> None:
    answer = await shops[0].ready(HOME, "In Oslo.")
    assert states_nothing(text, answer) is nothing
