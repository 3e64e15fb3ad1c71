"""The hand-written questions in seven languages are complete and consistent."""

import unicodedata
from collections import Counter
from typing import get_args

import pytest

from benchmarks.language_suite import NearMissKind, SuiteQuestion, load_language_suite

LANGUAGES = ("en", "de", "fr", "es", "zh", "ja", "ar")
QUESTIONS = load_language_suite()
EACH_QUESTION = pytest.mark.parametrize(
    "expected", QUESTIONS, ids=[f"{each.language}-{index % 12 + 1}" for index, each in enumerate(QUESTIONS)]
)


def fold_width(character: str) -> str:
    wide = unicodedata.decomposition(character).startswith(("<wide>", "<narrow>"))
    return unicodedata.normalize("NFKC", character) if wide else character


def normalise(text: str) -> str:
    folded = unicodedata.normalize("NFC", "".join(map(fold_width, unicodedata.normalize("NFC", text))))
    words = " ".join(folded.split())
    return (words[:-1] if words.endswith(("?", "؟", "。", ".")) else words).rstrip()


def same_questions(expected: SuiteQuestion) -> list[str]:
    return [expected.question, *expected.phrasings, *expected.paraphrases]


@pytest.mark.spec("ANS-12")
def test_each_language_has_twelve_expected_questions_and_two_of_them_need_their_conversation() -> None:
    assert Counter(each.language for each in QUESTIONS) == dict.fromkeys(LANGUAGES, 12)
    assert Counter(each.language for each in QUESTIONS if not each.stands_alone) == dict.fromkeys(LANGUAGES, 2)


@EACH_QUESTION
def test_a_question_has_two_variants_of_each_sort_and_five_near_misses(expected: SuiteQuestion) -> None:
    assert (len(expected.same_words), len(expected.paraphrases), len(expected.phrasings)) == (2, 2, 2)
    assert len(expected.near_misses) >= 5


@EACH_QUESTION
def test_the_same_words_differ_in_form_only(expected: SuiteQuestion) -> None:
    assert len({expected.question, *expected.same_words}) == 3
    assert {normalise(each) for each in expected.same_words} == {normalise(expected.question)}


@EACH_QUESTION
def test_a_near_miss_has_other_words_than_what_asks_the_same(expected: SuiteQuestion) -> None:
    same = {normalise(each) for each in same_questions(expected)}
    assert len(same) == 5
    assert same.isdisjoint(normalise(each.question) for each in expected.near_misses)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_question_of_a_language_is_there_twice(language: str) -> None:
    questions = [each for each in QUESTIONS if each.language == language]
    texts = [text for each in questions for text in same_questions(each)]
    texts += [miss.question for each in questions for miss in each.near_misses]
    assert [text for text, count in Counter(map(normalise, texts)).items() if count > 1] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_each_kind_of_near_miss(language: str) -> None:
    kinds = {miss.kind for each in QUESTIONS if each.language == language for miss in each.near_misses}
    assert kinds == set(get_args(NearMissKind))
