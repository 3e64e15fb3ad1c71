"""Contexts read from JSON Lines, in the paper's format, and whether an answer is the key."""

import json
from pathlib import Path

import pytest

from circadia.errors import InvalidRequest, NotFound
from circadia.evaluation.dataset import KeyedQuestion, dump_cases, estimate_predictability, load_cases, matches_key
from circadia.evaluation.generator import generate_cases

pytestmark = pytest.mark.spec("ANS-10")

GSM = {
    "question": "Ann has 3 pears. She buys 4. How many has she?",
    "stateful_gsm_symbolic_context": "Ann has 3 pears. She buys 4.",
    "stateful_gsm_symbolic_question": "How many has she?",
    "answer": "She has 3 + 4 = <<3+4=7>>7.\n#### 7",
    "id": 12,
}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "data.jsonl"
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines), "utf-8")
    return path


def test_the_papers_lines_are_read_and_those_of_one_context_are_put_together(tmp_path: Path) -> None:
    other = GSM | {"stateful_gsm_symbolic_question": "How many did she buy?", "answer": "#### 4"}
    aime = {"stateful_aime_context": "Let x = 5.", "stateful_aime_question": "What is 2x?", "answer": 10}
    first, second = load_cases(written(tmp_path, GSM, "", aime, other))
    assert first.context == "Ann has 3 pears. She buys 4."
    assert [(each.text, each.key) for each in first.questions] == [
        ("How many has she?", "7"),
        ("How many did she buy?", "4"),
    ]
    assert [(each.text, each.key) for each in second.questions] == [("What is 2x?", "10")]


def test_several_questions_may_stand_in_one_line_and_a_whole_problem_is_divided_as_the_paper_does(
    tmp_path: Path,
) -> None:
    several = {
        "context": "C.",
        "questions": [{"question": "A?", "answer": "1", "predictability": 0.4}, {"question": "B?", "answer": 2}],
    }
    beside = {"context": "D.", "questions": ["A?", "B?"], "answers": ["x", "y"]}
    whole = {"question": "Ann has 3 pears. She buys 4. How many has she?", "answer": "#### 7"}
    found = load_cases(written(tmp_path, several, beside, whole))
    assert [[(each.text, each.key, each.likely) for each in case.questions] for case in found] == [
        [("A?", "1", 0.4), ("B?", "2", None)],
        [("A?", "x", None), ("B?", "y", None)],
        [("How many has she?", "7", None)],
    ]
    assert found[2].context == "Ann has 3 pears. She buys 4."


def test_what_is_written_is_read_again_as_it_was(tmp_path: Path) -> None:
    cases = generate_cases(8, 4, 5)
    path = tmp_path / "made.jsonl"
    path.write_text(dump_cases(cases), "utf-8")
    found = load_cases(path)
    assert [(each.context, each.questions) for each in found] == [(each.context, each.questions) for each in cases]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "Expecting"),
        ("[1]", "object"),
        ({"context": "C."}, "'question'"),
        ({"context": " ", "question": "Q?", "answer": "1"}, "'context'"),
        ({"context": "C.", "question": "Q?"}, "'answer'"),
        ({"context": "C.", "question": "Q?", "answer": True}, "'answer'"),
        ({"context": "C.", "question": "Q?", "answer": "#### "}, "empty"),
        ({"context": "C.", "questions": []}, "list"),
        ({"context": "C.", "questions": ["A?"], "answers": ["1", "2"]}, "1 questions and 2 answers"),
        ({"context": "C.", "questions": ["A?"]}, "question 1"),
        ({"context": "C.", "question": "Q?", "answer": "1", "predictability": 2}, "predictability"),
        ({"question": "One sentence?", "answer": "1"}, "context"),
    ],
)
def test_a_bad_line_is_told_with_its_number(tmp_path: Path, line: object, told: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        load_cases(written(tmp_path, GSM, "", line))
    assert "line 3" in raised.value.message
    assert told in raised.value.message


def test_a_file_that_is_missing_empty_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        load_cases(tmp_path / "nothing.jsonl")
    with pytest.raises(InvalidRequest, match="empty"):
        load_cases(written(tmp_path, "", " "))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{")
    with pytest.raises(InvalidRequest, match="UTF-8"):
        load_cases(tmp_path / "bytes")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        load_cases(tmp_path)


def test_how_likely_a_question_is_comes_from_the_data_or_from_its_words() -> None:
    context = "Ann keeps three rabbits behind the barn."
    assert estimate_predictability(KeyedQuestion(text="Whatever?", key="1", likely=0.25), context) == 0.25
    near, far = (
        KeyedQuestion(text="Who keeps rabbits?", key="Ann"),
        KeyedQuestion(text="Which bridge is longest?", key="none"),
    )
    assert estimate_predictability(near, context) == 1
    assert estimate_predictability(far, context) == 0
    assert estimate_predictability(KeyedQuestion(text="?", key="1"), context) == 0


@pytest.mark.parametrize(
    ("answer", "key", "is_right"),
    [
        ("42", "42", True),
        ("$1,200.00", "1200", True),
        ("3 + 4 = 7.", "7", True),
        ("7 of 9", "7", False),
        ("-3", "3", False),
        ("about", "3", False),
        ("at 09:05.", "9:05", True),
        ("09:15", "09:05", False),
        ("Greta", "greta", True),
        ("It is Greta.", "Greta", True),
        ("Gretas", "Greta", False),
        ("Anna Berta Clara Doris Elena Frieda Greta Hilda Igor Jonas Karla Leo Mona Nils", "Greta", False),
        ("", "Greta", False),
        ("?!", "?!", True),
    ],
)
def test_an_answer_is_the_key_or_is_not(answer: str, key: str, is_right: bool) -> None:
    assert matches_key(answer, key) is is_right
