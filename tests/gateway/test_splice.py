"""Edits of JSON text change what they name and not one byte more."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.gateway.payload import splice
from circadia.gateway.payload.fields import as_object

KEYS = st.sampled_from(["a", "b", "messages", "é", '"', "\\", "😀", ""]) | st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
BLANKS = st.sampled_from(["", " ", "\n", "\t\r\n "])


@st.composite
def written(draw: st.DrawFn, value: st.SearchStrategy[object]) -> str:
    """A value as some client may write it: any white space, escapes or none, a byte order mark."""
    text = json.dumps(
        draw(value),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 0, 3])),
        separators=draw(st.sampled_from([(",", ":"), (" , ", " : ")])),
    )
    return draw(st.sampled_from(["", "\ufeff"])) + draw(BLANKS) + text + draw(BLANKS)


def load(text: str) -> object:
    return json.loads(text.removeprefix("\ufeff"))


def root(text: str) -> splice.JsonSpan:
    start = splice.value_start(text)
    value, end = json.JSONDecoder().raw_decode(text, start)
    return splice.JsonSpan(start, end, value)


def assert_only_inserted(before: str, after: str) -> None:
    old, new = before.encode(), after.encode()
    start = next((i for i in range(len(old)) if old[i] != new[i]), len(old))
    added = len(new) - len(old)
    assert added >= 0
    # The inserted bytes may begin like those behind them: some cut of that length gives the old text back.
    assert any(new[:at] + new[at + added :] == old for at in range(start + 1))


@given(text=written(OBJECTS), key=st.text(max_size=8), value=VALUES)
def test_inserting_a_member_equals_the_edit_of_the_object(text: str, key: str, value: object) -> None:
    before = load(text)
    assert isinstance(before, dict)
    after = splice.insert_member(text, root(text), key, value)
    assert load(after) == {**before, key: value}
    assert_only_inserted(text, after)


@given(text=written(st.lists(VALUES, max_size=5)), addition=st.text())
def test_a_slot_in_an_array_takes_one_more_element(text: str, addition: str) -> None:
    before = load(text)
    assert isinstance(before, list)
    after = splice.fill_slots(text, (splice.slot_in_array(text, root(text), {"text": "%"}), addition))
    assert load(after) == [*before, {"text": addition}]
    assert_only_inserted(text, after)


@given(text=written(st.text()), addition=st.text())
def test_a_slot_in_a_string_takes_more_text(text: str, addition: str) -> None:
    after = splice.fill_slots(text, (splice.slot_in_string(root(text), ""), addition))
    assert load(after) == f"{load(text)}{addition}"
    assert_only_inserted(text, after)


@given(text=written(OBJECTS), addition=st.text(), data=st.data())
def test_replacing_a_value_leaves_all_around_it(text: str, addition: str, data: st.DataObject) -> None:
    before = as_object(load(text))
    if not before:
        return
    key = data.draw(st.sampled_from(sorted(before)))
    place = splice.member(text, splice.value_start(text), key)
    assert place is not None
    after = splice.fill_slots(text, (splice.slot_replacing(place), addition))
    assert load(after) == {**before, key: addition}
    assert after.startswith(text[: place.start])
    assert after.endswith(text[place.end :])


@given(text=written(OBJECTS))
def test_members_are_found_where_they_stand(text: str) -> None:
    found = {
        key: json.loads(text[place.start : place.end]) for key, place in splice.members(text, splice.value_start(text))
    }
    assert found == load(text)


@given(text=written(st.lists(VALUES, max_size=5)))
def test_elements_are_found_where_they_stand(text: str) -> None:
    found = [json.loads(text[place.start : place.end]) for place in splice.elements(text, splice.value_start(text))]
    assert found == load(text)


def test_of_duplicate_keys_the_last_one_is_found_as_readers_keep_it() -> None:
    text = '{"a": 1, "a": [2], "b": 3}'
    place = splice.member(text, 0, "a")
    assert place is not None
    assert text[place.start : place.end] == "[2]"


def test_a_key_written_with_escapes_is_found() -> None:
    assert splice.member('{"\\u0061": 1}', 0, "a") is not None


def test_a_number_of_any_length_is_passed_over() -> None:
    text = '{"n": ' + "9" * 10_000 + ', "a": []}'
    assert splice.member(text, 0, "a") is not None


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a"}', '{"a":}', '{"a":1', '{"a":1 "b":2}', '{"a":1,}', "{1:2}", "[", "{,}", "nul", '{"a":"\n"}', "]"],
)
def test_broken_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        list(splice.members(text, splice.value_start(text)))


@pytest.mark.parametrize("text", ["[1 2]", "[1,]", "{}", "[1,2"])
def test_a_broken_array_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        list(splice.elements(text, 0))


def test_nesting_that_exhausts_the_stack_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        list(splice.elements("[" * 100_000, 0))
