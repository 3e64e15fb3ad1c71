"""What only repeats a ready answer, and what says something new though it has nearly the same words."""

from datetime import UTC, datetime

import pytest

from circadia.ids import AnswerId, BankId
from circadia.memory.answers.likeness import Likeness
from circadia.memory.answers.repeating import Repeating
from circadia.memory.embedding.bundled import WordTable
from circadia.records.answer import Answer, Heads, Rests
from circadia.records.bank import Trust
from tests.answers.shop import DAY, SCOPE

pytestmark = pytest.mark.spec("ANS-04")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
LEADS = ("Who leads the sales team in Oslo?", "Carla leads the sales team in Oslo.")
LONG = ("Who leads the sales team in Oslo?", "Carla leads the sales team in Oslo, which has nine people and two vans.")


def repeats(told: tuple[str, str], text: str, words: WordTable, likeness: Likeness, trust: str = Trust.AGENT) -> bool:
    rests = Rests(blocks={}, shown=[], episodes={}, notes={}, heads=Heads(0, 0), generation=0)
    answer = Answer(
        id=AnswerId("1"), bank_id=BankId("1"), scope=SCOPE, phrasings=[told[0]], confidence=1.0, text=told[1],
        rests=rests, made_at=NOW, expires_at=NOW + DAY,
    )  # fmt: skip
    return Repeating(words, likeness).repeats(text, trust, answer)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (("Is the museum closed on Friday?", "No, it is open."), "Is closed on Friday."),
        (("Will the pool be heated in winter?", "No, it will not."), "Will be heated in winter."),
        (("Did the landlord return the deposit?", "No, not yet."), "Did return the deposit"),
        (("Is the bakery open on Sunday?", "No."), "Is the bakery open on Sunday, yes it is."),
    ],
)
@pytest.mark.parametrize("trust", [Trust.PERSON, Trust.AGENT])
def test_what_begins_as_a_question_and_says_that_it_is_so_repeats_nothing(
    told: tuple[str, str], text: str, trust: Trust, words: WordTable, likeness: Likeness
) -> None:
    assert not repeats(told, text, words, likeness, trust)
    assert repeats(told, told[0].rstrip("?").lower(), words, likeness, trust), "the question, without its mark"


@pytest.mark.parametrize(
    "text",
    [
        "Carla leads the sales team in Oslo.",
        "The sales team in Oslo is led by Carla.",
        "In Oslo, Carla leads the sales team.",
        "Who leads the sales team in Oslo?",
    ],
)
def test_the_question_or_the_answer_again_repeats(text: str, words: WordTable, likeness: Likeness) -> None:
    assert repeats(LEADS, text, words, likeness)


@pytest.mark.parametrize("told", [LEADS, LONG])
@pytest.mark.parametrize(
    "text",
    [
        "Carla led the sales team in Oslo.",
        "Carla has led the sales team in Oslo.",
        "Carla used to lead the sales team in Oslo.",
        "Carla will lead the sales team in Oslo.",
        "Carla should lead the sales team in Oslo.",
        "Carla may lead the sales team in Oslo.",
        "Carla has to lead the sales team in Oslo.",
        "Carla quit the sales team in Oslo.",
        "Carla left the sales team in Oslo.",
        "Carla leaves the sales team in Oslo.",
        "Carla dislikes the sales team in Oslo.",
        "Carla was replaced as the lead of the sales team in Oslo.",
        "Carla stopped leading the sales team in Oslo.",
        "Carla is the former lead of the sales team in Oslo.",
        "The sales team in Oslo is led by Carla and Dmitri.",
        "Dmitri leads the sales team in Oslo.",
        "Dmitri and Carla lead the sales team in Oslo.",
    ],
)
def test_another_time_duty_verb_or_name_says_something_new(
    told: tuple[str, str], text: str, words: WordTable, likeness: Likeness
) -> None:
    assert not repeats(told, text, words, likeness)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (("Has the fair been postponed?", "The fair is on Friday."), "The fair is postponed to Friday."),
        (("When did Ann resign?", "That is not known."), "Ann resigned."),
    ],
)
def test_who_says_that_something_is_otherwise_now_repeats_no_answer_that_does_not_say_so(
    told: tuple[str, str], text: str, words: WordTable, likeness: Likeness
) -> None:
    assert not repeats(told, text, words, likeness)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (("Where does Ann live?", "Ann moved to the coast in the spring."), "In the spring, Ann moved to the coast."),
        (
            ("Who founded the mill in Rome?", "It was Ann, with the help of her two sons and of a bank from Milan."),
            "Ann founded the mill in Rome with her two sons and a bank from Milan.",
        ),
        (
            ("Must I pay customs?", "Yes, for each parcel that comes from abroad, as soon as it is at the gate."),
            "You must pay customs for each parcel from abroad.",
        ),
    ],
)
def test_what_the_question_or_the_answer_said_of_time_and_duty_may_be_said_again(
    told: tuple[str, str], text: str, words: WordTable, likeness: Likeness
) -> None:
    assert repeats(told, text, words, likeness)


@pytest.mark.parametrize("text", ["It's 9090.", "Not any more.", "On Friday now.", "It is > 5"])
def test_what_tells_only_a_value_or_a_no_repeats_nothing(text: str, words: WordTable, likeness: Likeness) -> None:
    assert not repeats(("Which port is it?", "It is port 8080."), text, words, likeness, Trust.PERSON)
