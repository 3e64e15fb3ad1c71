"""Wakes that a person lets pass, asked for again."""

import pytest

from tests.api.service import Service


@pytest.mark.spec("WAKE-03", "WAKE-18")
@pytest.mark.parametrize("asked", [{"message": "now"}, {}])
async def test_an_override_is_no_repeat_of_what_had_to_wait_without_one(
    service: Service, asked: dict[str, object]
) -> None:
    await service.agent("bob", sleep_events=["agent_started"])
    await service.ok("PATCH", "/agents/bob/coordination", {"wake_guardrails": {"max_wakes_per_day": 0}})
    plain = {"to": "bob", "reason": "user_request", **asked}
    forced = {**plain, "override": "outage 12"}
    first = await service.ok("POST", "/wakes", {**plain, "key": "k"})
    assert first["decision"] == "refused"
    answer = await service.call("POST", "/wakes", {**forced, "key": "k"})
    assert (answer.status, answer.code) == (409, "conflict")
    second = await service.ok("POST", "/wakes", {**forced, "key": "l"})
    assert second["decision"] == "admitted"
    assert (await service.call("POST", "/wakes", {**plain, "key": "l"})).status == 409
    for key, body, told in (("k", plain, first), ("l", forced, second)):
        assert (await service.ok("POST", "/wakes", {**body, "key": key}))["wake"] == told["wake"]
