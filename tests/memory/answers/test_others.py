"""What tells of others than a question names does not touch its answer; what names nobody may be about it."""

import pytest

from circadia.memory.answers.others import Others
from circadia.memory.embedding.bundled import WordTable
from tests.memory.answers.shop import Shop
from tests.memory.world import World

pytestmark = pytest.mark.spec("ANS-04")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Where does Ann live?", "Bob lives in Rome"),
        ("Where does Ann live?", "Bob has moved to Lisbon"),
        ("What is the name of Ann's cat?", "I heard that Bob's cat ran off yesterday"),
        ("In which town does Nora keep the trailer?", "Kalomi keeps the trailer in Turin now."),
        ("In which town does Nora keep the invoice?", "Pevope keeps the invoice in Turin now."),
        ("When does Ann fly?", "Yesterday, Eve flew at nine"),
        ("When was order 7 shipped?", "Order 8 was shipped on Monday"),
        ("Is room 14 free?", "Room 12 is free"),
        ("Does it rain in Rome?", "It is dry, but in Paris it rains"),
        ("Is the library open on Sunday?", "The library is shut on Monday"),
    ],
)
def test_another_in_the_place_of_what_is_named_tells_of_others(words: WordTable, question: str, text: str) -> None:
    assert Others(words).tells(text, question)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When does Ann's train leave?", "The train leaves at ten instead."),
        ("When does Ann fly?", "Departure was put off by an hour"),
        ("Where does Ann live?", "Moved to Lisbon last week"),
        ("Which car does Bob drive?", "Got a Fiat instead."),
        ("What is the name of Ann's cat?", "The cat is called Tom"),
        ("Which company does Ann work for?", "The company is Acme by now"),
        ("How heavy is order 7?", "The parcel weighs 5 kg"),
        ("From which gate does Ann's flight leave?", "The gate is B12"),
        ("When does Ann see the dentist?", "Monday works, the dentist is at four"),
        ("Is the pool open on Friday?", "Hours changed: closed at noon"),
        ("When does Ann fly?", "Der Flug geht erst um zehn"),
        ("Wann kommt Ann in Bonn an?", "Der Zug kommt erst um zehn an"),
        ("Quand part le vol de Marie ?", "Le vol part à dix heures"),
        ("When does Ann fly?", ""),
    ],
)
def test_what_names_nobody_or_in_another_place_may_be_about_it(words: WordTable, question: str, text: str) -> None:
    assert not Others(words).tells(text, question)


def test_what_is_akin_shares_no_word_and_no_name(words: WordTable) -> None:
    others = Others(words)
    assert others.akin("Flight postponed", "When does Ann fly?")
    assert not others.akin("The printer was postponed", "Where does Ann live?")
    assert not others.akin("We met Ann", "Where does Ann live?"), "names are not compared"
    assert not others.akin("", "Where does Ann live?")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When does Ann's train leave?", "The train leaves at ten instead."),
        ("When does Ann fly?", "Flight moved to ten."),
        ("Wann kommt Ann in Bonn an?", "Sie kommt erst um zehn an."),
    ],
)
async def test_news_without_the_name_void_an_answer(world: World, words: WordTable, question: str, text: str) -> None:
    shop = Shop(world=world, words=words)
    for said in ("Ann comes at eight", "Tea is at four", "The printer is out of ink"):
        await world.remember(said)
    await shop.ready(question, "At eight.")
    await world.remember("Bob's train and flight leave at nine, Bob said", speaker="Bob", session="s")
    assert await shop.told(question) == "At eight."
    await world.remember(text, speaker="Eve", session="t")
    assert await shop.told(question) == ""


async def test_an_answer_that_is_void_stays_so_whatever_comes_and_in_a_new_process(
    world: World, words: WordTable
) -> None:
    shop = Shop(world=world, words=words)
    for at in range(5):
        await world.remember(f"something {at} about the garden")
    await shop.ready("Is the pool open on Friday?", "Yes.")
    await world.remember("Friday hours changed: closed.", session="s")
    assert await shop.told("Is the pool open on Friday?") == ""
    for at in range(40):
        await world.remember(f"What a nice Friday, says guest {at}", session=f"g{at}")
    assert await shop.told("Is the pool open on Friday?") == ""
    assert await Shop(world=world, words=words).told("Is the pool open on Friday?") == ""


async def test_an_answer_that_is_void_stays_so_when_what_made_it_so_is_taken_back(
    world: World, words: WordTable
) -> None:
    shop = Shop(world=world, words=words)
    said = await world.remember("The pool opens at eight on Friday")
    answer = await shop.ready("Is the pool open on Friday?", "Yes.")
    async with world.store.write() as tx:
        await world.episodes.demote(tx, world.bank, said.episode.id, by="p", reason="old", evidence="e")
    assert "demoted" in await shop.why_not(answer)
    async with world.store.write() as tx:
        await world.episodes.restore(tx, world.bank, said.episode.id, evidence="e")
    assert "demoted" in await shop.why_not(answer)
