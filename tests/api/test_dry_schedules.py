"""A dry run of a schedule answers as the change would, and leaves no trace."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from circadia.testing.clock import ManualClock
from tests.api.service import Service, serving

pytestmark = pytest.mark.spec("UI-07")

PATH = "/agents/bob/schedule"
SPRING = datetime(2026, 3, 28, 12, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 12, tzinfo=UTC)
BODY = {
    "routines": [
        {"name": "nightly", "cron": "30 2 * * *", "blackout_policy": "defer"},
        {"name": "yearly", "cron": "0 9 1 1 *"},
        {"name": "off", "every_seconds": 60, "enabled": False},
    ],
    "blackouts": [{"start_time": "01:00", "end_time": "05:00"}],
}


@pytest.fixture
async def service(service: Service) -> Service:
    await service.agent("bob")
    await service.ok("PUT", PATH, {"routines": [{"name": "old", "every_seconds": 3600}]})
    return service


async def test_it_answers_as_the_change_does_and_changes_and_records_nothing(service: Service) -> None:
    before, events = await service.call("GET", PATH), await service.events()
    tried = await service.call("PUT", f"{PATH}?dry_run=true", BODY)
    assert tried.status == 200
    after = await service.call("GET", PATH)
    assert (after.body, after.headers["ETag"]) == (before.body, before.headers["ETag"])
    assert await service.events() == events
    made = await service.call("PUT", PATH, BODY)
    assert made.body["etag"] == made.headers["ETag"] == tried.headers["ETag"] != before.headers["ETag"]
    assert made.body == tried.body
    assert len(await service.events()) == len(events) + 2, "the routines and the blackouts"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"routines": [{"name": "r", "cron": "61 * * * *"}]}, "cannot be read"),
        ({"routines": [{"name": "r", "at": ["2020-01-01"]}]}, "never due"),
        ({"routines": [{"name": "r", "every_seconds": 60}] * 2}, "the same name"),
        ({"blackouts": [{"start_time": "00:00", "end_time": "00:00"}]}, "cover the whole week"),
    ],
)
async def test_it_refuses_what_the_change_refuses_in_the_same_words(
    service: Service, body: object, detail: str
) -> None:
    tried, made = await service.call("PUT", f"{PATH}?dry_run=true", body), await service.call("PUT", PATH, body)
    assert (tried.status, tried.body) == (made.status, made.body) == (422, made.body)
    assert detail in tried.body["detail"]


async def test_it_checks_the_tag_and_is_for_operators(service: Service) -> None:
    stale = await service.call("PUT", f"{PATH}?dry_run=true", BODY, headers={"If-Match": '"other"'})
    assert (stale.status, stale.code) == (412, "precondition_failed")
    token = await service.agent("ann")
    assert (await service.call("PUT", f"{PATH}?dry_run=true", BODY, token=token)).status == 403


@pytest.mark.parametrize(
    ("now", "next_runs"),
    [
        (
            SPRING,
            [
                # The clock skips 02:30, so that occurrence is at 03:00, in summer time.
                ("2026-03-29T03:00:00Z", "2026-03-29T05:00:00+02:00", "2026-03-29T01:00:00Z"),
                ("2026-03-30T03:00:00Z", "2026-03-30T05:00:00+02:00", "2026-03-30T00:30:00Z"),
            ],
        ),
        (
            AUTUMN,
            [
                ("2026-10-25T04:00:00Z", "2026-10-25T05:00:00+01:00", "2026-10-25T00:30:00Z"),
                ("2026-10-26T04:00:00Z", "2026-10-26T05:00:00+01:00", "2026-10-26T01:30:00Z"),
            ],
        ),
    ],
    ids=["spring", "autumn"],
)
async def test_the_next_runs_are_shown_in_utc_and_on_the_clock_of_berlin(
    tmp_path: Path, now: datetime, next_runs: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    async with serving(folder, clock=ManualClock(now)) as served:
        await served.agent("bob")
        await served.ok("PATCH", "/agents/bob/coordination", {"zone": "Europe/Berlin"})
        tried = (await served.ok("PUT", f"{PATH}?dry_run=true", BODY))["next_runs"]
        assert (await served.ok("PUT", PATH, BODY))["next_runs"] == tried
        assert (await served.ok("GET", f"{PATH}?since=2030-01-01"))["next_runs"] == tried, "in any window"
        assert len(tried) == 10
        assert {run["routine"] for run in tried} == {"nightly"}
        assert [(run["at"], run["local"], run["deferred_from"]) for run in tried[:2]] == next_runs


async def test_runs_that_are_years_away_are_shown(service: Service) -> None:
    body = {"routines": [{"name": "yearly", "cron": "0 9 1 1 *"}]}
    shown = await service.ok("PUT", PATH, body)
    assert [run["at"][:4] for run in shown["next_runs"]] == [str(year) for year in range(2026, 2036)]


async def test_a_routine_that_blackouts_skip_each_time_is_told(service: Service) -> None:
    night = {"label": "night", "start_time": "22:00", "end_time": "06:00"}
    routines = [
        {"name": "backup", "cron": "0 3 * * *"},
        {"name": "report", "cron": "0 9 * * *"},
        {"name": "yearly", "cron": "0 9 1 1 *"},
        {"name": "patient", "cron": "0 3 * * *", "blackout_policy": "defer"},
        {"name": "off", "cron": "0 3 * * *", "enabled": False},
    ]
    tried = await service.ok("PUT", f"{PATH}?dry_run=true", {"routines": routines, "blackouts": [night]})
    assert tried["never_run"] == ["backup"]
    assert (await service.ok("PUT", PATH, {"routines": routines, "blackouts": []}))["never_run"] == []
    assert (await service.ok("PUT", PATH, {"blackouts": [night]}))["never_run"] == ["backup"]
    assert (await service.ok("GET", PATH))["never_run"] == ["backup"]
