"""A second look at two questions: which it refuses, and that it is the same in either order."""

import hashlib
import math

import numpy as np
import pytest

from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.answers.likeness import Likeness, Trees
from circadia.memory.answers.second_look import Looks, Model, SecondLook, Weighed, fitted
from circadia.memory.columns import Array
from circadia.memory.embedding.bundled import WordTable
from circadia.testing.minimal_edits import minimal_edits
from tests.memory.answers.test_lookup import QUESTIONS

pytestmark = pytest.mark.spec("ANS-02")


class Encoder(LocalEncoder):
    """Gives each word the same vectors wherever it stands, so that it sees nothing but words: seven layers of them."""

    def __init__(self, size: int) -> None:
        """Load nothing."""
        self._size = size

    def states(self, text: str) -> tuple[list[str], Array]:
        """Return the words and their vectors."""
        words = ["[CLS]", *text.lower().replace("?", " ?").split(), "[SEP]"]
        seeds = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) for word in words]
        one = np.array([np.random.default_rng(seed).normal(size=self._size) for seed in seeds])
        return words, np.array([one + 3 for _ in range(7)])


SIZES = {"minilm": 384, "mpnet": 768}


@pytest.fixture(scope="module", params=SIZES)
def look(request: pytest.FixtureRequest, words: WordTable, likeness: Likeness) -> SecondLook:
    return SecondLook(Looks(words, likeness, Encoder(SIZES[request.param])), fitted(request.param))


def test_it_is_as_sure_in_either_order_and_sees_how_near_the_words_are(
    look: SecondLook, words: WordTable, likeness: Likeness
) -> None:
    known = "How do I reset the password of my account?"
    same, other = "How do I reset the password of my account please?", "How do I close the window of my room?"
    for asked in (same, other):
        assert look.confidence(asked, known) == pytest.approx(look.confidence(known, asked), abs=1e-9)
        assert 0 < look.confidence(asked, known) < 1
    looks = Looks(words, likeness, Encoder(384))
    near, far = looks(same, known), looks(other, known)
    assert near is not None
    assert far is not None
    for layer in range(7):
        for kind in ("whole", "core", "all, worse", "telling, worse", "all, worst of the worse"):
            assert near.values[f"{layer}: {kind}"] > far.values[f"{layer}: {kind}"]


@pytest.mark.parametrize(
    "asked",
    [
        "Which trains go from Milan to Rome on Friday?", "Which trains go from Rome to Milan on Monday?",
        "Which trains do not go from Rome to Milan on Friday?", "Which trains go from Rome to Turin on Friday?",
        "Which 3 trains go from Rome to Milan on Friday?", "Which trains went from Rome to Milan on Friday?",
    ],
)  # fmt: skip
def test_what_a_guard_forbids_it_refuses_however_near_it_is(look: SecondLook, asked: str) -> None:
    assert look.confidence(asked, "Which trains go from Rome to Milan on Friday?") == 0


@pytest.mark.parametrize(
    ("known", "asked", "sure"),
    [
        ("How can I teach chess?", "How can I learn chess?", 0.8),
        ("Where can I push the cart?", "Where can I pull the cart?", 0.8),
        ("How can I learn chess?", "How can I learn chess quickly?", 0.9),
        ("How can I learn chess?", "How can somebody learn chess?", 0.9),
    ],
)
def test_it_has_to_be_surer_where_one_word_stands_in_the_place_of_another(
    words: WordTable, likeness: Likeness, known: str, asked: str, sure: float
) -> None:
    looked = Looks(words, likeness, Encoder(384))(asked, known)
    assert looked is not None
    nothing, told = [0.0] * len(looked.values), math.log(9)
    trees = Trees(start=told, features=[[0]], cuts=[[0.0]], leaves=[[0.0, 0.0]])
    of_all = Weighed(
        intercept=told, means=nothing, scales=[1.0] * len(nothing), weights=nothing, along=[0.0] * 384,
        apart=[0.0] * 384, trees=trees,
    )  # fmt: skip
    assert Model(of_all).confidence(looked) == pytest.approx(sure)


@pytest.mark.parametrize("look", ["minilm"], indirect=True)  # to the larger one these words look like one another
def test_no_question_changed_in_one_small_thing_is_the_same(look: SecondLook) -> None:
    edits = list(minimal_edits(QUESTIONS, 3))
    assert [each for each in edits if look.confidence(each.after, each.before) >= 0.8] == []
    assert len(edits) > 50
