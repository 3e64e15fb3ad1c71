"""New episodes are grouped by conversation and topic, each into one segment."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.sleeptime.proposals.segments import Segment, split_segments
from tests.sleeptime.episode_builders import page, said

RECENT_WINDOW = 50

BOAT = [
    "I want to paint the boat before the summer.",
    "Which colour should the boat get?",
    "Blue, the hull at least. The paint on the hull peels off.",
    "Did you sand the hull already?",
    "Half of it. Sanding the hull takes forever.",
    "Get the marine paint, no other paint lasts on a boat.",
    "The harbour shop sells marine paint in blue.",
    "Then paint the hull in blue and leave the deck.",
]
SCHOOL = [
    "Leo's teacher called me about the maths exam.",
    "How was the exam for Leo?",
    "He failed maths, and the teacher offers lessons.",
    "Lessons with that teacher helped my girl with maths.",
    "The lessons cost thirty a week at the school.",
    "The school pays half of it if you ask the teacher.",
    "Then Leo takes the lessons until the next exam.",
    "Good luck to Leo with the maths exam.",
]


def texts(found: Sequence[Segment]) -> list[list[str]]:
    return [[each.text for each in segment.all_episodes] for segment in found]


@pytest.mark.spec("SLEEP-20")
def test_a_change_of_topic_begins_a_segment() -> None:
    found = split_segments(page([said(text) for text in (*BOAT, *SCHOOL)]))
    assert texts(found) == [BOAT, SCHOOL]
    assert "hull" in found[0].name
    assert "maths" in found[1].name


@pytest.mark.spec("SLEEP-20")
def test_conversations_that_run_at_the_same_time_are_kept_apart() -> None:
    both = [
        said(text, conversation=name)
        for pair in zip(BOAT, SCHOOL, strict=True)
        for name, text in zip("ab", pair, strict=True)
    ]
    assert texts(split_segments(page(both))) == [BOAT, SCHOOL]


@pytest.mark.spec("SLEEP-20")
def test_a_long_silence_begins_a_segment() -> None:
    later = timedelta(days=3)
    both = [said(text, at=None if number < 8 else later) for number, text in enumerate((*BOAT, *BOAT[::-1]))]
    assert texts(split_segments(page(both))) == [BOAT, BOAT[::-1]]


@pytest.mark.spec("SLEEP-20")
def test_what_is_said_twice_in_a_conversation_is_read_once_and_both_are_evidence() -> None:
    (found,) = split_segments(
        page([said("The code is 4711."), said("Sure?"), said("the code is 4711!"), said("Oh, sure?")])
    )
    assert [each.text for each in found.episodes] == ["The code is 4711.", "Sure?"]
    assert [each.text for each in found.with_duplicates(found.episodes[0])] == [
        "The code is 4711.",
        "the code is 4711!",
    ]
    assert len(found.all_episodes) == 4


@pytest.mark.spec("SLEEP-20")
@pytest.mark.parametrize(
    "other",
    [
        "Ann owes Ben 51 euros.", "Ben owes Ann 50 euros.", "Ann does not owe Ben 50 euros.", "Ann owed Ben 50 euros.",
        "Ann owes Ben 50 dollars.", "Ann owes Ben 5.0 euros.", "Ann owes Ben 50 euros?", "Ann owes Ben -50 euros.",
    ],
)  # fmt: skip
def test_what_differs_in_a_number_a_direction_or_a_negation_is_read(other: str) -> None:
    (found,) = split_segments(page([said("Ann owes Ben 50 euros."), said(other)]))
    assert (len(found.episodes), found.duplicates) == (2, {})


@pytest.mark.spec("SLEEP-20")
def test_the_same_of_another_person_or_another_day_is_read() -> None:
    ann, ben, next_day = (
        said("I went for a run."),
        said("I went for a run.", speaker="ben"),
        said("I went for a run.", at=timedelta(days=1)),
    )
    (found,) = split_segments(page([ann, ben, next_day]))
    assert len(found.episodes) == 3


@pytest.mark.spec("SLEEP-20")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([*BOAT, *SCHOOL]), st.sampled_from(["a", "b", None]), st.integers(0, 400)),
        max_size=160,
    )
)
def test_each_new_episode_is_in_exactly_one_segment_that_is_not_too_long(
    parts: list[tuple[str, str | None, int]],
) -> None:
    at, told = timedelta(), list[tuple[str, str | None, timedelta]]()
    for text, conversation, minutes in parts:
        at += timedelta(minutes=minutes)
        told.append((text, conversation, at))
    view = page([said(text, conversation=conversation, at=when) for text, conversation, when in told])
    found = split_segments(view)
    assert sorted(each.number for segment in found for each in segment.all_episodes) == [
        each.number for each in view.page
    ]
    assert all(0 < len(segment.all_episodes) <= RECENT_WINDOW for segment in found)
    assert all(len({each.conversation for each in segment.all_episodes}) == 1 for segment in found)
    assert split_segments(view) == found


@pytest.mark.spec("SLEEP-20")
@pytest.mark.parametrize(("episodes", "parts"), [(50, 1), (51, 2)])
def test_a_segment_has_at_most_50_episodes(episodes: int, parts: int) -> None:
    view = page([said("boat", at=timedelta(seconds=number)) for number in range(episodes)])
    assert len(split_segments(view)) == parts
