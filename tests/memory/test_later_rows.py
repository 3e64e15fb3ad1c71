"""What a later row weighs beside a question: by the words they share, by their vectors, and by the turn before."""

from collections.abc import Sequence

import numpy as np
import pytest

from circadia.memory.search.columns import Array
from circadia.memory.search.index import BankIndex, Question
from circadia.memory.search.later_rows import LaterRows
from circadia.memory.search.terms import question_stems, stored_terms
from circadia.memory.search.vectors import stored_vector
from circadia.records.index_entry import BankHeads, IndexEntry, Layer

pytestmark = pytest.mark.spec("ANS-04")

NAME = "test@1/4"
NEAR, FAR = np.array([0.9, 0.435, 0, 0], np.float32), np.array([0.1, 0, 0.995, 0], np.float32)
ASKED = np.array([1, 0, 0, 0], np.float32)
HOME = "Where does Ann live?"


def row(
    number: int, text: str, vector: Array | None = FAR, *, conversation: str | None = None, weight: float = 1.0
) -> IndexEntry:
    return IndexEntry(
        number=number, at=0.0, conversation=conversation, speaker="Eve", kind="turn", trust="person", importance=None,
        weight=weight, terms=stored_terms(f"Eve: {text}"), vector=None if vector is None else stored_vector(vector),
        embedder=None if vector is None else NAME, text=text,
    )  # fmt: skip


def asked(text: str, sense: float = 1.0) -> Question:
    return Question(stems=question_stems(text), vectors={NAME: ASKED}, sense=sense)


def later(
    rows: Sequence[IndexEntry], question: str = HOME, layer: Layer = Layer.EPISODES, *, sense: float = 1.0
) -> LaterRows:
    """Return what weighs something after ten rows about the weather, and one about Ann."""
    index = BankIndex()
    before = [row(at, f"chatter{at} about weather{at}") for at in range(1, 11)]
    index.add(Layer.EPISODES, [*before, row(11, "Ann lives in Rome")])
    index.add(layer, rows)
    heads = BankHeads(11, 0)
    return index.find_later_rows(heads, heads, asked(question, sense))


def weights(rows: Sequence[IndexEntry], question: str = HOME, layer: Layer = Layer.EPISODES) -> dict[int, float]:
    return {each.number: each.weight for each in later(rows, question, layer).rows if each.layer is layer}


@pytest.mark.parametrize("layer", Layer)
def test_a_row_weighs_more_by_words_by_meaning_and_as_the_answer_to_a_related_question(layer: Layer) -> None:
    rows = [
        row(12, "Ann lives in Lisbon now"),
        row(13, "she has left the town for good", NEAR),
        row(14, "where does Ann live?", conversation="s"),
        row(15, "by the sea, they say", conversation="s"),
        row(16, "by the sea, they say", conversation="t"),
        row(17, "the printer is out of ink"),
        row(18, "is the printer working?", conversation="u"),
        row(19, "by the sea, they say", conversation="u"),
    ]
    found = weights(rows, layer=layer)
    assert {12, 13, 14, 15} <= found.keys()
    assert not {16, 17, 18, 19} & found.keys()
    assert found[12] > found[15]


def test_what_was_there_before_and_what_was_retired_since_weighs_nothing() -> None:
    rows = [row(12, "Ann lives in Oslo"), row(13, "Ann lives in Bonn", weight=0.0)]
    assert weights(rows).keys() == {12}
    index = BankIndex()
    index.add(Layer.EPISODES, rows)
    assert not index.find_later_rows(BankHeads(11, 0), BankHeads(13, 0), asked(HOME)).rows


def test_what_a_row_weighs_does_not_depend_on_what_else_came_later() -> None:
    alone = weights([row(12, "Ann lives in Lisbon now")])[12]
    crowd = [row(at, f"Ann lives in town{at}", NEAR) for at in range(13, 60)]
    assert weights([row(12, "Ann lives in Lisbon now"), *crowd])[12] == alone


def test_a_rare_word_weighs_more_than_one_that_many_rows_have() -> None:
    rows = [row(12, "some weather1 it was"), row(13, "something about this")]
    found = weights(rows, "Is it about weather1?")
    assert found[12] > found.get(13, 0.0)


def test_a_row_without_a_vector_is_told_where_its_vector_may_decide() -> None:
    found = later([row(12, "she left for good", None), row(13, "she left for good", FAR)])
    assert [(each.number, each.embedded) for each in found.rows] == [(12, False)]
    assert not later([row(12, "she left for good", None)], sense=0.04).rows


def test_vectors_count_as_much_as_they_say() -> None:
    sure, vague = (later([row(12, "Ann left for good", NEAR)], sense=each) for each in (1.0, 0.5))
    assert sure.rows[0].weight > vague.rows[0].weight


def test_in_a_bank_that_is_about_one_thing_the_bars_are_higher() -> None:
    index, heads = BankIndex(), BankHeads(30, 0)
    index.add(Layer.EPISODES, [row(at, f"Ann lives in town{at}", NEAR) for at in range(1, 31)])
    index.add(Layer.EPISODES, [row(31, "hello")])
    found = index.find_later_rows(heads, heads, asked(HOME))
    assert found.thresholds.doubted > later([row(12, "hello")]).thresholds.doubted


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Wo wohnt Anna?", "Anna wohnte in Rom"),
        ("Où habitent les voisins ?", "le voisin habitait ici"),
        ("安娜住在哪里？", "安娜搬到罗马"),
        ("アンナはどこですか？", "アンナは引っ越した"),
        ("أين تسكن آنا؟", "تسكن في روما"),
    ],
)
def test_words_are_found_in_other_languages_and_without_spaces(question: str, text: str) -> None:
    held = set(np.frombuffer(stored_terms(text, text), np.uint32).tolist())
    assert any(not held.isdisjoint(word) for word in question_stems(question))
