"""What shows without a model that two questions differ."""

import pytest

from circadia.answers.question_text import find_conflict, has_identifier


@pytest.mark.spec("ANS-02")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Where does Anna live?", "Where does Bob live?"),
        ("Did Anna pay Bob?", "Did Bob pay Anna?"),
        ("Where is order 12?", "Where is order 13?"),
        ("How do I call get_user?", "How do I call get_users?"),
        ("What does git reset --hard do?", "What does git reset --soft do?"),
        ("What is in /etc/hosts?", "What is in /etc/passwd?"),
        ("What does 'open' mean?", "What does 'closed' mean?"),
        ("What does “open” mean?", "What does “closed” mean?"),
        ("¿Cuánto debe Ana a Luis?", "¿Cuánto debe Luis a Ana?"),
        ("订单12号在哪里？", "订单13号在哪里？"),
        ("أين الطلب ١٢؟", "أين الطلب 13؟"),
        ("注文「青」はどこ？", "注文「赤」はどこ？"),
        ("Flights from Rome to Milan?", "Flights from Milan to Rome?"),
    ],
)
def test_another_number_name_code_quotation_or_order_is_a_conflict(asked: str, expected: str) -> None:
    assert find_conflict(asked, expected)
    assert find_conflict(expected, asked)


@pytest.mark.spec("ANS-02")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("What is Bob's phone number?", "Which number does Bob have?"),
        ("How far is 5,000 km?", "What is 5000 km?"),
        ("Where is order 12?", "Where is my order?"),
        ("Wie ist die Telefonnummer von Bob?", "Welche Nummer hat der Bob?"),
        ("Who pays for the room?", "Who pays for Room 5?"),
        ("أين الطلب ١٢؟", "أين هو الطلب 12؟"),
        ("where does anna live", "Where does Anna live?"),
    ],
)
def test_what_only_one_side_has_and_other_words_are_none(asked: str, expected: str) -> None:
    assert not find_conflict(asked, expected)


@pytest.mark.parametrize(
    ("text", "has"),
    [("Where does Anna live?", True), ("What is the rent?", False), ("Is 5 enough?", True), ("Und der zweite?", False)],
)
def test_a_question_that_names_what_it_is_about_has_an_identifier(text: str, has: bool) -> None:
    assert has_identifier(text) is has
