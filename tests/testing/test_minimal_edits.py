"""Questions changed by rule."""

import pytest

from circadia.testing.minimal_edits import RULES, minimal_edits

QUESTIONS = (
    "Which trains go from Rome to Milan on 3 Fridays?",
    "Do all cats chase mice in London before Monday?",
    "Is the best parcel under 5 kg?",
    "What is 5 + 3 in words?",
    "Can I send my 20 GB file to a plan B user?",
    "Do I have to lock the five doors and windows for two nights?",
    "Who ran 30 miles in my shoes today?",
)


@pytest.mark.spec("ANS-09")
def test_a_seed_gives_the_same_edits_and_each_rule_changes_something() -> None:
    edits = list(minimal_edits(QUESTIONS, 1))
    assert edits == list(minimal_edits(QUESTIONS, 1))
    assert edits != list(minimal_edits(QUESTIONS, 2))
    assert all(each.before != each.after for each in edits)
    assert {each.kind for each in edits} == RULES.keys()


def test_edits_of_one_kind_are_those_that_come_with_all() -> None:
    every = [each for each in minimal_edits(QUESTIONS, 1) if each.kind == "direction"]
    assert list(minimal_edits(QUESTIONS, 1, ["direction"])) == every
    assert every[0].after == "Which trains go from Milan to Rome on 3 Fridays?"
