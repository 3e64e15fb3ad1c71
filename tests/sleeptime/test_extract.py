"""Without a model, what was said about one subject becomes a note of the sentences that say the most."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import Prompt
from circadia.records.bank import Trust
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.sleeptime.grounding.source_check import check_grounding, collect_sources, describe_ungrounded_claims
from circadia.sleeptime.grounding.wording import check_wording
from circadia.sleeptime.operations.extract import Extract
from circadia.sleeptime.proposals.operation import PageContext
from tests.sleeptime.episode_builders import note, page, said
from tests.sleeptime.stand import Stand

pytestmark = pytest.mark.spec("SLEEP-20", "SLEEP-29")

T = TypeVar("T", bound=BaseModel)

GARDEN = [
    ("ann", "Hi Ben! How are you doing?"),
    ("ben", "Good, thanks! What is new with your garden?"),
    ("ann", "The garden has a greenhouse since last Saturday, and I put forty tomato plants into the greenhouse."),
    ("ben", "Wow, that is so nice!"),
    ("ann", "I always water the tomato plants at seven in the morning, or the greenhouse gets too hot for them."),
    ("ben", "My tomato plants died last year, since I never remembered to water the plants in my greenhouse."),
    ("ann", "Sounds sad! My neighbour Olga promised to water mine in July, while I am in Ghent for my exam."),
    ("ben", "Great, see you soon!"),
]


async def nobody(prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
    """Answer nothing: there is no model."""
    raise AssertionError


async def notes(view: PageContext) -> Sequence[Change]:
    """Return what is proposed."""
    operation = Extract()
    return [change for step in operation.plan(view) for change in await operation.propose(step, view, nobody)]


def garden(**more: Any) -> list[Episode]:
    return [said(text, speaker=speaker, **more) for speaker, text in GARDEN]


async def test_a_note_has_the_sentences_about_the_subject_with_their_days_and_speakers() -> None:
    view = page(garden())
    (change,) = await notes(view)
    after = dict(change.after or {})
    text = str(after["text"])
    assert re.match(r"2023-05-12 (?:ann|ben): ", text)
    assert "last year (2022)" in text
    assert "ben: " in text
    assert "ann: " in text
    assert "How are you" not in text
    assert "see you soon" not in text
    rests = [each for each in view.page if each.id in cast("Sequence[str]", after["evidence"])]
    assert len(rests) >= 2
    assert len(text) <= sum(len(each.text) for each in rests) * 0.6
    assert after["importance"] == 0.45
    assert describe_ungrounded_claims(text, collect_sources(rests)) == ""


async def test_the_same_page_gives_the_same_note_and_what_is_in_a_note_gives_none() -> None:
    view = page(garden())
    assert await notes(view) == await notes(view)
    assert await notes(page(garden(), notes=[note("1", "All of it.", view.page)])) == []


@pytest.mark.parametrize(
    "texts",
    [
        ["Hi!", "Hello, how are you?", "Fine, thanks. And you?", "Good, see you soon then!"],
        ["My dog is called Rex and barks all night.", "The tax office wants a form by Monday."],
        ["Where is the greenhouse key?", "Where do you keep the greenhouse key now?"],
        ["The greenhouse key is under the third pot."],
        [],
    ],
)
async def test_small_talk_questions_and_what_has_no_subject_in_common_give_no_note(texts: list[str]) -> None:
    assert await notes(page([said(text) for text in texts])) == []


async def test_what_tools_and_strangers_say_gets_into_no_note() -> None:
    assert await notes(page(garden(trust=Trust.EXTERNAL))) == []
    mixed = [*garden(), said("The greenhouse is on fire since the tomato plants exploded.", trust=Trust.TOOL)]
    (change,) = await notes(page(mixed))
    assert "fire" not in str(change.after)
    assert (change.after or {})["trust"] == "person"


async def test_each_topic_of_a_conversation_has_a_note_of_its_own() -> None:
    rent = [
        said("The landlord wants 40 euros more rent from August on."),
        said("A rent of 900 euros is too much for this flat, the landlord knows it."),
        said("I will write to the landlord that the rent law allows 20 euros only."),
        said("The rent law is on our side, I asked the owners' union about the landlord."),
        said("The union said the landlord must give reasons for a higher rent in writing."),
        said("Then let us wait for the letter of the landlord before we pay any rent."),
    ]
    later = [said(each.text, at=timedelta(hours=9)) for each in rent]
    found = await notes(page([*garden(), *later]))
    assert len(found) == 2
    assert "landlord" not in str(found[0].after)
    assert "tomato" not in str(found[1].after)


async def test_a_note_gets_through_the_rules_of_the_publication(stand: Stand) -> None:
    told = await stand.said(*(text for _, text in GARDEN))
    (change,) = await notes(page(told))
    run = await stand.begun()
    await stand.publish(run, change, rules=[check_grounding, check_wording])
    assert [state for state, _ in await stand.changes(run)] == ["published"]
