"""Each guard objects to what it is for, in either order, and to nothing that only says the same otherwise."""

import pytest

from circadia.memory.answers.guards import Objection, objections
from circadia.memory.answers.meaning import meaning
from circadia.memory.answers.normal import tokens
from circadia.memory.answers.wording import compared
from circadia.memory.embedding.bundled import WordTable

pytestmark = pytest.mark.spec("ANS-02")


def against(one: str, other: str, words: WordTable) -> dict[str, str]:
    a, b = meaning(tokens(one), words), meaning(tokens(other), words)
    found: list[Objection] = list(objections(a.reading, b.reading, compared(a, b)))
    return {each.guard: each.reason for each in found}


DIFFERENT = [
    ("numbers", "What is 15 % of 80?", "What is 15 % of 90?"),
    ("numbers", "Which phone is best under 20000?", "Which phone is best under 15k?"),
    ("numbers", "How do I count from 1 to 10?", "How do I count from 10 to 1?"),
    ("numbers", "Who was the third president?", "Who was the fourth president?"),
    ("units", "How far is 5 km?", "How far is 5 miles?"),
    ("units", "What is the price in dollars?", "What is the price in euros?"),
    ("times", "What is the weather today?", "What is the weather tomorrow?"),
    ("times", "What happened in March?", "What happened in May and June?"),
    ("times", "Who was ill last week?", "Who was ill last month?"),
    ("names", "Is the office in Oslo open?", "Is the office in Lima open?"),
    ("names", "Who is the manager of Ann?", "Who is the manager of Bob?"),
    ("negation", "Why does the pump start?", "Why does the pump not start?"),
    ("negation", "Is the form valid?", "Is the form invalid?"),
    ("negation", "Can I log in with a key?", "Can I log in without a key?"),
    ("opposites", "Which plan is the best?", "Which plan is the worst?"),
    ("opposites", "What happens before the merge?", "What happens after the merge?"),
    ("opposites", "Where can I buy shares?", "Where can I sell shares?"),
    ("direction", "Are there trains from Rome?", "Are there trains to Rome?"),
    ("direction", "Send 100 from Ann to Bob", "Send 100 from Bob to Ann"),
    ("quantifiers", "Do all users see it?", "Do some users see it?"),
    ("quantifiers", "Can admins delete files?", "Can only admins delete files?"),
    ("order", "Did the dog bite the man?", "Did the man bite the dog?"),
    ("order", "Is Python faster than Ruby?", "Is Ruby faster than Python?"),
    ("asks", "When did the server crash?", "Why did the server crash?"),
    ("asks", "Who wrote the report?", "When was the report written?"),
    ("asks", "How many tickets are open?", "Why are tickets open?"),
    ("tense", "Who was the owner?", "Who will be the owner?"),
    ("persons", "What is my name?", "What is your name?"),
    ("persons", "Where does he live?", "Where does she live?"),
    ("substitution", "How do I paint a boat?", "How do I sink a boat?"),
]


@pytest.mark.parametrize(("guard", "one", "other"), DIFFERENT)
def test_a_guard_objects_in_either_order(guard: str, one: str, other: str, words: WordTable) -> None:
    there, back = against(one, other, words), against(other, one, words)
    assert guard in there, there
    assert there.keys() == back.keys()
    assert all(there.values())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is the difference between tea and coffee?", "What is the difference between coffee and tea?"),
        ("Which phone is best under 20000?", "Which phone is the best under 20k?"),
        ("How do I fix a bike?", "How can I repair a bike?"),
        ("How can I lose weight?", "How can you lose weight?"),
        ("In India, which phone is best?", "Which phone is best in India?"),
        ("What is the way to open it?", "How do I open it?"),
        ("Why is the sky blue?", "What is the reason the sky is blue?"),
        ("What will it cost, five dollars?", "What will it cost, $5?"),
        ("What are some good books?", "What are good books?"),
    ],
)
def test_no_guard_objects_to_the_same_said_otherwise(one: str, other: str, words: WordTable) -> None:
    assert not against(one, other, words)
    assert not against(other, one, words)


def test_a_question_has_nothing_against_itself(words: WordTable) -> None:
    for _, one, other in DIFFERENT:
        assert not against(one, one, words)
        assert not against(other, other, words)
