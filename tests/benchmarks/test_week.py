"""A made-up week with a model that is never wrong: what is true is kept, and nothing false is (SLEEP-83)."""

from pathlib import Path

import pytest

from benchmarks.week import ERRORS, LANGUAGES, build_report, live_week
from benchmarks.week_model import read_week
from benchmarks.week_page import tell


@pytest.mark.spec("SLEEP-83", "SLEEP-84")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_week_of_a_model_that_is_never_wrong_is_kept_and_answers_what_is_asked(
    tmp_path: Path, language: str
) -> None:
    week = await live_week(tmp_path, language)
    assert (week.notes, week.refused, week.lost) == (36, [], [])
    assert [*week.false_lines.values()] == [[]] * 7
    assert (week.by_block, week.by_context, week.foreign) == ([], [], 0)
    assert len(week.seen) == 12


@pytest.mark.spec("SLEEP-83")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2, 3))])
async def test_a_judge_that_is_wrong_in_10_percent_leaves_an_old_line_a_little_longer_and_nothing_that_never_was_true(
    tmp_path: Path, language: str, seed: int
) -> None:
    week, true = await live_week(tmp_path, language, errors=ERRORS, seed=seed), read_week(language)
    assert week.refused, "else the judge was never wrong"
    for day, lines in week.false_lines.items():
        assert len(lines) <= 2
        assert all(any(true.line_is_true(line, before) for before in range(1, day)) for line in lines)
    assert len(week.lost) <= 2
    assert len(week.by_block) <= 5


async def test_the_page_tells_each_day_with_what_was_kept_refused_and_seen(tmp_path: Path) -> None:
    errs = f", the judge errs {ERRORS:.0%}"
    weeks = {"en": await live_week(tmp_path, "en"), f"en{errs}": await live_week(tmp_path, "en", errors=ERRORS)}
    page = "\n".join(tell(build_report(weeks).figures))
    assert [f"## Day {day}, " in page for day in range(1, 8)] == [True] * 7
    for day in weeks["en"].days:
        assert all(f"* {note}" in page for note in day.kept)
    for day in weeks[f"en{errs}"].days:
        assert all(f"{text} ({why})" in page for text, why in day.refused)
    assert "handbook (external)" in page
    assert weeks["en"].seen[0][0] in page
