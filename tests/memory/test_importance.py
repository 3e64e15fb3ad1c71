"""What is content, and what is worth more than other content."""

import pytest

from circadia.memory.capture.importance import importance, is_content


@pytest.mark.spec("MEM-18")
@pytest.mark.parametrize("text", ["", "  ", "ok", "OK!", "Thanks a lot :)", "👍", "...", "hello", "Danke", "go on"])
def test_what_only_greets_or_acknowledges_is_no_content(text: str) -> None:
    assert not is_content(text)
    assert importance(text) == 0.0


@pytest.mark.parametrize("text", ["yes", "no", "Paris", "42", "Danke, am Montag", "ok, delete it", "日本語"])
def test_what_answers_or_tells_something_is_content(text: str) -> None:
    assert is_content(text)
    assert 0 < importance(text) <= 1


@pytest.mark.spec("MEM-18")
@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("Remember that I am allergic to nuts", "The weather seems nice over there"),
        ("My flight is on 3 May", "Flights are often late"),
        ("we met with Wanda in the office", "they met with her in the office"),
        ("the build takes a while on this machine, and mostly since the tests wait for disks", "the build"),
        ("the plan is fine", "is the plan fine?"),
    ],
)
def test_figures_names_own_matters_and_wishes_to_remember_score_more(more: str, less: str) -> None:
    assert importance(more) > importance(less)


@pytest.mark.timeout(20)
def test_a_text_of_any_length_takes_no_long_time() -> None:
    assert importance("my 1 Word " * 100_000) <= 1
