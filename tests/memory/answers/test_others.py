"""What tells of others than a question names does not touch its answer; what names nobody may be about it."""

import pytest

from circadia.memory.answers.others import Others
from circadia.memory.embedding.bundled import WordTable
from tests.answers.shop import Shop
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
        ("When does LH 123 leave?", "LH124 leaves at ten"),
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
        ("When does LH 123 leave?", "LH123 leaves at ten"),
        ("When does LH123 leave?", "LH 123 leaves at ten"),
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
    assert not others.akin("Ann was replaced", "Where does Ann live?"), "names are not compared"
    assert not others.akin("The flight was long", "When does Ann fly?"), "nothing is otherwise"
    assert not others.akin("", "Where does Ann live?")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When does Ann's train leave?", "The train leaves at ten instead."),
        ("When does Ann fly?", "Flight moved to ten."),
        ("Wann kommt Ann in Bonn an?", "Sie kommt erst um zehn an."),
        ("When does flight LH 123 leave?", "LH123 leaves at ten."),
        ("When does flight LH123 leave?", "LH 123 leaves at ten."),
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


BANK = (
    "The office has a kitchen on the second floor", "Ann likes long walks by the sea", "Lunch is served at noon",
    "The garden needs water twice a week", "The printer on floor two jams a lot", "The lawn is mowed by Max",
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer", "text"),
    [
        ("Who chairs the board?", "Petra chairs the board.", "Petra retired in May."),
        ("Who chairs the board?", "Petra chairs the board.", "Petra isn't with us any more."),
        ("Who chairs the board?", "Petra chairs the board.", "Olaf has been promoted."),
        ("When is choir practice?", "On Wednesday at 7.", "Make that 8."),
        ("When is choir practice?", "On Wednesday at 7.", "It's on Friday now."),
        ("When is choir practice?", "On Wednesday at 7.", "Wednesday does not work, let's see."),
        ("Which mail server do we run?", "We run Exim.", "It's Postfix from now on."),
        ("Which code opens the gate?", "The code is 4711.", "It's 9090."),
        ("Who chairs the board?", "Petra chairs the board.", "She left us early."),
        ("What does the ferry cost?", "The ferry costs 12 euros.", "They doubled it."),
        ("What do I polish the desk with?", "You polish it with beeswax.", "I switched to linseed."),
        ("When does Olaf's choir sing?", "On Wednesday at 7.", "Friday instead."),
        ("When does Olaf's choir sing?", "On Wednesday at 7.", "It was called off."),
        ("What does Petra's boat cost?", "The boat costs 900 euros.", "Correction: 850."),
        ("Who chairs the board?", "Petra chairs the board.", "Petra handed the hammer and the keys to Olaf in April."),
        ("Which tea do I drink?", "You drink sencha.", "Sencha keeps me awake, so no more of it."),
        ("Which tea do I drink?", "You drink sencha.", "Ich trinke jetzt Kaffee."),
        ("Which tea do I drink?", "You drink sencha.", "Ahora bebo café."),
        ("Which tea do I drink?", "You drink sencha.", "我现在喝咖啡。"),
    ],
)
async def test_what_says_that_something_is_otherwise_now_voids_what_it_may_be_about(
    world: World, words: WordTable, question: str, answer: str, text: str
) -> None:
    shop = Shop(world=world, words=words)
    for said in (*BANK, answer):
        await world.remember(said)
    await shop.ready(question, answer)
    for said in ("Max repaired the fence by the garden.", "Eva plays the cello in the evening.", "The soup was salty."):
        await world.remember(said)
    assert await shop.told(question) == answer
    await world.remember(text)
    assert await shop.told(question) == ""


async def test_what_follows_in_a_conversation_about_it_and_says_so_voids_it_and_elsewhere_not(
    world: World, words: WordTable
) -> None:
    shop = Shop(world=world, words=words)
    for said in BANK:
        await world.remember(said)
    await world.remember("The rent of the studio is paid by the theatre", session="a")
    await shop.ready("Who pays the rent of the studio?", "It is paid by the theatre.")
    await world.remember("They stop doing so in spring", session="b")
    assert await shop.told("Who pays the rent of the studio?")
    await world.remember("They stop doing so next year", session="a")
    assert not await shop.told("Who pays the rent of the studio?")


def test_a_text_alters_an_answer_if_it_is_brief_and_tells_a_value_of_its_kind_or_of_the_same(words: WordTable) -> None:
    others, question, answer = Others(words), "What does the ferry cost?", "The ferry costs 12 euros."
    assert others.alters("make that 15", question, answer)
    assert others.alters("the price is lower now", question, answer), "about the same"
    assert not others.alters("on Monday, then", question, answer), "another kind"
    assert not others.alters("Olaf moved the bench, the lamp, the ladder and 15 chairs", question, answer), "not brief"
    assert others.alters("it's Olaf now", "Who steers the ferry?", "Petra.")
    assert not others.alters("Olaf laughed", "Who steers the ferry?", "Petra."), "most texts name somebody"


def test_a_text_corrects_an_answer_if_it_says_so_and_tells_nothing_but_a_value_of_its_kind(words: WordTable) -> None:
    others, question, answer = Others(words), "What does Petra's boat cost?", "The boat costs 900 euros."
    assert others.corrects("no, 850 now", question, answer)
    assert not others.corrects("the 850", question, answer), "nothing is otherwise"
    assert not others.corrects("on Monday instead", question, answer), "another kind"
    assert not others.corrects("the bench costs 850 now", question, answer), "of something else"


def test_a_text_alters_an_answer_if_it_names_nothing_else(words: WordTable) -> None:
    others = Others(words)
    polish = ("What do I polish the desk with?", "You polish it with beeswax.")
    assert others.alters("I changed to linseed", *polish)
    assert not others.alters("I changed the tyre to winter", *polish), "of something else"
    fee = ("What does the ferry cost?", "The ferry costs 12 euros.")
    assert others.alters("they halved it", *fee)
    assert not others.alters("they halved the lawn", *fee), "of something else"
    assert not others.alters("they mow it", *fee), "nothing is otherwise"
    assert others.alters("they called it off", *fee)
    assert others.alters("that has been put off!", *fee)
    assert not others.alters("they called it a lawn and drove off", *fee), "of something else"
    assert not others.alters("they went out", *fee), "of nothing that was meant"
    chair = ("Who chairs the board?", "Petra chairs the board.")
    assert others.alters("she left early", *chair)
    assert not others.alters("she laughed early", *chair), "nothing is otherwise"
    assert not others.alters("she left early", "Which colour is the lamp?", "It is green."), "nobody is named"


@pytest.mark.parametrize(
    ("text", "question", "foreign"),
    [
        ("Der Kurs ist jetzt im Saal", "Where is the course?", True),
        ("Le cours est maintenant dans la salle", "Where is the course?", True),
        ("Курс теперь в зале", "Where is the course?", True),
        ("Der Kurs ist jetzt im Saal", "Am I a student?", True),
        ("The course is in the hall", "Wo ist denn der Kurs?", True),
        ("The course is in the hall", "Where is the course?", False),
        ("ERROR 12:03 disk full /var/log", "Where is the course?", False),
        ("Max repaired fences", "Where is the course?", False),
    ],
)
def test_a_text_is_foreign_to_a_question_of_another_language(
    words: WordTable, text: str, question: str, foreign: bool
) -> None:
    assert Others(words).foreign(text, question) is foreign
