"""Questions changed by rule."""

import pytest

from benchmarks.minimal_edits import RULES, make_minimal_edits

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
NO_EDIT: set[str] = set()
QUESTIONS = (
    "Which trains go from Rome to Milan on 3 Fridays?",
    "Do all cats chase mice in London before Monday?",
    "Is the best parcel under 5 kg?",
    "What is 5 + 3 in words?",
    "Can I send my 20 GB file to a plan B user?",
    "Do I have to lock the five doors and windows for two nights?",
    "Who ran 30 miles in my shoes today?",
    "Did I write to Ann when the mill burnt in May?",
    "Do you sing with Bob?",
)


@pytest.mark.spec("ANS-09")
def test_a_seed_gives_the_same_edits_and_each_rule_changes_something() -> None:
    edits = list(make_minimal_edits(QUESTIONS, 1))
    assert edits == list(make_minimal_edits(QUESTIONS, 1))
    assert edits != list(make_minimal_edits(QUESTIONS, 2))
    assert all(each.before != each.after for each in edits)
    assert {each.kind for each in edits} == RULES.keys()


def test_edits_of_one_kind_are_those_that_come_with_all() -> None:
    every = [each for each in make_minimal_edits(QUESTIONS, 1) if each.kind == "direction"]
    assert list(make_minimal_edits(QUESTIONS, 1, ["direction"])) == every
    assert every[0].after == "Which trains go from Milan to Rome on 3 Fridays?"


@pytest.mark.parametrize(
    ("kind", "question", "edits"),
    [
        ("tense", "Who owns the mill?", {"Who owned the mill?"}),
        ("tense", "Is the mill shut?", {"was the mill shut?", "has been the mill shut?"}),
        ("person", "Did you call Ann?", {"Did I call Ann?"}),
        ("person", "How do I paint a boat?", NO_EDIT),
        ("duty", "How much do I have to pay?", {"How much do I pay?"}),
        ("duty", "How do I pay?", NO_EDIT),
        (
            "preposition",
            "Who sings with Ann?",
            {f"Who sings {each}Ann?" for each in ("for ", "about ", "against ", "to ", "")},
        ),
        (
            "conjunction",
            "Does it ring if the door opens?",
            {f"Does it ring {each} the door opens?" for each in ("when", "because", "that")},
        ),
        ("date", "Is it shut in May?", {f"Is it shut in {each}?" for each in MONTHS if each != "May"}),
    ],
)
def test_an_edit_changes_time_person_duty_or_part(kind: str, question: str, edits: set[str]) -> None:
    made = {each.after for seed in range(40) for each in make_minimal_edits([question], seed, [kind])}
    assert made <= edits
    assert bool(made) == bool(edits)
