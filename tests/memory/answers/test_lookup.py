"""The lookup of a ready answer: exact, by meaning, with guards, within its conversation, and never of what is gone."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from circadia.ids import AnswerId
from circadia.memory.answers.likeness import Likeness
from circadia.memory.answers.lookup import Bars, Outcome, ReadyAnswers, Way
from circadia.memory.answers.meaning import Meanings
from circadia.memory.embedding.bundled import WordTable
from circadia.records.answer import Expected
from circadia.testing.minimal_edits import RULES, minimal_edits

FEW = 256
WORDS = 120
LONGEST = 2_000

pytestmark = pytest.mark.spec("ANS-02")

QUESTIONS = (
    "How do I reset the password of my account?",
    "Which trains go from Rome to Milan on Friday?",
    "Who is the manager of the Oslo office?",
    "What is the maximum weight of a parcel in kg?",
    "Why did the deployment on Monday fail?",
    "How many people were invited to the meeting in March?",
    "Can all users see the invoices of Acme?",
    "Is Python faster than Ruby for 100 requests?",
    "When does the contract with Siemens end?",
    "Where is the key of the server room kept?",
    "What are the advantages of the large plan?",
    "Does every employee get a laptop before the first day?",
)

OTHER_FORMS = (
    "What happens to a refund if the parcel is lost?",
    "What is 5 + 3 in words?",
    "Do I have to bring two photos and a passport?",
    "Is a file of 20 GB too large for plan B?",
    "Is it legal to sell fish from a boat in Malta?",
    "How do I send my invoice to the bank?",
    "Are 30 minutes enough to bake a cake?",
)


def expected(
    at: int, *phrasings: str, confidence: float = 0.9, conversation: str | None = None
) -> Expected:  # fmt: skip
    return Expected(id=AnswerId(str(at)), phrasings=phrasings, confidence=confidence, conversation=conversation)


def filled(ready: ReadyAnswers, questions: Sequence[str] = QUESTIONS) -> ReadyAnswers:
    ready.add(expected(at, question) for at, question in enumerate(questions))
    return ready


def test_each_phrasing_and_its_trivial_variants_hit_their_answer(ready: ReadyAnswers) -> None:
    filled(ready)
    for at, question in enumerate(QUESTIONS):
        for asked in (question, question.upper(), f"  {question.rstrip('?')} , please", f"Hi, {question}"):
            found = ready.find(asked)
            assert (found.outcome, found.match and found.match.answer) == (Outcome.HIT, str(at)), asked
            assert found.match
            assert (found.match.way, found.match.confidence) == (Way.EXACT, 1.0)


def test_another_wording_hits(ready: ReadyAnswers) -> None:
    filled(ready)
    found = ready.find("Why did the deployment fail on Monday?")
    assert (found.outcome, found.match and found.match.answer) == (Outcome.HIT, "4")
    assert found.match
    assert found.match.way is Way.MEANING
    assert Bars().hit <= found.match.confidence < 1


def test_any_phrasing_of_an_entry_is_looked_for(ready: ReadyAnswers) -> None:
    ready.add([expected(1, "When is the release?", "On which day does version two come out?")])
    assert ready.find("on which day does version two come out").outcome is Outcome.HIT


@pytest.mark.spec("ANS-09")
@pytest.mark.parametrize("kind", RULES)
def test_no_minimal_edit_hits(kind: str, ready: ReadyAnswers) -> None:
    questions = (*QUESTIONS, *OTHER_FORMS)
    filled(ready, questions)
    edits = [each for seed in range(5) for each in minimal_edits(questions, seed, [kind])]
    assert edits
    assert not [each for each in edits if ready.find(each.after).outcome is Outcome.HIT]


def test_a_near_miss_is_a_hint_with_its_reason(ready: ReadyAnswers) -> None:
    filled(ready)
    found = ready.find("Which trains go from Milan to Rome on Friday?")
    assert found.outcome is Outcome.HINT
    assert found.match
    assert found.match.confidence >= Bars().hit, "it is sure, and yet no hit"
    assert {each.guard for each in found.match.objections} >= {"direction"}
    assert "milan" in found.match.objections[0].reason


def test_what_a_guard_objects_to_never_stands_before_a_hint_that_none_objects_to(
    words: WordTable, likeness: Likeness
) -> None:
    ready = ReadyAnswers(words, likeness, Bars(hint=0.4))
    asked = "How much does a ticket to Paris cost in 2024?"
    other = "How much does a ticket to Paris cost in 2023?"
    akin = "What is the price of going to Paris by train in 2024?"
    ready.add([expected(1, other), expected(2, akin)])
    told = ready.explain(asked)
    sure = {match.phrasing: match.confidence for match in (told.match, *told.others) if match is not None}
    assert sure[other] > sure[akin] > 0.4
    for found in (told, ready.find(asked)):
        assert (found.outcome, found.match and found.match.phrasing) == (Outcome.HINT, akin)


def test_an_explanation_compares_all_that_is_near_and_comes_to_the_same(ready: ReadyAnswers) -> None:
    filled(ready)
    ready.add([expected(100, "How do I reset the password of your account?")])
    others = 0
    for asked in (QUESTIONS[0], "How do I reset the password of our account fast?", "How tall is the tower?"):
        found, told = ready.find(asked), ready.explain(asked)
        assert (told.outcome, told.match) == (found.outcome, found.match)
        assert all(each in told.others for each in found.others)
        others += len(found.others)
    assert others
    assert [each.answer for each in ready.explain(QUESTIONS[0]).others] == ["100"]


def test_what_nobody_expected_is_a_miss(ready: ReadyAnswers) -> None:
    assert ready.find("Is there anything?").outcome is Outcome.MISS
    filled(ready)
    assert ready.find("How tall is the Eiffel tower?").outcome is Outcome.MISS


@pytest.mark.parametrize("question", ["", "   ", "?!", "🙂", "a" * 100_000, "\ud800", "\x00"])
def test_what_is_no_question_is_a_miss(question: str, ready: ReadyAnswers) -> None:
    assert filled(ready).find(question).outcome is Outcome.MISS


@pytest.mark.parametrize(
    "question",
    ["What about the second one?", "Why is that?", "And on Friday?", "Who wrote it?", "Which one is better?", "Is it?"],
)
def test_a_question_that_does_not_stand_alone_hits_in_its_own_conversation_only(
    question: str, ready: ReadyAnswers
) -> None:  # fmt: skip
    ready.add([expected(1, question, conversation="talk-1")])
    assert ready.find(question, "talk-1").outcome is Outcome.HIT
    for elsewhere in (None, "talk-2", ""):
        found = ready.find(question, elsewhere)
        assert (found.outcome, found.alone) == (Outcome.MISS, False)


def test_a_question_that_stands_alone_hits_in_any_conversation(ready: ReadyAnswers) -> None:
    ready.add([expected(1, QUESTIONS[0], conversation="talk-1")])
    assert ready.find(QUESTIONS[0], "talk-2").outcome is Outcome.HIT


def test_an_answer_that_is_not_sure_is_a_hint(ready: ReadyAnswers) -> None:
    ready.add([expected(1, QUESTIONS[0], confidence=0.4)])
    found = ready.find(QUESTIONS[0])
    assert (found.outcome, found.match and found.match.confidence) == (Outcome.HINT, 1.0)


def test_the_surer_answer_to_the_same_question_wins(ready: ReadyAnswers) -> None:
    ready.add([expected(1, QUESTIONS[0], confidence=0.4), expected(2, QUESTIONS[0], confidence=0.9)])
    found = ready.find(QUESTIONS[0])
    assert found.match
    assert found.match.answer == "2"


def test_bars_decide_between_hit_hint_and_miss(words: WordTable, likeness: Likeness) -> None:
    asked = "How can I reset my account's password?"
    for bars, outcome in (
        (Bars(hit=0.5), Outcome.HIT),
        (Bars(hit=0.999, hint=0.5), Outcome.HINT),
        (Bars(hit=0.999, hint=0.999), Outcome.MISS),
    ):
        assert filled(ReadyAnswers(words, likeness, bars)).find(asked).outcome is outcome


def test_what_is_removed_or_replaced_is_not_found(ready: ReadyAnswers) -> None:
    filled(ready)
    ready.remove([AnswerId("0"), AnswerId("unknown")])
    assert ready.find(QUESTIONS[0]).outcome is not Outcome.HIT
    ready.add([expected(1, "Where do we meet?")])
    assert ready.find(QUESTIONS[1]).outcome is not Outcome.HIT
    assert ready.find("where do we meet").outcome is Outcome.HIT
    assert len(ready) == len(QUESTIONS) - 1


def test_rows_of_what_is_gone_are_dropped_in_time_and_the_rest_stays(ready: ReadyAnswers) -> None:
    ready.add(expected(at, f"What is in box {at}?") for at in range(FEW + 10))
    ready.remove([AnswerId(str(at)) for at in range(FEW)])
    assert len(ready) == 10
    assert ready.find(f"What is in box {FEW + 1}?").outcome is Outcome.HIT
    assert ready.find("What is in box 1?").outcome is not Outcome.HIT


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    one=st.sampled_from(QUESTIONS),
    changes=st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from(["not", "5", "to", "Paris", "all", "cheap"])), max_size=3
    ),
)
def test_it_does_not_matter_which_question_was_there_first(
    one: str, changes: list[tuple[int, str]], words: WordTable, likeness: Likeness
) -> None:
    parts = one.split()
    for at, word in changes:
        parts.insert(at, word)
    other = " ".join(parts)
    there, back = ReadyAnswers(words, likeness), ReadyAnswers(words, likeness)
    there.add([expected(1, one)])
    back.add([expected(1, other)])
    first, second = there.find(other), back.find(one)
    assert first.outcome == second.outcome
    if first.match and second.match:
        assert first.match.confidence == pytest.approx(second.match.confidence, abs=1e-4)
        assert {each.guard for each in first.match.objections} == {each.guard for each in second.match.objections}


def test_a_long_question_is_looked_for_word_for_word_only(ready: ReadyAnswers) -> None:
    long = "Who wrote " + "the old report and " * WORDS + "the new one of Acme?"
    ready.add([expected(1, long[:LONGEST])])
    assert ready.find(long[:LONGEST].upper()).outcome is Outcome.HIT
    assert ready.find(f"And {long[: LONGEST - 10]}").match is None


def test_scopes_share_what_is_taken_apart_within_a_bound(words: WordTable, likeness: Likeness) -> None:
    bound = 40_000
    meanings = Meanings(words, bound)
    for _ in range(2):
        ready = filled(ReadyAnswers(words, likeness, meanings=meanings))
        assert ready.find(QUESTIONS[0]).outcome is Outcome.HIT
        for question in QUESTIONS:
            ready.explain(f"Tell me, {question[:-1]} today?")
            assert 0 < meanings.held <= bound
