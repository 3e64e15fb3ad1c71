"""Expected questions: found by their text, proposed by their vectors, each in its own conversation."""

import pytest

from benchmarks.language_suite import load_language_suite
from circadia.answers.index import AnswerIndex
from circadia.evaluation.judging import load_english_pairs
from circadia.ids import AnswerId
from circadia.records.answer import AnswerableQuestion, MatchKind


def expected(key: str, *phrasings: str, conversation: str | None = None, confidence: float = 0.9) -> AnswerableQuestion:
    return AnswerableQuestion(id=AnswerId(key), phrasings=phrasings, confidence=confidence, conversation=conversation)


@pytest.mark.spec("ANS-02")
def test_each_phrasing_finds_its_answer_and_one_that_was_replaced_or_removed_finds_none(index: AnswerIndex) -> None:
    index.add([expected("1", "When do you open?", "Opening time?"), expected("2", "Who pays?")])
    for question, found in (("When do you open", "1"), ("Opening  time ？", "1"), ("Who pays?", "2")):
        match = index.find_exact(question)
        assert match is not None
        assert (match.answer, match.kind, match.similarity) == (found, MatchKind.EXACT, 1.0)
    assert index.find_exact("who pays?") is None, "case counts"
    index.add([expected("1", "When do you close?")])
    assert index.find_exact("When do you open?") is None
    assert index.find_exact("When do you close?") is not None
    index.remove(["1", "2", "3"])  # pyright: ignore[reportArgumentType]
    assert (index.find_exact("Who pays?"), list(index.find_similar("Who pays?", min_similarity=-1.0)), len(index)) == (
        None, [], 0,
    )  # fmt: skip


@pytest.mark.spec("ANS-02")
def test_a_question_that_does_not_stand_alone_is_found_in_its_own_conversation_only(index: AnswerIndex) -> None:
    index.add([expected("1", "Und der zweite?", conversation="c1"), expected("2", "Wer zahlt?")])
    for conversation, found in (("c1", True), ("c2", False), (None, False)):
        assert (index.find_exact("Und der zweite?", conversation) is not None) is found
        similar = index.find_similar("Und der zweite", conversation, min_similarity=0.5)
        assert ([each.answer for each in similar] == ["1"]) is found


def test_of_several_with_the_same_text_the_likeliest_is_found_and_others_after_it(index: AnswerIndex) -> None:
    index.add([expected("1", "Who pays?", confidence=0.2), expected("2", "Who pays?", confidence=0.7)])
    found = [index.find_exact("Who pays?", without=without) for without in (set[AnswerId](), {AnswerId("2")})]
    assert [each and each.answer for each in found] == ["2", "1"]
    assert index.find_exact("Who pays?", without={AnswerId("1"), AnswerId("2")}) is None


@pytest.mark.spec("ANS-02")
def test_candidates_are_one_for_each_answer_and_those_with_a_conflict_come_last(index: AnswerIndex) -> None:
    index.add([
        expected("1", "Where does Bob live?", "In which town does Bob live?"), expected("2", "Where does Anna work?"),
        expected("3", "Where is Anna's home?"),
    ])  # fmt: skip
    found = index.find_similar("Where does Anna live?", min_similarity=0.3)
    assert [(each.answer, bool(each.conflict)) for each in found] == [("2", False), ("3", False), ("1", True)]
    assert found[-1].conflict == "anna against bob"


def test_an_index_whose_rows_are_mostly_removed_is_built_anew_and_finds_the_same(index: AnswerIndex) -> None:
    index.add(expected(str(at), f"What is in box {at}?") for at in range(400))
    index.remove([AnswerId(str(at)) for at in range(300)])
    match = index.find_exact("What is in box 350?")
    assert match is not None
    assert (match.answer, len(index), index.find_exact("What is in box 3?")) == ("350", 100, None)


@pytest.mark.spec("ANS-12")
@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "zh", "ja", "ar"])
def test_in_each_language_a_paraphrase_finds_its_question_among_the_candidates(
    index: AnswerIndex, language: str
) -> None:
    suite = [each for each in load_language_suite() if each.language == language]
    index.add(expected(each.question, each.question) for each in suite)
    asked = [(text, each.question) for each in suite for text in each.paraphrases]
    found = [
        any(match.answer == question and not match.conflict for match in index.find_similar(text, min_similarity=0.3))
        for text, question in asked
    ]
    assert sum(found) >= 0.8 * len(asked)


@pytest.mark.spec("ANS-02")
def test_clearly_reworded_english_questions_are_candidates(index: AnswerIndex) -> None:
    pairs = [each for each in load_english_pairs() if each.same]
    index.add(expected(each.first, each.first) for each in pairs)
    found = [
        any(match.answer == each.first for match in index.find_similar(each.second, min_similarity=0.3))
        for each in pairs
    ]
    assert sum(found) >= 0.8 * len(pairs)
