"""What texts and questions are found by, in many scripts, and of any length."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.memory.search.terms import question_terms, stored_terms, words

MOST = 200_000
LONGEST = 64
QUESTION = 0


def shares(text: str, question: str) -> bool:
    """Return whether the text holds each term of the question."""
    asked = question_terms(question)
    return bool(asked) and set(asked) <= set(np.frombuffer(stored_terms(text), np.uint32).tolist())


@pytest.mark.spec("MEM-05")
@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("She was running late.", "RUN"),
        ("Das ist die Straße", "STRASSE"),
        ("We met at the Café Ångström", "cafe angstrom"),
        ("We met at the cafe\u0301", "café"),
        ("ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("İstanbul is big", "istanbul"),
        ("DAS MAẞ", "maß"),
        ("the number is ４２", "42"),
        ("snake_case_name", "case"),
        ("彼は東京に住んでいます", "東京"),
        ("他住在北京", "北京"),
        ("他住在北京", "京"),
        ("彼がガスを止めた", "か\u3099ガ"),
        ("ฉันชอบกินข้าว", "ข้าว"),
        ("मुझे हिन्दी पसंद है।", "हिन्दी"),
        ("আমি সকাল ভালোবাসি", "সকাল"),
        ("أَهْلًا وَسَهْلًا", "اهلا"),
        ("שָׁלוֹם עולם", "שלום"),
        ("저는 서울에 살아요", "서울에"),
        ("Где моя книга?", "КНИГА"),
        ("emoji 🎉 between words", "emoji between"),
    ],
)
def test_a_word_is_found_in_whatever_form_it_was_written(text: str, question: str) -> None:
    assert shares(text, question)


@pytest.mark.parametrize(("text", "question"), [("दिन", "दान"), ("กา", "กิ"), ("北京", "東京"), ("cat", "dog")])
def test_words_that_differ_in_a_vowel_sign_or_a_character_differ(text: str, question: str) -> None:
    assert not shares(text, question)


def test_a_question_drops_stop_words_unless_it_has_nothing_else() -> None:
    assert question_terms("where is the cat") == question_terms("cat")
    assert question_terms("who are you") == question_terms("who are you you")
    assert len(question_terms("who are you")) == 3
    assert list(question_terms("")) == list(question_terms(" ?! 🎉")) == []


@pytest.mark.parametrize("text", ["Where?", "どこ？", "أين؟", "where? \n"])
def test_a_text_that_ends_with_a_question_says_so_once_at_its_end(text: str) -> None:
    terms = np.frombuffer(stored_terms(text), np.uint32).tolist()
    assert (terms[-1], terms.count(QUESTION)) == (QUESTION, 1)
    assert QUESTION not in question_terms(text)


@pytest.mark.parametrize(
    "text",
    [
        "a" + "\u0301\u0327" * 50_000,
        "a" + "\u0301" * 50_000 + "\u0327" * 50_000,
        "ก" + "\u0e48\u0e38" * 50_000,
        "\u05d0" + "\u05b0\u05bc" * 50_000,
        "\ufdfa" * 100_000,
        "x" * 100_000,
        "記" * 100_000,
    ],
    ids=["accents", "sorted accents", "thai", "hebrew", "ligatures", "one word", "unspaced"],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    terms = stored_terms(text)
    assert time.process_time() - began < 2, "it took 8 to 16 s where marks were sorted"
    assert len(terms) <= 4 * MOST


def test_words_are_cut_where_they_are_no_words() -> None:
    assert [len(word) for word in words("x" * 1000 + " " + "é" * 1000)] == [LONGEST, LONGEST]


@given(st.text(max_size=80))
def test_what_was_stored_is_found_by_its_own_text(text: str) -> None:
    stored = set(np.frombuffer(stored_terms(text), np.uint32).tolist())
    assert set(question_terms(text)) <= stored
    assert all(word for word in words(text))
