"""The model that is none states what plain sentences state, and nothing else."""

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.sleeptime.answers.still_right import AnswerVerdict, AnswerVerdicts
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer
from circadia.testing.rule_based_model import RuleBasedModel
from circadia.testing.stated_facts import find_facts


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Hi! I live in Porto and I work as a nurse.", ["Ann lives in Porto", "Ann works as a nurse"]),
        ("I've news: I just moved to New York last week.", ["Ann lives in New York"]),
        ("My dog's name is Rex.", ["Ann's dog's name is Rex"]),
        ("My favourite cafe is Majestic, by the way.", ["Ann's favourite cafe is Majestic"]),
        ("the launch is on 9 May now", ["The launch is on 9 May"]),
        ("The launch was moved to 3 June 2025.", ["The launch is 3 June 2025"]),
        ("Ben is allergic to peanuts.", ["Ben is allergic to peanuts"]),
        ("I prefer short answers.", ["Ann prefers short answers"]),
        ("Do you live in Porto? Nice weather there.", []),
    ],
)
def test_plain_sentences_state_facts(text: str, stated: list[str]) -> None:
    assert [each.present_sentence for each in find_facts("ann", text)] == stated


def test_what_a_note_says_was_before_is_kept_beside_what_holds() -> None:
    note = "Ann lives in Lisbon (… – 2025-03-03: Ann lived in Porto). Ann works as a nurse."
    home, work = find_facts("", note)
    assert (home.present_sentence, home.history) == ("Ann lives in Lisbon", " (… – 2025-03-03: Ann lived in Porto)")
    assert (work.present_sentence, work.history) == ("Ann works as a nurse", "")


async def test_it_answers_the_same_each_time_and_counts_what_it_read() -> None:
    dreamer = RuleBasedModel()
    prompt = Prompt(rules="r", data="## Said now\n[2025-05-04]\ne1 ann: I live in Porto.\ne2 ann: I work as a cook.")
    first, used = await dreamer.ask(prompt, ConsolidationAnswer, most_tokens=100)
    again, _ = await dreamer.ask(prompt, ConsolidationAnswer, most_tokens=100)
    assert first == again
    assert first.notes[0].text == "Ann lives in Porto. Ann works as a cook."
    assert used.input_tokens == prompt.bytes // 4
    assert (dreamer.price(used) or 0) > 0


@pytest.mark.parametrize(
    ("said", "right"),
    [("ann: I live in Lisbon now.", False), ("ann: The weather was nice.", True), ("bob: Porto is windy.", False)],
)
async def test_an_answer_is_right_unless_a_new_line_states_another_fact_or_shares_a_word(
    said: str, right: bool
) -> None:
    data = f"## Said since\n[2025-05-04]\ne1 {said}\n## Answer a1\n| Where do I live?\n| You live in Porto."
    found, _ = await RuleBasedModel().ask(Prompt(rules="r", data=data), AnswerVerdicts, most_tokens=100)
    assert found == AnswerVerdicts(verdicts=[AnswerVerdict(id="a1", right=right)])


async def test_what_it_was_not_told_to_answer_it_does_not() -> None:
    with pytest.raises(ModelAnswerError):
        await RuleBasedModel().ask(Prompt(rules="", data=""), BaseModel, most_tokens=1)
