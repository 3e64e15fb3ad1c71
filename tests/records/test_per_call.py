"""A record of which each model call has its own is as frozen as any other."""

from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime

import pytest

from circadia.ids import AgentId, CallId
from circadia.llm.usage import Usage
from circadia.records.call import Call, CallStatus

CALL = Call(
    id=CallId("c"), at=datetime(2026, 1, 1, tzinfo=UTC), agent_id=AgentId("a"), session="s", agent="a",
    upstream="u", endpoint="e", model="m", status=CallStatus.DONE,
)  # fmt: skip


def test_nothing_of_it_can_be_set_or_taken_away() -> None:
    for act in (
        lambda: setattr(CALL, "model", "other"),
        lambda: setattr(CALL, "more", 1),
        lambda: delattr(CALL, "model"),
    ):
        with pytest.raises(FrozenInstanceError):
            act()
    assert CALL.model == "m"


def test_it_is_replaced_compared_hashed_and_shown_as_any_record() -> None:
    other = replace(CALL, model="other")
    assert (other.model, CALL.model) == ("other", "m")
    assert replace(other, model="m") == CALL
    assert other != CALL
    assert len({CALL, replace(CALL), other}) == 2
    assert isinstance(other, Call)
    assert repr(Usage(input_tokens=1)).startswith("Usage(input_tokens=1, output_tokens=None")
    assert [field.name for field in fields(Usage)][:2] == ["input_tokens", "output_tokens"]
    with pytest.raises(FrozenInstanceError):
        setattr(other, "model", "m")  # noqa: B010 (pyright sees a plain assignment)


def test_only_by_name_and_with_all_that_is_needed() -> None:
    with pytest.raises(TypeError):
        Usage(1)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Call(id=CallId("c"))  # type: ignore[call-arg]
