"""Fifty passes over the same history lose nothing that one pass keeps (SLEEP-71)."""

from pathlib import Path

import pytest

from benchmarks import dream_losses
from benchmarks.talks import KINDS, talk


@pytest.mark.timeout(600)
@pytest.mark.spec("SLEEP-71")
@pytest.mark.parametrize("passes", [8, pytest.param(50, marks=pytest.mark.slow)])
async def test_questions_are_answered_after_many_passes_as_well_as_after_one(tmp_path: Path, passes: int) -> None:
    report = await dream_losses.run(tmp_path, dream_losses.Size(turns=80, of_each=5, passes=(1, passes)))
    for mind in dream_losses.MINDS:
        bare, once, often = (report.figures[f"{mind}, {count}"] for count in (0, 1, passes))
        for kind in KINDS:
            assert once[kind] >= bare[kind], f"{kind} with {mind}"
            assert often[kind] >= once[kind], f"{kind} with {mind}"
        assert often["notes"] > 0


def test_a_made_up_talk_is_the_same_for_a_seed_and_tells_what_is_asked() -> None:
    one, same, other = talk(1, turns=60, of_each=4), talk(1, turns=60, of_each=4), talk(2, turns=60, of_each=4)
    assert one == same != other
    assert [each.kind for each in one.questions].count("date") == 4
    for question in one.questions:
        told = [each for each in one.turns if question.holds[0] in each.text]
        assert len(told) == 1, "each thing is told once"
