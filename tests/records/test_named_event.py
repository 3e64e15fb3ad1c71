"""A filter of a named event: what its data must contain."""

import pytest

from circadia.records.named_event import contains


@pytest.mark.spec("WAKE-81")
@pytest.mark.parametrize(
    ("wanted", "data", "matches"),
    [
        ({}, {"id": 7}, True),
        ({"id": 7}, {"id": 7, "more": 1}, True),
        ({"id": 7}, {"id": 8}, False),
        ({"id": 7}, {}, False),
        ({"id": 7}, {"id": 7.0}, True),
        ({"id": None}, {}, False),
        ({"id": None}, {"id": None}, True),
        ({"ok": True}, {"ok": 1}, False),
        ({"ok": 1}, {"ok": True}, False),
        ({"ok": False}, {"ok": False}, True),
        ({"data": {"id": 7}}, {"data": {"id": 7, "more": 1}}, True),
        ({"data": {"id": 7}}, {"data": [{"id": 7}]}, False),
        ({"tags": ["a"]}, {"tags": ["a", "b"]}, False),
        ({"tags": ["a", "b"]}, {"tags": ["a", "b"]}, True),
    ],
)
def test_data_matches_if_it_has_the_keys_of_the_filter_with_equal_values(
    wanted: dict[str, object], data: dict[str, object], matches: bool
) -> None:
    assert contains(data, wanted) is matches
