"""What one more statement does to an answer, in seven languages; the same in talks is measured by `answers_stale`."""

import pytest

from benchmarks.later_turns import changed, left, suite
from circadia.memory.embedding.bundled import BundledEmbedder

LANGUAGES = {"en", "de", "fr", "es", "zh", "ja", "ar"}


@pytest.mark.spec("ANS-04")
async def test_statements_that_change_an_answer_keep_it_from_being_served_and_most_others_leave_it() -> None:
    found = await suite(BundledEmbedder())
    assert found.keys() == LANGUAGES
    for code, each in found.items():
        english = code == "en"
        assert changed(each, judged=False) >= (80 if english else 40), code
        assert changed(each, judged=True) >= (88 if english else 44), code
        assert left(each, "unrelated", judged=False) >= 85, code
        assert left(each, "others", judged=False) >= 85, code
        assert left(each, "findings", judged=False) >= 90, code
        assert left(each, "same person", judged=True) >= 90, code
