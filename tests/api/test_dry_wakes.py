"""Wakes that are only tried out."""

import pytest

from tests.api.service import Service

WAKE: dict[str, object] = {"to": "bob", "message": "the build is red", "reason": "blocker"}


@pytest.fixture
async def ann(service: Service) -> str:
    """Make ann, who is awake, and bob, who is asleep; return ann's token."""
    token = await service.agent("ann")
    await service.agent("bob", sleep_events=["agent_started"])
    return token


@pytest.mark.spec("WAKE-71", "WAKE-10")
async def test_a_dry_run_writes_nothing_and_tells_what_every_guardrail_says(service: Service, ann: str) -> None:
    await service.ok("POST", "/wakes", WAKE, token=ann)
    before = await service.events()
    told = await service.ok("POST", "/wakes", {**WAKE, "dry_run": True}, token=ann)
    assert (told["dry_run"], told["wake"], told["message"]) == (True, None, None)
    assert (told["decision"], told["rule"]) == ("deferred", "busy")
    against = [each["rule"] for each in told["trace"] if not each["passed"]]
    assert against == ["busy", "cooldown_seconds"]
    as_ann = await service.ok("POST", "/wakes", {**WAKE, "dry_run": True, "from": "ann"})
    assert as_ann == told
    assert await service.events() == before
    answer = await service.call("POST", "/wakes", {"to": "bob", "reason": "blocker", "dry_run": True})
    assert answer.status == 200
    await service.ok("PATCH", "/sessions/default/agents/bob", {"enabled": False})
    for dry in (True, False):  # what would be refused is refused
        answer = await service.call("POST", "/wakes", {**WAKE, "dry_run": dry}, token=ann)
        assert answer.status == 409
        assert "disabled" in answer.body["detail"]


@pytest.mark.spec("WAKE-18", "WAKE-71")
@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("coordination", {"wake_guardrails": {"max_wakes_per_day": 0}}),
        ("coordination", {"wake_guardrails": {"max_daily_session_minutes": 0}, "on_concurrency": "refuse"}),
        ("schedule", {"blackouts": [{"start_time": "00:00", "end_time": "06:00", "label": "night"}]}),
        ("coordination", {}),
    ],
)
async def test_a_dry_run_with_an_override_tells_what_the_wake_itself_would(
    service: Service, ann: str, path: str, changes: dict[str, object]
) -> None:
    await service.agent("carl")
    if changes:
        await service.ok("PUT" if path == "schedule" else "PATCH", f"/agents/carl/{path}", changes)
    ask = {"to": "carl", "reason": "user_request", "override": "the site is down"}
    before = await service.events()
    would = await service.ok("POST", "/wakes", {**ask, "dry_run": True})
    assert await service.events() == before
    done = await service.ok("POST", "/wakes", ask)
    for key in ("decision", "rule", "detail", "retry_at"):
        assert would[key] == done[key], key
    assert would["decision"] == "admitted"
    assert len(would["trace"]) == 14
    for forged in ({"from": "ann"}, {"from": "carl"}):
        answer = await service.call("POST", "/wakes", {**ask, **forged, "dry_run": True})
        assert (answer.status, "only the operator" in answer.body["detail"]) == (403, True)
