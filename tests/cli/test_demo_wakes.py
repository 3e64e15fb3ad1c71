"""`circadia demo wakes`: the stories end as the guardrails say."""

import json
import os
import subprocess
import sys

import pytest

from circadia.cli.demo.wakes import missing


@pytest.mark.spec("WAKE-61")
def test_the_day_of_the_fleet_ends_as_the_limits_say_and_loses_no_message() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "circadia", "demo", "wakes", "--json"], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stderr == ""
    day = json.loads(done.stdout)
    talked = sum(day[name]["admitted"] - 2 for name in ("yuki", "chieko"))  # each has two stand-ups
    assert talked == 5 + 1  # the last one by whom the incident woke
    assert {name: row["refused_by"] for name, row in day.items() if row["refused_by"]} == {
        "yuki": {"max_wakes_per_pair_per_day": 1},
        "chieko": {"max_wakes_per_pair_per_day": 1, "max_wakes_per_session": 1},
    }
    assert {name: day[name]["admitted"] for name in ("stas", "finn")} == {"stas": 1, "finn": 2}
    # A message that comes while her run ends, as on a busy machine, wakes her once more.
    assert 3 <= day["grace"]["admitted"] + day["grace"]["coalesced"] <= 4
    assert day["grace"]["alarms"] == 1
    assert day["finn"]["deferred"] == 1
    messages = sum(row["messages_handled"] + row["messages_unread"] for row in day.values())
    assert messages == 1 + 7 + 6 + 1 + 1
    assert day["grace"]["messages_unread"] == 0, "she read the hook's message at her alarm"
    assert missing(day) == []
    assert missing({**day, "chieko": {**day["chieko"], "refused_by": {}, "messages_handled": 0}}) == [
        "an agent on call that meets its own limit", "a day on which no message is lost"
    ]  # fmt: skip


@pytest.mark.spec("WAKE-10")
def test_the_incident_tells_on_the_terminal_why_the_agent_on_call_may_wake_no_more() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "circadia", "demo", "wakes", "--pause-seconds", "0"],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    of_stas = [line.split() for line in done.stdout.splitlines() if "stas →" in line]
    assert [(to, decision) for _, _, _, to, decision, *_ in of_stas] == [
        ("grace", "admitted"), ("finn", "admitted"), ("yuki", "admitted"), ("chieko", "refused"), ("finn", "deferred"),
    ]  # fmt: skip
    assert "limit reached: 3 wakes requested in one pulse" in " ".join(of_stas[3])
    assert "let pass by operator: the shop is down" in done.stdout


@pytest.mark.spec("WAKE-80", "WAKE-82", "WAKE-86")
def test_the_day_shows_a_call_that_waits_for_a_person_a_hook_and_an_alarm() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "circadia", "demo", "wakes", "--pause-seconds", "0"],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    shown = [line.split() for line in done.stdout.splitlines() if "restart_database" in line]
    assert [(line[0], line[4], line[6]) for line in shown] == [
        ("14:06", "pending", "grace"), ("14:09", "approved", "operator"),
    ]  # fmt: skip
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines() if "hook" in line or "its alarm" in line] == [
        ["15:50", "grace gets a message by the hook builds"],
        ["16:00", "grace is woken by its alarm: read the report of the build"],
    ]
