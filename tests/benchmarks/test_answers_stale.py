"""What the benchmark of stale answers says of the turns that it measures on."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.answers_stale import LEAST_SURVIVAL, Size, report
from benchmarks.interleaved import Outcomes
from benchmarks.later_turns import QuestionFeatures
from circadia.memory.search import later_rows

TOLD = {"SQLite": Outcomes(), "PostgreSQL": Outcomes(stale=2)}
GIVEN = Size(data=Path("talks.json"))


def part(seed: int) -> list[QuestionFeatures]:
    """Return one question beside forty turns, of which a quarter is evidence."""
    draw = np.random.default_rng(seed)
    evidence = np.arange(40) % 4 == 0
    rows = later_rows.RowFeatures(*(draw.random(40) for _ in range(len(later_rows.RowFeatures._fields))))
    return [QuestionFeatures(rows=rows, usual=0.2, evidence=evidence, outcomes=3 * evidence, person=~evidence)]


@pytest.mark.parametrize(
    ("fitted", "tested", "told", "left_out"),
    [
        (True, True, "The turns are the test part", "of that part"),
        (True, False, "say nothing of others", "The turns are the test part"),
        (False, True, "of the same turns", "say nothing of others"),
    ],
)
def test_it_says_of_which_part_the_turns_are(fitted: bool, tested: bool, told: str, left_out: str) -> None:
    made = report(GIVEN, part(1) if fitted else [], part(2) if tested else [], TOLD, {})
    said = made.notes[-1]
    assert told in said
    assert left_out not in said


@pytest.mark.parametrize("tested", [True, False])
def test_what_survives_is_a_goal_of_turns_that_were_not_fitted_on(tested: bool) -> None:
    made = report(GIVEN, part(1), part(2) if tested else [], TOLD, {})
    goals = [goal for goal in made.goals if "single turns" in goal.what]
    assert [goal.limit for goal in goals] == [LEAST_SURVIVAL] * tested


@pytest.mark.spec("ANS-04")
def test_what_is_stale_is_told_of_each_database() -> None:
    made = report(GIVEN, part(1), part(2), TOLD, {}, ["PostgreSQL is slow."])
    assert [goal.met for goal in made.goals if "stale" in goal.what] == [True, False]
    assert [note.partition(":")[0] for note in made.notes[:2]] == ["SQLite", "PostgreSQL"]
    assert "PostgreSQL is slow." in made.notes
