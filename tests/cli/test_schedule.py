"""`circadia agents schedule`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from circadia.cli.agents.schedule import timeline
from circadia.schemas.schedule import ScheduleView
from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess

NIGHT = {"label": "night", "start_time": "22:00", "end_time": "06:00"}


def window(*, spans: Sequence[Any] = (), occurrences: Sequence[Any] = ()) -> ScheduleView:
    """Return the schedule of two days in Berlin, as the server tells it."""
    due = [{"routine": "nightly", "policy": "run", **each} for each in occurrences]
    return ScheduleView.model_validate({
        "agent": "writer", "zone": "Europe/Berlin", "routines": [], "blackouts": [], "since": "2026-06-01T06:10:00Z",
        "until": "2026-06-02T22:00:00Z", "occurrences": due, "spans": spans, "complete": True,
        "next_runs": [], "never_run": [], "etag": "",
    })  # fmt: skip


def marks(found: ScheduleView) -> dict[str, str]:
    """Return the marks of each day."""
    return {line.plain[:9]: line.plain[12:] for line in timeline(found)[1:]}


def test_a_day_is_a_line_with_a_mark_for_each_half_hour() -> None:
    found = marks(window())
    assert list(found) == ["Mon 06-01", "Tue 06-02", "Wed 06-03"]
    assert set(found.values()) == {"·" * 48}


def test_what_runs_what_does_not_and_blackouts_are_marked_on_the_clock_of_the_zone() -> None:
    spans = [{"start": "2026-06-01T20:00:00Z", "end": "2026-06-02T04:00:00Z", "labels": ["night"]}]
    due = [
        {"at": "2026-06-01T10:05:00Z", "runs_at": "2026-06-01T10:05:00Z"},
        {"at": "2026-06-01T21:00:00Z", "runs_at": None},
        {"at": "2026-06-02T01:00:00Z", "runs_at": "2026-06-02T04:00:00Z"},
    ]
    found = marks(window(spans=spans, occurrences=due))
    assert found["Mon 06-01"] == "·" * 24 + "●" + "·" * 19 + "░" * 2 + "○" + "░"
    assert found["Tue 06-02"] == "░" * 12 + "●" + "·" * 35


def test_a_blackout_that_is_cut_off_by_the_window_is_marked_from_there_on() -> None:
    spans: list[dict[str, Any]] = [{"start": "2026-06-01T06:10:00Z", "end": "2026-06-01T07:00:00Z", "labels": []}]
    assert marks(window(spans=spans))["Mon 06-01"] == "·" * 16 + "░" * 2 + "·" * 30


@pytest.mark.asyncio(loop_scope="module")
async def test_routines_the_next_occurrences_and_the_picture_are_shown(operator: CircadiaProcess) -> None:
    await operator.create_session("plan", [{"name": "writer"}])
    await run("agents", "coordination", "plan:writer", "zone=Asia/Kolkata")  # where each day has 24 hours
    routines = [
        {"name": "nightly", "cron": "0 3 * * *", "instructions": "tidy up"},
        {"name": "hourly", "every_seconds": 3600},
        {"name": "never", "every_seconds": 3600, "enabled": False},
    ]
    await operator.call("PUT", "/agents/plan:writer/schedule", {"routines": routines, "blackouts": [NIGHT]})
    out = (await run("agents", "schedule", "writer", "--session", "plan", "--days", "2")).out
    assert "plan:writer, clock of Asia/Kolkata" in out
    assert "cron 0 3 * * *" in out
    assert "off (every 1:00:00)" in out
    assert "tidy up" in out
    assert "░" in out
    assert "●" in out
    found = (await run("agents", "schedule", "plan:writer", "--days", "2", "--json")).json
    nightly = [each for each in found["occurrences"] if each["routine"] == "nightly"]
    assert len(nightly) == 2
    assert {each["policy"] for each in nightly} == {"skip"}


@pytest.mark.spec("UI-07")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_file_is_tried_and_then_set(operator: CircadiaProcess, tmp_path: Path) -> None:
    await operator.create_session("file", [{"name": "writer"}])
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "routines:\n- {name: yearly, cron: 0 9 1 1 *}\nblackouts:\n- {start_time: 22:00, end_time: 06:00}\n", "utf-8"
    )
    words = ("agents", "schedule", "file:writer")
    tried = (await run(*words, "--set", str(plan), "--dry-run", "--json")).json
    assert [each["routine"] for each in tried["next_runs"]] == ["yearly"] * 10
    assert [(each["start_time"], each["end_time"]) for each in tried["blackouts"]] == [("22:00", "06:00")]
    assert (await run(*words, "--json")).json["routines"] == []
    out = (await run(*words, "--set", str(plan), "--days", "2")).out
    assert len([line for line in out.splitlines() if "-01-01 09:00:00" in line]) >= 10, "years away"
    assert [each["name"] for each in (await run(*words, "--json")).json["routines"]] == ["yearly"]
    refused(await run(*words, "--dry-run"), 2, "--set")
    refused(await run(*words, "--set", str(tmp_path / "none.yaml")), 2, "none.yaml", "cannot be read")
    for text, told in (
        ("routine: []", "`routines`, `blackouts` or both"),
        ("[]", "`routines`, `blackouts` or both"),
        ("routines: [{name: r, crno: x}]", "did you mean 'cron'"),
        ("routines: [{name: r, at: [2020-01-01T00:00:00]}]", "never due"),
    ):
        plan.write_text(text, "utf-8")
        refused(await run(*words, "--set", str(plan)), 2, told)
    assert [each["name"] for each in (await run(*words, "--json")).json["routines"]] == ["yearly"]


@pytest.mark.asyncio(loop_scope="module")
async def test_an_agent_without_routines_is_told_so(operator: CircadiaProcess) -> None:
    await operator.create_session("idle", [{"name": "writer"}])
    result = await run("agents", "schedule", "idle:writer")
    assert "no routine" in result.err
    refused(await run("agents", "schedule", "idle:wirter"), 4, "'writer'")
