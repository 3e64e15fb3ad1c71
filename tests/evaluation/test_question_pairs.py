"""The hand-written English pairs of `circadia eval judge` are complete and consistent."""

from collections import Counter

import pytest

from circadia.evaluation.judging import load_english_pairs

PAIR_KINDS = {
    "number", "unit", "date", "relative time", "name", "direction", "negation", "comparison", "quantifier", "modality",
    "tense", "person", "agent/patient swap", "preposition", "condition", "opposite verb", "code identifier", "option",
    "part/whole", "why/how/when",
}  # fmt: skip


@pytest.mark.spec("ANS-09")
def test_there_are_sixty_english_paraphrases_and_five_near_misses_of_each_kind() -> None:
    pairs = load_english_pairs()
    assert sum(each.same for each in pairs) == 60
    assert Counter(each.kind for each in pairs if not each.same) == dict.fromkeys(PAIR_KINDS, 5)


def test_no_english_question_is_in_two_pairs() -> None:
    texts = [" ".join(text.split()).rstrip("?.") for each in load_english_pairs() for text in (each.first, each.second)]
    assert [text for text, count in Counter(texts).items() if count > 1] == []
