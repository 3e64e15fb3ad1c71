"""What is asked often: the same question is one, and what it may hold is bounded."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from circadia.ids import AgentId, BankId, SessionId
from circadia.memory.search import index, postings, question_counter
from circadia.memory.search.index import Question
from circadia.memory.search.question_counter import (
    QuestionCounter,
    describe_question,
    has_secret,
    load_filters,
    may_keep_question,
    normalize_question,
    search_stamp,
)
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.bank import Bank, BankPolicy, CaptureMode
from circadia.records.index_entry import Layer
from circadia.records.ready_view import BankHeads

MOST_CHARACTERS = 2_000
WINDOW = timedelta(days=14)
DEPTH = 100

pytestmark = pytest.mark.spec("SLEEP-26")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BANK = Bank(id=BankId("b1"), name="ann", created_at=NOON)
PLAIN = Question(text="where is Ann?")


def test_a_question_is_the_same_whatever_its_spaces_its_limit_and_the_order_of_its_filters() -> None:
    assert normalize_question(" where\n is  Ann? ") == PLAIN.text
    one = replace(PLAIN, kinds=("turn", "fact"), trusts=("tool",), limit=3, now=5.0, explained=False)
    other = replace(PLAIN, kinds=("fact", "turn", "fact"), trusts=("tool",), limit=30, layers=tuple(reversed(Layer)))
    assert describe_question(one) == describe_question(other)


@pytest.mark.parametrize(
    "other",
    [
        {"text": "where is ann?"}, {"layers": (Layer.NOTES,)}, {"since": 0.0}, {"until": 1.0}, {"conversation": "s"},
        {"speaker": "Ann"}, {"kinds": ("fact",)}, {"trusts": ("tool",)}, {"importance": 0.5},
    ],
)  # fmt: skip
def test_a_question_with_another_filter_is_another_and_is_asked_again_with_it(other: dict[str, Any]) -> None:
    question = replace(PLAIN, **other)
    told = describe_question(question)
    assert told is not None
    assert told != describe_question(PLAIN)
    assert describe_question(replace(Question(text=question.text), **load_filters(orjson.loads(told)))) == told


@pytest.mark.parametrize(
    "other",
    [{"text": ""}, {"text": "x" * (MOST_CHARACTERS + 1)}, {"text": "\ud800"}, {"recency": 0.1}, {"limit": DEPTH + 1}],
)
def test_what_depends_on_the_time_or_is_too_long_has_no_view(other: dict[str, Any]) -> None:
    assert describe_question(replace(PLAIN, **other)) is None


def test_what_was_asked_once_is_not_written_and_what_was_asked_before_a_forget_is_counted_anew() -> None:
    askings = QuestionCounter()
    askings.count(BANK, "a", 10, NOON)
    assert not askings.pending_questions()
    assert askings.is_asked_often(BANK, "a")
    askings.count(BANK, "a", DEPTH + 50, NOON)
    (one,) = askings.pending_questions(BANK.id)
    assert (one.total, one.pending, one.limit) == (2, 2, DEPTH)
    assert not askings.pending_questions(BankId("b2"))
    askings.count(replace(BANK, generation=1), "a", 10, NOON)
    assert not askings.pending_questions()


def test_only_so_many_questions_are_counted_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_counter, "MAX_COUNTED", 2)
    askings = QuestionCounter()
    for text in ("a", "b", "a", "c", "a", "b"):
        askings.count(BANK, text, 1, NOON)
    assert [each.asked for each in askings.pending_questions()] == ["a"]


def test_each_change_that_could_change_an_answer_changes_the_stamp() -> None:
    heads = BankHeads(5, 3)
    stamps = [
        search_stamp(BANK, heads, ["a@1"]),
        search_stamp(BANK, heads, ["b@1"]),
        search_stamp(BANK, heads, []),
        search_stamp(BANK, heads._replace(episodes=6), ["a@1"]),
        search_stamp(BANK, heads._replace(notes=4), ["a@1"]),
        *(search_stamp(replace(BANK, **{name: 1}), heads, ["a@1"]) for name in ("generation", "demotions", "vectors")),
    ]
    assert len(set(stamps)) == len(stamps)
    same = replace(BANK, published=9, name="bob")
    assert search_stamp(same, heads, ["b@1", "a@1"]) == search_stamp(BANK, heads, ["a@1", "b@1"])


def test_what_was_asked_last_before_the_window_is_counted_anew() -> None:
    askings = QuestionCounter()
    askings.count(BANK, "a", 10, NOON)
    later = NOON + WINDOW + timedelta(seconds=1)
    askings.count(BANK, "a", 10, later)
    assert not askings.pending_questions(), "it was asked once within the window"
    askings.count(BANK, "a", 10, later + WINDOW)
    assert [each.total for each in askings.pending_questions()] == [2]
    askings.drop(BANK.id)
    assert not askings.pending_questions()


@pytest.mark.spec("MEM-14", "MEM-18")
@pytest.mark.parametrize(
    ("agent", "bank", "kept"),
    [
        (None, {}, True),
        (None, {"policy": BankPolicy(capture_mode=CaptureMode.EXPLICIT)}, False),
        (AgentPolicy(bank="ann"), {}, True),
        (AgentPolicy(bank="ann"), {"policy": BankPolicy(capture_mode=CaptureMode.EXPLICIT)}, False),
        (AgentPolicy(bank="ann", capture=False), {}, False),
        (AgentPolicy(bank="ann", read_banks=("ann",)), {}, False),
        (AgentPolicy(bank="bob", read_banks=("of-{user}",)), {"template": "of-{user}"}, False),
    ],
)
def test_a_question_is_not_kept_where_the_turns_are_not(
    agent: AgentPolicy | None, bank: dict[str, Any], kept: bool
) -> None:
    by = agent and Agent(
        id=AgentId("a"), session_id=SessionId("s"), session="default", name="a", token_hash="x", policy=agent,
        created_at=NOON, since=NOON,
    )  # fmt: skip
    assert may_keep_question(replace(BANK, **bank), by) is kept


@pytest.mark.spec("MEM-14")
def test_a_secret_in_a_question_is_told() -> None:
    told = [
        describe_question(Question(text=text)) or "" for text in ("is sk-abcdefghijklmnop1234 mine?", "where is Ann?")
    ]
    assert [has_secret(each) for each in told] == [True, False]


CONSTANTS = (1.2, 0.75, 0.3, 0.4, 100, 1.0, 0.5, 0.2, 0.2, 0.2, 0.1)
RANKINGS: dict[int, tuple[float, ...]] = {1: CONSTANTS, 2: CONSTANTS}
"""What rankings were made with; to change a constant is to add one. The second stems questions in their languages."""


def test_a_change_of_the_ranking_makes_all_views_useless(monkeypatch: pytest.MonkeyPatch) -> None:
    now = (
        postings.SATURATION, postings.LENGTH, index.MEANING, index.WINDOW, index.DEPTH, index.ANSWER, index.BEFORE,
        index.LONG_BEFORE, index.AFTER, index.MEANING_AROUND, index.SPEAKER,
    )  # fmt: skip
    assert RANKINGS[index.RANKING] == now, "a constant was changed: count RANKING up and add it here"
    before = search_stamp(BANK, BankHeads(1, 1), ["a@1"])
    monkeypatch.setattr(question_counter, "RANKING", index.RANKING + 1)
    assert search_stamp(BANK, BankHeads(1, 1), ["a@1"]) != before
