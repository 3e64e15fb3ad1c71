"""Ready answers at hand: found in their own scope only, and only as long as all that they rest on is as it was."""

from dataclasses import replace
from datetime import timedelta

import pytest

from circadia.answers import lookup
from circadia.answers.lookup import AnswerLookup
from circadia.errors import UpstreamFailed
from circadia.ids import AgentId
from circadia.memory.blocks import BlockAuthor
from circadia.memory.embedding.bundled import WordTable
from circadia.memory.forgetting import forget
from circadia.records.answer import DropReason, LookupOutcome
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import Store
from tests.answers.shop import SCOPE, Loaded, Shop, other
from tests.memory.steps import least_steps
from tests.memory.world import World

HOME = "Where does Ann live?"
CAR = "Which car does Bob drive?"


@pytest.fixture
async def local(sqlite_store: Store) -> World:
    """A memory on SQLite, for what does not depend on the database."""
    return await World.made(sqlite_store)


@pytest.fixture
def shop(local: World, words: WordTable) -> Shop:
    return Shop(world=local, words=words)


@pytest.mark.spec("ANS-04")
async def test_a_write_to_what_an_answer_rests_on_makes_it_a_miss_at_once_in_another_process_too(
    world: World, words: WordTable
) -> None:
    here, there = Shop(world=world, words=words), Shop(world=world, words=words)
    await world.write("home", "Ann lives in Oslo.")
    await world.write("cars", "Bob drives a Fiat.", pinned=False)
    one = await world.remember("Ann lives near the fjord in Oslo")
    two = await world.remember("Bob drives an old Fiat car to work", speaker="Bob")
    note = await world.note("Ann lives alone in Oslo", [one.episode.id, two.episode.id])

    async def found() -> tuple[str, ...]:  # what both processes find for the one question, then for the other
        return tuple([await shop.told(question) for question in (HOME, CAR) for shop in (here, there)])

    async def both() -> None:
        async with world.store.begin_write() as tx:
            live = await tx.answers.find_live(world.bank.id)
            await tx.answers.drop(world.bank.id, [each.id for each in live], DropReason.REPLACED, world.clock.now())
        await here.ready(HOME, "In Oslo.")
        await here.ready(CAR, "A Fiat.")
        assert await found() == ("In Oslo.", "In Oslo.", "A Fiat.", "A Fiat.")

    await both()
    await world.write("cars", "Bob sold the Fiat car.", pinned=False)
    assert await found() == ("In Oslo.", "In Oslo.", "", ""), "a block that stood in the prompt of the one"
    await both()
    await world.write("home", "Ann lives in Bergen.")
    assert await found() == ("", "", "", ""), "a pinned block, which stands in each prompt"
    await both()
    await world.write("tone", "Be brief.")
    assert await found() == ("", "", "", ""), "a new pinned block"
    await both()
    await world.write("fleet", "The car that Bob drives is red.", pinned=False)
    assert await found() == ("In Oslo.", "In Oslo.", "", ""), "a new block that shares words with the one question"
    await both()
    async with world.store.begin_write() as tx:
        await world.episodes.demote(tx, world.bank, two.episode.id, by="p", reason="sold", evidence="e")
    assert await found() == ("In Oslo.", "In Oslo.", "", ""), "an episode that counts less"
    await both()
    async with world.store.begin_write() as tx:
        assert await world.episodes.restore(tx, world.bank, two.episode.id, evidence="e")
    assert await found() == ("In Oslo.", "In Oslo.", "", ""), "an episode that counts again"
    await both()
    async with world.store.begin_write() as tx:
        await tx.notes.retire(note, world.clock.now())
    assert (await found())[:2] == ("", ""), "a note that was retired"
    gone = await world.remember("The weather was nice")
    await both()
    async with world.store.begin_write() as tx:
        await forget(tx, world.bank, [gone.episode.id])
    assert await found() == ("", "", "", ""), "something was forgotten"


@pytest.mark.spec("ANS-04")
async def test_a_pinned_block_that_had_no_room_in_the_prompt_voids_an_answer_when_it_is_deleted(
    shop: Shop, local: World
) -> None:
    await local.remember("Ann lives near the fjord in Oslo")
    await local.write("rules", "Say what is so. " * 400, limit=10_000)
    answer = await shop.ready(HOME, "In Oslo.")
    assert "rules" not in answer.basis.shown
    assert await shop.told(HOME) == "In Oslo."
    async with local.store.begin_write() as tx:
        await local.blocks.delete(tx, local.bank, "rules", writer=BlockAuthor.PERSON, by="tester")
    assert await shop.told(HOME) == ""


@pytest.mark.spec("ANS-04")
async def test_writes_elsewhere_leave_it(shop: Shop, local: World) -> None:
    await local.remember("Ann lives near the fjord in Oslo")
    answer = await shop.ready(HOME, "In Oslo.")
    await shop.explain(HOME)
    for at, text in enumerate(("The printer is out of ink", "We watched a film about whales", "Tea is at four")):
        await local.remember(text, speaker="Bob", conversation=f"s{at}")
        await shop.read(answer)
        assert (await shop.ask(HOME)).outcome is LookupOutcome.HIT
    await local.write("printers", "The printer stands in the hall.", pinned=False)
    other_bank = await local.add_bank("bob")
    await local.remember("Ann lives in Rome now", bank=other_bank)
    assert (await shop.ask(HOME)).outcome is LookupOutcome.HIT
    async with local.store.begin_write() as tx:
        await local.blocks.delete(tx, local.bank, "printers", writer=BlockAuthor.PERSON, by="tester")
    assert (await shop.ask(HOME)).outcome is LookupOutcome.HIT


@pytest.mark.spec("ANS-06")
async def test_no_answer_is_found_from_another_bank_agent_end_user_or_frame(shop: Shop, local: World) -> None:
    bob_bank = await local.add_bank("bob")
    await shop.ready(HOME, "ann's")
    await shop.ready(HOME, "bob's", scope=other(end_user="bob"))
    await shop.ready(HOME, "ann2's", scope=other(end_user="ann2"))
    assert await shop.told(HOME) == "ann's"
    assert await shop.told(HOME, other(end_user="bob")) == "bob's"
    assert await shop.told(HOME, other(end_user="ann2")) == "ann2's"
    for scope in (
        *(other(end_user=each) for each in ("", "an", "ann22", "Ann", "ann ", "bobann")),
        *(other(agent_id=AgentId(each)) for each in ("agt_", "agt_11", "agt_1ann", "agt_2")),
        other(frame="f"), other(frame="f11"), other(agent_id=AgentId("agt_1ann"), end_user=""),
        other(end_user="annf1", frame=""),
    ):  # fmt: skip
        assert (await shop.ask(HOME, scope)).outcome is LookupOutcome.MISS, scope
    assert (await shop.ask(HOME, bank=bob_bank)).outcome is LookupOutcome.MISS
    await shop.ready(HOME, "another bank's", bank=bob_bank)
    found = await shop.ask(HOME, bank=bob_bank)
    assert found.answer is not None
    assert found.answer.text == "another bank's"
    assert await shop.told(HOME) == "ann's"


@pytest.mark.spec("ANS-05")
async def test_it_holds_from_when_it_was_made_for_its_time_used_or_not(shop: Shop, local: World) -> None:
    answer = await shop.ready(HOME)
    made = local.clock.now()
    for seconds, outcome in ((0, LookupOutcome.HIT), (86_399, LookupOutcome.HIT), (86_400, LookupOutcome.MISS)):
        local.clock.advance((made + timedelta(seconds=seconds) - local.clock.now()).total_seconds())
        assert (await shop.ask(HOME)).outcome is outcome
    async with local.store.begin_write() as tx:  # as if the clock had been set back since
        await tx.answers.put([replace(answer, id="ans_x", made_at=local.clock.now() + timedelta(seconds=1),
                                      expires_at=local.clock.now() + timedelta(days=1))])  # fmt: skip
    assert (await shop.ask(HOME)).outcome is LookupOutcome.MISS


async def test_what_is_dropped_or_said_otherwise_in_another_process_is_so_here(
    world: World, words: WordTable
) -> None:  # fmt: skip
    here, there = Shop(world=world, words=words), Shop(world=world, words=words)
    first = await here.ready(HOME, "first", "In which town does Ann live?")
    assert await there.told(HOME) == "first"
    async with world.store.begin_write() as tx:
        await tx.answers.save_phrasings(world.bank.id, first.id, ["In which town does Ann live?"])
    assert await there.told("In which town does Ann live?") == "first"
    assert (await there.ask(HOME)).outcome is not LookupOutcome.HIT
    await here.drop(first)
    assert await there.told("In which town does Ann live?") == ""
    await here.ready(HOME, "second")
    assert await there.told(HOME) == "second"


async def test_one_that_does_not_stand_is_passed_over_for_the_next(shop: Shop, local: World) -> None:
    old = await shop.ready(HOME, "old", confidence=0.99)
    await local.remember("Ann moved and lives in Bergen")
    assert "came later" in await shop.why_not(old)
    new = await shop.ready("Where does Ann live now?", "new", HOME)
    assert await shop.told(HOME) == "new"
    assert not await shop.why_not(new)
    found = await shop.ask(HOME)
    assert found.outcome is LookupOutcome.HIT


async def test_a_transaction_that_sees_an_older_state_is_told_of_nothing_that_came_later(
    world: World, words: WordTable
) -> None:
    shop = Shop(world=world, words=words)
    await world.remember("Ann lives near the fjord in Oslo")
    first = await shop.ready(HOME, "first")
    async with world.store.begin_read() as older:
        assert (await shop.ask_in(older, HOME)).outcome is LookupOutcome.HIT
        await world.remember("Ann moved to Bergen and lives there now")
        await shop.drop(first)
        await shop.ready(HOME, "second")
        assert await shop.told(HOME) == "second"
        before = await shop.ask_in(older, HOME)
        assert before.answer is None, "one that is there in this transaction only is not at hand any more"
        assert await shop.told(HOME) == "second"
    late = Shop(world=world, words=words)
    async with world.store.begin_read() as older:
        assert (await late.ask_in(older, HOME)).outcome is LookupOutcome.HIT
        await world.remember("Ann has moved again and lives in Rome")
        assert (await late.ask(HOME)).outcome is LookupOutcome.HINT, "the newer transaction is seen first"
        assert (await late.ask_in(older, HOME)).outcome is LookupOutcome.HINT
        assert (await late.ask(HOME)).outcome is LookupOutcome.HINT, "what the older one did not see is not read"


@pytest.mark.parametrize("question", ["", "  ", "\U0001f600\U0001f680", "?!", "where " * 20_000, "\ud800", "\x00"])
async def test_what_is_no_question_is_a_quick_miss(question: str, shop: Shop) -> None:
    await shop.ready(HOME)
    assert (await shop.ask(question)).outcome is LookupOutcome.MISS


async def test_a_bank_without_ready_answers_loads_nothing(local: World) -> None:
    finder = AnswerLookup(local.clock, local.retrieval, _Unloadable(), AnswersSettings.model_validate({}))
    async with local.store.begin_read() as tx:
        assert (await finder.find(tx, await local.present(), SCOPE, HOME)).outcome is LookupOutcome.MISS


async def test_without_word_vectors_each_question_is_a_miss_and_an_explanation_says_why(
    shop: Shop, local: World
) -> None:  # fmt: skip
    await shop.ready(HOME)
    shop.lookup = AnswerLookup(local.clock, local.retrieval, _Unloadable(), AnswersSettings.model_validate({}))
    for _ in range(2):
        assert (await shop.ask(HOME)).outcome is LookupOutcome.MISS
    with pytest.raises(UpstreamFailed, match="reinstall"):
        await shop.explain(HOME)


async def test_many_are_taken_in_out_of_the_event_loop_and_found(shop: Shop, local: World) -> None:
    answer = await shop.ready(HOME)
    async with local.store.begin_write() as tx:
        await tx.answers.put(
            [
                replace(answer, id=f"ans_m{at}", phrasings=(f"What is in box {at}?",))
                for at in range(lookup.INLINE_ADDITIONS + 5)
            ]
        )
    assert (await shop.ask("What is in box 7?")).outcome is LookupOutcome.HIT


@pytest.mark.spec("MEM-20")
async def test_of_too_many_the_bank_that_was_asked_longest_ago_goes_and_comes_again(shop: Shop, local: World) -> None:
    settings = AnswersSettings.model_validate({})
    shop.lookup = AnswerLookup(local.clock, shop.retrieval, Loaded(table=shop.words), settings, max_bytes=5_000)
    banks = [local.bank, await local.add_bank("b"), await local.add_bank("c")]
    for bank in banks:
        await shop.ready(HOME, bank.name, bank=bank)
    for _ in range(2):
        for bank in banks:
            found = await shop.ask(HOME, bank=bank)
            assert found.answer is not None
            assert found.answer.text == bank.name
    assert len(shop.lookup.indexes) == 1


@pytest.mark.spec("MEM-20")
async def test_a_lookup_does_as_much_with_200_banks_at_hand_as_with_one(shop: Shop, local: World) -> None:
    await shop.ready(HOME)
    await shop.ask(HOME)
    alone = await least_steps(lambda: shop.ask(HOME))
    for at in range(200):
        bank = await local.add_bank(f"b{at}")
        await shop.ready(HOME, bank=bank)
        await shop.ask(HOME, bank=bank)
    assert len(shop.lookup.indexes) == 201
    await shop.ask(HOME)
    assert await least_steps(lambda: shop.ask(HOME)) <= alone + 20


class _Unloadable:
    async def word_vectors(self) -> WordTable:
        raise UpstreamFailed("no weights; reinstall")
