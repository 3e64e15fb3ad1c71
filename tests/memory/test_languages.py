"""What is said in a language is found by a question with other forms of its words."""

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.memory import languages
from circadia.memory.languages import stems
from circadia.memory.search.terms import question_words, stored_terms
from tests.interaction.live import live
from tests.memory.said_in import SAID_IN


async def recall(folder: Path) -> dict[str, float]:
    """Return the share of questions whose turn is among the first three, by language; all are in one bank."""
    async with live(folder, memory={"embedder": {"kind": "none"}}) as running:
        assert (await running.rest("POST", "/banks", {"name": "team"}))[0] == 201
        for each in SAID_IN.values():
            for text, _ in each:
                assert (await running.rest("POST", "/banks/team/episodes", {"text": text}))[0] == 201
        found: dict[str, float] = {}
        for language, each in SAID_IN.items():
            hits = 0
            for text, question in each:
                answer = (await running.rest("GET", f"/banks/team/search?limit=3&q={question}"))[1]
                hits += text in [hit["text"] for hit in answer["hits"]]
            found[language] = hits / len(each)
        return found


@pytest.mark.spec("MEM-05")
async def test_what_was_said_is_found_by_other_forms_of_its_words_in_its_language(tmp_path: Path) -> None:
    found = await recall(tmp_path)
    least = {"German": 1.0, "French": 1.0, "Spanish": 0.9, "Chinese": 1.0, "Japanese": 1.0, "English": 1.0}
    assert {name: share for name, share in found.items() if share < least[name]} == {}


@pytest.mark.spec("MEM-05")
@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Besprechungen", "Besprechung"),
        ("Wo wohnen die Schwestern?", "Schwester"),
        ("Les chevaux sont dehors.", "cheval"),
        ("встречи с клиентом", "встреча"),
        ("Talot ovat vanhoja", "talossa"),
        ("kitapları masada", "kitaplar"),
        ("la fecha de las reuniones", "REUNIÓN"),
    ],
)
def test_a_single_word_meets_another_form_of_it_however_short_the_text(text: str, question: str) -> None:
    stored = np.frombuffer(stored_terms(text, text), np.uint32).tolist()
    assert not set(question_words(question)[0]).isdisjoint(stored)


@given(st.text(max_size=80))
def test_what_is_asked_word_for_word_is_found_in_any_text(text: str) -> None:
    asked, stored = question_words(text)[0], np.frombuffer(stored_terms(text, text), np.uint32).tolist()
    assert not asked or not set(asked).isdisjoint(stored)


@pytest.mark.parametrize("text", ["", "42", "🎉", "合同", "\ud800", "x" * 100_000, "ж" * 100_000, "a " * 100_000])
def test_any_text_has_languages_and_takes_no_long_time(text: str) -> None:
    began = time.process_time()
    stored_terms(text, text)
    assert time.process_time() - began < 2


def test_a_long_question_of_no_language_is_not_asked_in_each_of_them() -> None:
    def asked(words: int) -> int:
        text = " ".join(f"w{chr(97 + at % 26)}{chr(97 + at // 26)}x" for at in range(words))
        return len(list(stems(text, asked=True)))

    assert asked(1) > 20, "one word may be of any language"
    assert asked(250) <= 3 * 250
    assert asked(600) == asked(300) * 2


FEW_WORDS = "|x|I like it|¿Dónde está la biblioteca?|где мой кот|私は東京に住んでいます|مرحبا بك|ééééé|ßßßßß|😀😀😀"


@pytest.mark.parametrize("text", FEW_WORDS.split("|"))
def test_languages_are_ranked_as_the_library_does(text: str) -> None:
    found = languages._rank_languages(text)  # pyright: ignore[reportPrivateUsage]
    ranked = languages._identifier().rank(text)  # pyright: ignore[reportPrivateUsage]
    assert dict(found) == pytest.approx({language: float(part) for language, part in ranked}, abs=1e-4)
