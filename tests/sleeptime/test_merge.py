"""Merging what a pass wrote with what somebody wrote meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.sleeptime.publish.merge import merge_lines

BASE = "name: Ann\ncity: Lisbon\npet: cat\nfood: fish\njob: nurse"
TEXTS = st.lists(st.sampled_from("abcd"), max_size=6).map("\n".join)


@pytest.mark.spec("SLEEP-30")
@pytest.mark.parametrize(
    ("ours", "theirs", "text", "lost"),
    [
        (BASE.replace("Lisbon", "Porto"), BASE.replace("nurse", "doctor"),
         BASE.replace("Lisbon", "Porto").replace("nurse", "doctor"), ()),
        (BASE.replace("Lisbon", "Porto"), BASE.replace("Lisbon", "Faro"), BASE.replace("Lisbon", "Faro"),
         ("city: Porto",)),
        (BASE.replace("Lisbon", "Porto"), BASE.replace("Lisbon", "Porto"), BASE.replace("Lisbon", "Porto"), ()),
        (BASE + "\ncar: none", BASE.replace("name: Ann", "name: Anna"),
         BASE.replace("name: Ann", "name: Anna") + "\ncar: none", ()),
        ("name: Ann", BASE + "\ncar: none", BASE + "\ncar: none", ("",)),
        ("", "", "", ()),
    ],
)  # fmt: skip
def test_both_sides_are_kept_and_where_they_meet_the_other_side_is(
    ours: str, theirs: str, text: str, lost: tuple[str, ...]
) -> None:
    found = merge_lines(BASE if ours else "", ours=ours, theirs=theirs)
    assert (found.text, tuple(found.lost)) == (text, lost)


@pytest.mark.spec("SLEEP-30", "SLEEP-70")
@given(base=TEXTS, ours=TEXTS, theirs=TEXTS)
def test_no_line_that_somebody_wrote_is_ever_lost(base: str, ours: str, theirs: str) -> None:
    text = merge_lines(base, ours=ours, theirs=theirs).text.split("\n")
    for line in set(theirs.split("\n")) - set(base.split("\n")):
        assert text.count(line) >= theirs.split("\n").count(line)
    for line in set(base.split("\n")) - set(theirs.split("\n")) - set(ours.split("\n")):
        assert line not in text, "both have taken it out"


@given(base=TEXTS, changed=TEXTS)
def test_what_one_side_alone_changed_is_taken(base: str, changed: str) -> None:
    assert merge_lines(base, ours=changed, theirs=base).text == changed
    assert merge_lines(base, ours=base, theirs=changed).text == changed
    assert merge_lines(base, ours=changed, theirs=changed).text == changed


@pytest.mark.spec("SLEEP-32")
@pytest.mark.parametrize(
    ("theirs", "text", "lost"),
    [
        ("human\nshe likes tea\nours\nmine", "human\nshe likes tea\nmine", ()),
        ("mine\nhuman\nshe likes\nmine too\nours", "mine\nhuman\nshe likes\nmine too", ()),
        ("human\nshe likes\nours, but mine", "human\nshe likes\nours, but mine", ("",)),
        ("human\nshe likes", "human\nshe likes", ()),
    ],
    ids=["lines beside it", "all around it", "the line itself", "gone already"],
)
def test_what_is_undone_goes_out_from_between_lines_that_somebody_wrote(
    theirs: str, text: str, lost: tuple[str, ...]
) -> None:
    found = merge_lines("human\nshe likes\nours", ours="human\nshe likes", theirs=theirs, undoing=True)
    assert (found.text, tuple(found.lost)) == (text, lost)


@pytest.mark.spec("SLEEP-32")
@given(base=TEXTS, ours=TEXTS, theirs=TEXTS)
def test_no_line_that_somebody_wrote_is_lost_by_undoing(base: str, ours: str, theirs: str) -> None:
    text = merge_lines(base, ours=ours, theirs=theirs, undoing=True).text.split("\n")
    for line in set(theirs.split("\n")) - set(base.split("\n")):
        assert text.count(line) >= theirs.split("\n").count(line)
