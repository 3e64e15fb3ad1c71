"""Which texts are the same question, in any language."""

import pytest

from benchmarks.language_suite import load_language_suite
from circadia.answers.question_text import normalize, only_asks


@pytest.mark.spec("ANS-02")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("When do you open?", "When  do you open ？"),
        ("When do you open?", "\tWhen do you open\n"),
        ("Ｗｈｅｎ do you open?", "When do you open"),
        ("Cafe\u0301 Nord?", "Caf\u00e9 Nord"),
        ("ﾒｰﾙｱﾄﾞﾚｽは？", "メールアドレスは"),
        ("متى تفتحون؟", "متى تفتحون"),
        ("营业到几点？", "营业到几点。"),
        ("Show the list.", "Show the list"),
    ],
)
def test_white_space_width_composition_and_a_closing_mark_do_not_count(first: str, second: str) -> None:
    if "？" in first and "。" in second:
        assert not normalize(first).equals(normalize(second)), "one asks, the other states"
    else:
        assert normalize(first).equals(normalize(second))


@pytest.mark.spec("ANS-02")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Is it closed on Mondays?", "It is closed on Mondays."),
        ("You close on Mondays?", "You close on Mondays."),
        ("What is in US?", "What is in us?"),
        ("Is x² right?", "Is x2 right?"),
        ("Is ½ enough?", "Is 12 enough?"),
        ("Is ① enough?", "Is 1 enough?"),
        ("Who said: go?", "Who said go?"),
        ("resume", "résumé"),
        ("Is it 1.5?", "Is it 15?"),
        ("What does C# mean by ??", "What does C# mean by ?"),
        ("What does ?. mean in it, and what does ..", "What does ?. mean in it, and what does ."),
    ],
)
def test_case_inner_marks_and_other_signs_count(first: str, second: str) -> None:
    assert not normalize(first).equals(normalize(second))


@pytest.mark.spec("ANS-12")
@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "zh", "ja", "ar"])
def test_the_same_words_are_the_same_question_in_each_language_and_no_near_miss_is(language: str) -> None:
    found = [each for each in load_language_suite() if each.language == language]
    assert len(found) == 12
    for each in found:
        asked = normalize(each.question)
        for same in map(normalize, each.same_words):
            assert same.text == asked.text, each.question
            assert asked.equals(same) is ({asked.closing, same.closing} != {"?", "."}), "a full stop states"
        others = [*each.paraphrases, *(near.question for near in each.near_misses)]
        assert not any(asked.equals(normalize(text)) for text in others), each.question


@pytest.mark.parametrize("mark", ["?", "？", "؟", " ?"])
def test_a_question_mark_of_any_script_asks(mark: str) -> None:
    assert only_asks(f"a{mark}")
    assert not only_asks("a.")


@pytest.mark.parametrize("text", ["", "?", " ？ ", "...", "\U0001f600"])
def test_a_text_without_words_is_itself(text: str) -> None:
    assert normalize(text).equals(normalize(text))
