"""Coordination, schedules and pulses over REST."""

from typing import Any

import pytest

from tests.api.service import Service


@pytest.fixture(autouse=True)
async def bob(service: Service) -> None:
    """Make bob, who is asleep."""
    await service.agent("bob", sleep_events=["agent_started"])


async def patched(service: Service, changes: object) -> Any:
    return (await service.ok("PATCH", "/agents/bob/coordination", changes))["settings"]


@pytest.mark.spec("WAKE-16")
async def test_each_setting_tells_its_value_and_its_source(service: Service) -> None:
    before = (await service.ok("GET", "/agents/bob/coordination"))["settings"]
    assert before["wake_guardrails.max_wakes_per_day"] == {"value": 12, "source": "default", "at": None}
    after = await patched(
        service, {"wake_guardrails": {"max_wakes_per_day": 4}, "wake_guardrails.pair_mode": "undirected"}
    )
    assert after["wake_guardrails.max_wakes_per_day"] == {"value": 4, "source": "patch", "at": "2026-01-01T00:00:00Z"}
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"wake_guardrails.max_wakes_per_day", "wake_guardrails.pair_mode"}
    assert (await patched(service, {"wake_guardrails": {"max_wakes_per_day": None}}))[
        "wake_guardrails.max_wakes_per_day"
    ]["value"] is None


@pytest.mark.spec("WAKE-16", "WAKE-42")
async def test_weekdays_are_kept_in_their_order_so_that_a_restart_finds_those_of_the_file_unchanged(
    service: Service,
) -> None:
    days = ["mon", "tue", "wed", "thu", "fri", "sat"]
    night = {"kind": "recurring", "start": "22:00", "end": "06:00", "weekdays": days[::-1]}
    (kept,) = (await patched(service, {"blackouts": [night]}))["blackouts"]["value"]
    assert kept == {**night, "label": "", "weekdays": days}


@pytest.mark.spec("WAKE-16")
async def test_a_change_is_taken_back_and_the_default_holds_again(service: Service) -> None:
    day = "wake_guardrails.max_wakes_per_day"
    before = (await service.ok("GET", "/agents/bob/coordination"))["settings"]
    await patched(service, {day: None, "on_busy": "refuse"})
    after = (await service.ok("DELETE", f"/agents/bob/coordination/{day}"))["settings"]
    assert after[day] == before[day]
    assert after["on_busy"]["source"] == "patch"
    again = await service.ok("DELETE", f"/agents/bob/coordination/{day}")
    assert again["settings"] == after
    events = (await service.ok("GET", "/events?type=coordination"))["events"]
    assert [each["data"] for each in events] == [
        {"by": "operator", "changed": {day: None, "on_busy": "refuse"}},
        {"by": "operator", "changed": {day: 12}},
    ]
    wrong = await service.call("DELETE", "/agents/bob/coordination/max_wakes_per_day")
    assert wrong.status == 404
    assert f"did you mean '{day}'" in str(wrong.body)


@pytest.mark.spec("WAKE-16")
async def test_a_change_holds_from_the_next_decision_on(service: Service) -> None:
    ask = {"to": "bob", "reason": "blocker", "dry_run": True}
    assert (await service.ok("POST", "/wakes", ask))["decision"] == "admitted"
    await patched(service, {"wake_guardrails": {"max_wakes_per_day": 0}})
    assert (await service.ok("POST", "/wakes", ask))["decision"] == "refused"


@pytest.mark.spec("WAKE-16")
async def test_each_wrong_setting_is_told_and_none_of_the_request_is_kept(service: Service) -> None:
    wrong: list[tuple[object, str]] = [
        ({"wake_guardrails": {"max_wakes_per_day": -1}}, "greater than or equal to 0"),
        ({"wake_guardrails": {"max_wakes_per_day": 1.5}}, "max_wakes_per_day"),
        ({"wake_guardrails": {"max_wakes_per_day": "5"}}, "valid integer"),
        ({"wake_guardrails": {"max_wakes_per_day": True}}, "valid integer"),
        ({"wake_guardrails": {"cooldown_seconds": 1e300}}, "less than or equal to"),
        ({"wake_guardrails": {"max_wakes": 4}}, "did you mean 'wake_guardrails.max_wakes_per_day'"),
        ({"wake_guardrails": 5}, "no coordination key 'wake_guardrails'"),
        ({"zone": "Europe/Berln"}, "did you mean 'Europe/Berlin'"),
        ({"launcher": "nothing"}, "no launcher 'nothing'"),
        ({"on_busy": "wait"}, "'defer' or 'refuse'"),
        ({"blackouts": [{"kind": "recurring", "start": "00:00", "end": "00:00"}]}, "cover the whole week"),
        ({"blackouts": [{"kind": "recurring", "start": "25:00", "end": "06:00"}]}, "not a time of day"),
        ({"prompt_tokens": "4000", "zone": "Europe/Berlin"}, "valid integer"),
        ([], "dictionary"),
    ]
    before = await service.ok("GET", "/agents/bob/coordination")
    for changes, said in wrong:
        answer = await service.call("PATCH", "/agents/bob/coordination", changes)
        assert (answer.status, said in answer.body["detail"]) == (422, True), (changes, answer.body)
    assert await service.ok("GET", "/agents/bob/coordination") == before


@pytest.mark.spec("WAKE-05", "WAKE-10", "WAKE-15")
async def test_a_refusal_says_when_an_agent_that_stays_awake_may_ask_again_and_when_a_blackout_ends(
    service: Service,
) -> None:
    ann = await service.agent("ann")
    ask = {"to": "bob", "message": "the build is red", "reason": "blocker"}
    none = {"zone": "Asia/Karachi", "wake_guardrails": {"max_wakes_per_session": 0}}
    await service.ok("PATCH", "/agents/ann/coordination", none)
    told = await service.ok("POST", "/wakes", ask, token=ann)
    assert (told["rule"], told["retry_at"]) == ("max_wakes_per_session", "2026-01-01T19:00:00Z")
    await service.ok("PATCH", "/agents/ann/coordination", {"wake_guardrails": {"max_wakes_per_session": 1}})
    quiet = {"blackouts": [{"kind": "recurring", "start": "00:00", "end": "06:30"}]}
    await patched(service, {**quiet, "blackout_policies": {"wake": "skip"}})
    told = await service.ok("POST", "/wakes", ask, token=ann)
    assert (told["decision"], told["rule"], told["retry_at"]) == ("refused", "blackout", "2026-01-01T06:30:00Z")


@pytest.mark.spec("WAKE-40", "WAKE-42", "WAKE-45")
async def test_a_schedule_is_set_shown_with_what_it_comes_to_and_taken_away(service: Service) -> None:
    body = {
        "routines": [
            {"name": "nightly", "cron": "0 3 * * *", "instructions": "tidy up", "blackout_policy": "defer"},
            {"name": "often", "every_seconds": 43_200},
        ],
        "blackouts": [{"start_time": "22:00", "end_time": "06:00", "label": "night"}],
    }
    await service.ok("PUT", "/agents/bob/schedule", body)
    shown = await service.ok("GET", "/agents/bob/schedule?since=2026-01-01&until=2026-01-02T04:00:00Z")
    assert [(each["name"], each["next_at"]) for each in shown["routines"]] == [
        ("nightly", "2026-01-01T03:00:00Z"), ("often", "2026-01-01T12:00:00Z"),
    ]  # fmt: skip
    assert [(each["at"], each["routine"], each["policy"], each["runs_at"]) for each in shown["occurrences"]] == [
        ("2026-01-01T00:00:00Z", "often", "skip", None),
        ("2026-01-01T03:00:00Z", "nightly", "defer", "2026-01-01T06:00:00Z"),
        ("2026-01-01T12:00:00Z", "often", "run", "2026-01-01T12:00:00Z"),
        ("2026-01-02T00:00:00Z", "often", "skip", None),
        ("2026-01-02T03:00:00Z", "nightly", "defer", "2026-01-02T06:00:00Z"),
    ]
    assert shown["spans"] == [
        {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T06:00:00Z", "labels": ["night"]},
        {"start": "2026-01-01T22:00:00Z", "end": "2026-01-02T04:00:00Z", "labels": ["night"]},
    ]
    assert shown["complete"] is True
    again = await service.ok("PUT", "/agents/bob/schedule", {"routines": []})
    assert (again["routines"], again["occurrences"], len(again["blackouts"])) == ([], [], 1)
    assert (await service.ok("PUT", "/agents/bob/schedule", {"blackouts": []}))["spans"] == []


@pytest.mark.spec("WAKE-40")
async def test_what_is_shown_can_be_sent_back(service: Service) -> None:
    await service.ok("PATCH", "/agents/bob/coordination", {"zone": "Europe/Berlin"})
    body = {
        "routines": [
            {"name": "once", "at": ["2026-02-01T09:00:00"]},
            {"name": "odd", "every_seconds": 90, "offset_seconds": 7},
        ],
        "blackouts": [
            {"start": "2026-12-24T00:00:00", "end": "2026-12-27T00:00:00"},
            {"start_time": "12:00", "end_time": "13:00", "weekdays": ["mon"]},
        ],
    }  # fmt: skip
    shown = await service.ok("PUT", "/agents/bob/schedule", body)
    assert shown["routines"][1]["at"] == ["2026-02-01T08:00:00Z"]
    assert shown["blackouts"][0]["start"] == "2026-12-23T23:00:00Z"
    stands = {"zone", "next_at", "deferred_from", "last_at", "skips", "missed"}
    back = {
        "routines": [{k: v for k, v in each.items() if k not in stands} for each in shown["routines"]],
        "blackouts": shown["blackouts"],
    }
    assert await service.ok("PUT", "/agents/bob/schedule", back) == shown


@pytest.mark.spec("WAKE-40", "WAKE-41")
async def test_each_wrong_routine_and_blackout_is_told_and_nothing_is_kept(service: Service) -> None:
    def routine(**given: object) -> dict[str, object]:
        return {"routines": [{"name": "n", **given}]}

    wrong: list[tuple[object, str]] = [
        (routine(cron="0 3 31 2 *"), "never due"),
        (routine(cron="0 3 * *"), "has 4 fields"),
        (routine(cron="*/70 * * * *"), "a step of 70 in a field of 60 values"),
        (routine(cron="0 3,8-20/25 * * *"), "a step of 25 in a field of 24 values"),
        (routine(every_seconds=59), "greater than or equal to 60"),
        (routine(every_seconds="600"), "is no number"),
        (routine(at=[1_767_225_600]), "is no text"),
        (routine(cron="0 3 * * *", enabled="yes"), "is no true or false"),
        (routine(), "exactly one of every_seconds, cron and at"),
        (routine(every_secs=600), "did you mean 'every_seconds'"),
        ({"routines": [{"name": "n", "every_seconds": 60}] * 2}, "same name"),
        ({"routine": []}, "did you mean 'routines'"),
        ({"blackouts": [{"start_time": "00:00", "end_time": "00:00"}]}, "cover the whole week"),
        ({"blackouts": [{"start_time": "22:00"}]}, "write one pair"),
        ({"blackouts": [{"start_time": 1320, "end_time": "23:00"}]}, "is no text"),
        ({"blackouts": [{"start": "2026-01-02", "end": "2026-01-01"}]}, "no length"),
        ({"routines": [{"name": "n", "every_seconds": 60}], "blackouts": [{}]}, "write one pair"),
    ]
    before = await service.ok("GET", "/agents/bob/schedule")
    for body, said in wrong:
        answer = await service.call("PUT", "/agents/bob/schedule", body)
        assert (answer.status, said in answer.body["detail"]) == (422, True), (body, answer.body)
    assert await service.ok("GET", "/agents/bob/schedule") == before
    for query in (
        "?until=2025-01-01",
        "?until=2028-01-01",
        "?since=0001-01-01",
        "?since=9999-12-30",
        "?since=soon",
        "?since=9998-12-30&until=9999-12-30",
    ):
        assert (await service.call("GET", f"/agents/bob/schedule{query}")).status == 422, query


@pytest.mark.spec("WAKE-40")
async def test_a_routine_whose_instants_are_all_past_is_refused_unless_it_stays_as_it_was(service: Service) -> None:
    def routine(**given: object) -> dict[str, object]:
        return {"routines": [{"name": "often", "every_seconds": 600}, {"name": "once", **given}]}

    soon = ["2025-12-31T23:00:00Z", "2026-01-01T01:00:00Z"]
    for wrong in (
        {"at": ["2025-12-31T23:00:00Z", "2019-06-01T00:00:00Z"]},
        {"at": ["2026-01-01T05:00:00+05:00"]},  # this very moment
    ):
        answer = await service.call("PUT", "/agents/bob/schedule", routine(**wrong))
        assert answer.status == 422
        assert "'once' is never due" in answer.body["detail"]
        assert "write one that is to come" in answer.body["detail"]
    assert (await service.ok("GET", "/agents/bob/schedule"))["routines"] == []
    await service.ok("PUT", "/agents/bob/schedule", routine(at=soon[:1], enabled=False))
    switched_on = await service.call("PUT", "/agents/bob/schedule", routine(at=soon[:1]))
    assert switched_on.status == 422
    assert (await service.ok("PUT", "/agents/bob/schedule", routine(at=soon)))["routines"][1]["next_at"] == soon[1]
    service.clock.advance(3700)
    async with service.parts.store.begin_write() as tx:
        for due in await tx.routines.find_due(service.clock.now(), limit=10):
            await service.parts.wake.routines.fire(tx, due)
    over = await service.ok("PUT", "/agents/bob/schedule", routine(at=soon))
    assert over["routines"][1]["next_at"] is None
    changed = await service.call("PUT", "/agents/bob/schedule", routine(at=soon, instructions="another thing"))
    assert changed.status == 422


async def test_a_window_with_too_many_occurrences_says_so(service: Service) -> None:
    await service.ok("PUT", "/agents/bob/schedule", {"routines": [{"name": "n", "every_seconds": 60}]})
    shown = await service.ok("GET", "/agents/bob/schedule")
    assert (len(shown["occurrences"]), shown["complete"]) == (1000, False)


@pytest.mark.spec("WAKE-50", "WAKE-56")
async def test_a_pulse_is_started_by_hand_shown_and_stopped(service: Service) -> None:
    told = await service.ok("POST", "/agents/bob/pulses", {"reason": "try it", "timeout_seconds": 60})
    assert told["decision"] == "admitted"
    pulse = await service.ok("GET", f"/pulses/{told['pulse']}")
    assert (pulse["kind"], pulse["status"], pulse["by"], pulse["reason"]) == ("manual", "running", "operator", "try it")
    assert pulse["timeout_seconds"] == 60
    assert (await service.ok("GET", "/agents/bob/pulses"))["pulses"] == [pulse]
    assert (await service.ok("GET", "/agents/bob/pulses?status=failed"))["pulses"] == []
    service.clock.advance(30)
    assert (await service.ok("POST", f"/pulses/{pulse['id']}/cancel"))["status"] == "cancelled"
    assert await service.asleep("bob")
    assert (await service.ok("GET", f"/pulses/{pulse['id']}"))["run_seconds"] == 30
    assert (await service.call("POST", f"/pulses/{pulse['id']}/cancel")).code == "conflict"
    assert (await service.call("GET", "/pulses/pls_nowhere")).code == "not_found"
    assert (await service.call("GET", "/agents/bob/pulses?before=pls_nowhere")).status == 422
    for body in ({"timeout_seconds": 0}, {"timeout_seconds": "60"}, {"timeout_seconds": 86_401}, {"reason": ""}):
        assert (await service.call("POST", "/agents/bob/pulses", body)).status == 422, body


@pytest.mark.spec("WAKE-50")
async def test_a_time_awake_is_not_ended_by_a_report(service: Service) -> None:
    pulse = (await service.ok("POST", "/agents/bob/pulses"))["pulse"]
    answer = await service.call("POST", f"/pulses/{pulse}/end", {"status": "succeeded"})
    assert (answer.code, "that a webhook started" in answer.body["detail"]) == ("conflict", True)
    assert (await service.call("POST", f"/pulses/{pulse}/end", {"status": "done"})).status == 422
