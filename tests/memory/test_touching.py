"""What came later touches a question if it may be about it; what is about something else does not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from circadia.memory.answers.reading import subjects
from circadia.memory.columns import Array
from circadia.memory.index import Index
from circadia.memory.question import Question
from circadia.memory.terms import asked_terms, stored_terms
from circadia.memory.touching import COMMON, Later
from circadia.memory.vectors import stored_vector
from circadia.records.index_entry import IndexEntry, Layer
from circadia.records.ready_view import Heads

NAME = "test@1/4"
NEAR, FAR = np.array([0.9, 0.435, 0, 0], np.float32), np.array([0.1, 0, 0.995, 0], np.float32)
ASKED = np.array([1, 0, 0, 0], np.float32)


def row(
    number: int, text: str, vector: Array | None = FAR, *, session: str | None = None, weight: float = 1.0
) -> IndexEntry:
    return IndexEntry(
        number=number, at=0.0, session=session, speaker="Eve", kind="turn", trust="person", importance=None,
        weight=weight, terms=stored_terms(f"Eve: {text}"), vector=None if vector is None else stored_vector(vector),
        embedder=None if vector is None else NAME, text=text,
    )  # fmt: skip


def asked(text: str) -> Question:
    return Question(terms=asked_terms(text), subjects=subjects(text), vectors={NAME: ASKED})


def since(
    rows: Sequence[IndexEntry], question: str, after: int = 10, layer: Layer = Layer.EPISODES
) -> dict[int, float | None]:
    """Return what touches, by number, whatever its text tells; see `test_others.py`."""
    return {each.number: each.least for each in later(rows, question, after, layer) if not each.elsewhere}


def later(rows: Sequence[IndexEntry], question: str, after: int = 10, layer: Layer = Layer.EPISODES) -> Sequence[Later]:
    index = Index()
    index.add(Layer.EPISODES, [row(at, f"chatter{at} about weather{at}") for at in range(1, after + 1)])
    index.add(layer, rows)
    heads = Heads(after, 0)
    return [each for each in index.since(heads, heads, asked(question)) if each.layer is layer]


@pytest.mark.spec("ANS-04")
@pytest.mark.parametrize("layer", Layer)
def test_a_later_row_touches_by_words_by_meaning_and_as_the_answer_to_a_question_that_does(layer: Layer) -> None:
    rows = [
        row(11, "Ann moved, she lives in Rome now"),
        row(12, "she has left the town for good", NEAR),
        row(13, "where does Ann live?", session="s"),
        row(14, "by the sea, they say", session="s"),
        row(15, "the printer is out of ink"),
    ]
    assert {11, 12, 14} <= since(rows, "Where does Ann live?", layer=layer).keys()
    assert 15 not in since(rows, "Where does Ann live?", layer=layer)


@pytest.mark.spec("ANS-04")
def test_what_was_there_before_and_what_was_retired_since_touch_nothing() -> None:
    rows = [row(11, "Ann lives in Rome"), row(12, "Ann lives in Bonn", weight=0.0)]
    assert since(rows, "Where does Ann live?").keys() == {11}
    index = Index()
    index.add(Layer.EPISODES, rows)
    assert not index.since(Heads(10, 0), Heads(12, 0), asked("Where does Ann live?"))


@pytest.mark.spec("ANS-04")
def test_what_lacks_the_name_touches_if_its_text_tells_so_and_what_may_stand_for_the_name_does() -> None:
    texts = ("Bob lives in Rome", "Order 8 was shipped", "she lives in Rome", "everybody lives in Rome", "order 7 went")
    rows = [row(at, text, NEAR) for at, text in enumerate(texts, 11)]
    found = later(rows, "Where does Ann live?")
    assert {each.number: (each.elsewhere, each.least) for each in found} == {
        11: (True, None), 12: (True, None), 13: (False, None), 14: (False, None), 15: (True, None),
    }  # fmt: skip
    assert since(rows, "When was order 7 shipped?").keys() == {13, 14, 15}


@pytest.mark.spec("ANS-04")
def test_what_changes_something_touches_if_it_lacks_the_name_and_is_akin() -> None:
    (moved,) = later([row(11, "The meeting was postponed")], "When does Ann see the dentist?")
    assert (moved.elsewhere, moved.akin, moved.least) == (True, True, np.inf)
    assert not later([row(11, "Was the meeting postponed?")], "When does Ann see the dentist?")


@pytest.mark.spec("ANS-04")
def test_no_row_that_comes_later_changes_what_touches() -> None:
    index, question = Index(), asked("Is the pool open on Friday?")
    index.add(Layer.EPISODES, [row(at, f"chatter{at} about weather{at}") for at in range(1, 6)])
    index.add(Layer.EPISODES, [row(6, "Friday hours changed: closed", NEAR)])
    heads = Heads(5, 0)
    assert [each.number for each in index.since(heads, heads, question)] == [6]
    index.add(Layer.EPISODES, [row(at, f"on Friday the pool was open, guest {at} says", NEAR) for at in range(7, 107)])
    assert index.since(heads, heads, question)[0][:3] == (Layer.EPISODES, 6, None)
    assert len(index.since(heads, heads, question)) == 101


@pytest.mark.spec("ANS-04")
def test_in_an_empty_bank_a_little_is_enough() -> None:
    assert since([row(1, "Ann lives in Rome")], "Where does Ann live?", after=0) == {1: None}


@pytest.mark.spec("ANS-04")
def test_a_row_without_a_vector_says_how_near_it_must_be() -> None:
    (least,) = since([row(11, "they left town for good", None)], "Where does Ann live?").values()
    assert least is not None
    assert 0.1 < least < 0.9
    assert since([row(11, "Ann lives in Rome now", None)], "Where does Ann live?") == {11: None}


@pytest.mark.spec("ANS-04")
def test_where_most_of_a_bank_is_about_one_thing_only_what_is_about_it_most_touches() -> None:
    told = [row(at, f"the harbour of Rome has {at} ships") for at in range(11, 200)]
    index = Index()
    index.add(Layer.EPISODES, told)
    question, heads = asked("how many cranes has the harbour?"), Heads(100, 0)
    assert not [each for each in index.since(heads, heads, question) if each.least is None]
    index.add(Layer.EPISODES, [row(200, "the harbour has six cranes")])
    assert [each.number for each in index.since(heads, heads, question) if each.least is None] == [200]


@pytest.mark.spec("ANS-04")
@pytest.mark.parametrize(
    ("text", "question", "touches"),
    [
        ("I have moved to Lisbon", "Where do I live?", True),
        ("I quit the bakery", "Who employs me?", True),
        ("Have they moved the printer?", "Where do I live?", False),
        ("Bob has moved to Lisbon", "Where does Ann live?", False),
    ],
)
def test_who_says_that_something_is_otherwise_now_needs_no_word_of_the_question(
    text: str, question: str, touches: bool
) -> None:
    assert bool(since([row(11, text)], question)) == touches  # the last one names somebody else


@pytest.mark.spec("ANS-04")
def test_what_names_what_the_answer_names_and_says_that_it_is_not_so_touches_whatever_the_question_names() -> None:
    index = Index()
    index.add(Layer.EPISODES, [row(at, f"chatter{at} about weather{at}") for at in range(1, 11)])
    texts = ("Petra retired in May after all these long years", "Petra went to see the harbour with us this morning")
    index.add(Layer.EPISODES, [row(at, text) for at, text in enumerate(texts, 11)])
    question = replace(asked("Who leads Acme?"), answered=asked_terms("Petra"))
    heads = Heads(10, 0)
    assert [each.number for each in index.since(heads, heads, question) if not each.elsewhere] == [11]
    assert not [each for each in index.since(heads, heads, asked("Who leads Acme?")) if each.least is None]


@pytest.mark.spec("ANS-04")
def test_what_has_no_common_word_of_the_language_of_the_question_may_be_foreign() -> None:
    rows = [row(11, "der kleine Hafen von Rostock war lange Jahre viel besser"), row(12, "the harbour is as it was")]
    index = Index()
    index.add(Layer.EPISODES, [row(at, f"chatter{at} about the weather{at}") for at in range(1, 11)])
    index.add(Layer.EPISODES, rows)
    question, heads = asked("Which cranes are painted?"), Heads(10, 0)
    assert 11 not in {each.number for each in index.since(heads, heads, question)}
    found = {each.number: each.akin for each in index.since(heads, heads, replace(question, common=COMMON))}
    assert found[11]
