"""An answer is certain while the newest turn of its bank is one that was read for it, whatever the turn says."""

import pytest

from circadia.answers.question_text import only_asks
from circadia.ids import AnswerId
from circadia.memory.embedding.bundled import WordTable
from circadia.memory.episodes import NewEpisode
from circadia.records.answer import DropReason, LookupOutcome
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind
from tests.answers.shop import Shop
from tests.memory.world import World

pytestmark = pytest.mark.spec("ANS-20")

HOME = "Where does Ann live?"


@pytest.fixture
def shops(world: World, words: WordTable) -> tuple[Shop, Shop]:
    """Two processes on one database."""
    return Shop(world=world, words=words), Shop(world=world, words=words)


async def outcomes(shops: tuple[Shop, Shop]) -> list[LookupOutcome]:
    for shop in shops:
        await shop.explain(HOME)
    return [(await shop.ask(HOME)).outcome for shop in shops]


@pytest.mark.parametrize(
    ("text", "trust"),
    [("I moved house last week.", Trust.PERSON), ("Ann lives in Rome now", Trust.PERSON), (HOME, Trust.PERSON),
     ("The printer jams.", Trust.EXTERNAL), ("As you told me, Ann lives in Oslo", Trust.AGENT)],
)  # fmt: skip
async def test_after_any_turn_it_is_a_hint_in_each_process_until_that_was_read(
    world: World, shops: tuple[Shop, Shop], text: str, trust: Trust
) -> None:
    await world.remember("Ann lives near the fjord in Oslo")
    answer = await shops[0].ready(HOME, "In Oslo.")
    assert await outcomes(shops) == [LookupOutcome.HIT, LookupOutcome.HIT]
    turn = (await world.remember(text, trust=trust)).episode
    assert await outcomes(shops) == [LookupOutcome.HINT, LookupOutcome.HINT]
    for shop in shops:
        assert (await shop.ask(HOME)).newer > 0, turn.id
        assert "came later" in await shop.why_not(answer)
    await shops[0].read(answer)
    assert await outcomes(shops) == [LookupOutcome.HIT, LookupOutcome.HIT]
    await world.remember("Ann likes cherries, too")
    assert await outcomes(shops) == [LookupOutcome.HINT, LookupOutcome.HINT], "nobody has read that"


async def test_what_tools_say_and_what_ready_answers_said_are_no_turns(world: World, shops: tuple[Shop, Shop]) -> None:
    await world.remember("Ann lives near the fjord in Oslo")
    await shops[0].ready(HOME, "In Oslo.")
    for kind in (EpisodeKind.TOOL, EpisodeKind.READY):
        async with world.store.begin_write() as tx:
            new = NewEpisode(text=f"Ann lives in Rome, says {kind}", speaker="ann", trust=Trust.PERSON, kind=kind)
            await world.episodes.append(tx, world.bank, new)
            await world.episodes.touch(tx, world.bank)
        assert await outcomes(shops) == [LookupOutcome.HIT, LookupOutcome.HIT], kind


async def test_an_answer_that_was_made_since_is_served_in_place_of_one_that_is_not_certain(
    world: World, shops: tuple[Shop, Shop]
) -> None:
    await world.remember("Ann lives near the fjord in Oslo")
    await shops[0].ready(HOME, "old", confidence=0.99)
    await world.remember("Ann likes strawberries")
    await shops[0].ready(HOME, "new")
    for shop in shops:
        assert await shop.told(HOME) == "new"
        assert (await shop.ask(HOME)).outcome is LookupOutcome.HIT


async def test_for_a_dropped_answer_nothing_is_read(world: World, shops: tuple[Shop, Shop]) -> None:
    answer = await shops[0].ready(HOME, "In Oslo.")
    async with world.store.begin_write() as tx:
        await tx.answers.drop(answer.bank_id, [answer.id], DropReason.VOID, world.clock.now())
        await tx.answers.mark_still_right(answer.bank_id, [answer.id, AnswerId("none")], 9)
        found = await tx.answers.get(answer.bank_id, answer.id)
    assert found is not None
    assert found.read_upto == answer.read_upto


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("安娜住在哪里？", True), ("أين تسكن آنا؟", True), ("Does Ann live in Rome?", True),
        ("Ann has moved. Where does she live?", False), ("安娜搬家了。你知道吗？", False), ("In Oslo now.", False),
        ("Ann moved\nto Rome?", False), ("", False),
    ],
)  # fmt: skip
def test_what_only_asks_ends_in_a_question_mark_and_is_one_sentence(text: str, asks: bool) -> None:
    assert only_asks(text) is asks
