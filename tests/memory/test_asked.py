"""What is asked often: the same question is one, and what it may hold is bounded."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from circadia.ids import BankId
from circadia.memory import asked
from circadia.memory.asked import MOST_CHARACTERS, Askings, described, filters, normal, stamp_of
from circadia.memory.index import DEPTH, Question
from circadia.records.bank import Bank
from circadia.records.index_entry import Layer
from circadia.records.ready_view import Heads

pytestmark = pytest.mark.spec("SLEEP-26")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BANK = Bank(id=BankId("b1"), name="ann", created_at=NOON)
PLAIN = Question(text="where is Ann?")


def test_a_question_is_the_same_whatever_its_spaces_its_limit_and_the_order_of_its_filters() -> None:
    assert normal(" where\n is  Ann? ") == PLAIN.text
    one = replace(PLAIN, kinds=("turn", "fact"), trusts=("tool",), limit=3, now=5.0, explained=False)
    other = replace(PLAIN, kinds=("fact", "turn", "fact"), trusts=("tool",), limit=30, layers=tuple(reversed(Layer)))
    assert described(one) == described(other)


@pytest.mark.parametrize(
    "other",
    [
        {"text": "where is ann?"}, {"layers": (Layer.NOTES,)}, {"since": 0.0}, {"until": 1.0}, {"session": "s"},
        {"speaker": "Ann"}, {"kinds": ("fact",)}, {"trusts": ("tool",)}, {"importance": 0.5},
    ],
)  # fmt: skip
def test_a_question_with_another_filter_is_another_and_is_asked_again_with_it(other: dict[str, Any]) -> None:
    question = replace(PLAIN, **other)
    told = described(question)
    assert told is not None
    assert told != described(PLAIN)
    assert described(replace(Question(text=question.text), **filters(orjson.loads(told)))) == told


@pytest.mark.parametrize(
    "other",
    [{"text": ""}, {"text": "x" * (MOST_CHARACTERS + 1)}, {"text": "\ud800"}, {"recency": 0.1}, {"limit": DEPTH + 1}],
)
def test_what_depends_on_the_time_or_is_too_long_has_no_view(other: dict[str, Any]) -> None:
    assert described(replace(PLAIN, **other)) is None


def test_what_was_asked_once_is_not_written_and_what_was_asked_before_a_forget_is_counted_anew() -> None:
    askings = Askings()
    askings.count(BANK, "a", 10, NOON)
    assert not askings.pending()
    assert askings.often(BANK, "a")
    askings.count(BANK, "a", DEPTH + 50, NOON)
    (one,) = askings.pending(BANK.id)
    assert (one.total, one.pending, one.limit) == (2, 2, DEPTH)
    assert not askings.pending(BankId("b2"))
    askings.count(replace(BANK, generation=1), "a", 10, NOON)
    assert not askings.pending()


def test_only_so_many_questions_are_counted_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "REMEMBERED", 2)
    askings = Askings()
    for text in ("a", "b", "a", "c", "a", "b"):
        askings.count(BANK, text, 1, NOON)
    assert [each.asked for each in askings.pending()] == ["a"]


def test_each_change_that_could_change_an_answer_changes_the_stamp() -> None:
    heads = Heads(5, 3)
    stamps = [
        stamp_of(BANK, heads, ["a@1"]),
        stamp_of(BANK, heads, ["b@1"]),
        stamp_of(BANK, heads, []),
        stamp_of(BANK, heads._replace(episodes=6), ["a@1"]),
        stamp_of(BANK, heads._replace(notes=4), ["a@1"]),
        *(stamp_of(replace(BANK, **{name: 1}), heads, ["a@1"]) for name in ("generation", "demotions", "vectors")),
    ]
    assert len(set(stamps)) == len(stamps)
    same = replace(BANK, published=9, name="bob")
    assert stamp_of(same, heads, ["b@1", "a@1"]) == stamp_of(BANK, heads, ["a@1", "b@1"])
