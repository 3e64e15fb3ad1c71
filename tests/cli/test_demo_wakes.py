"""`circadia demo wakes`: the stories end as the guardrails say."""

import json
import subprocess
import sys

import pytest


@pytest.mark.spec("WAKE-61")
def test_the_day_of_the_fleet_ends_as_the_limits_say_and_loses_no_message() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "circadia", "demo", "wakes", "--json"], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stderr == ""
    day = json.loads(done.stdout)
    between = {name: day[name] for name in ("yuki", "chieko")}
    talked = sum(row["admitted"] - 2 for row in between.values())  # each has two stand-ups
    assert talked == 5
    assert sum(row["refused"] for row in between.values()) == 2
    assert {rule for row in between.values() for rule in row["refused_by"]} == {"max_wakes_per_pair_per_day"}
    assert day["grace"]["refused_by"] == {"max_wakes_per_day": 3}
    assert day["grace"]["admitted"] == 12 + 1  # the last one by an operator's word
    assert day["finn"]["deferred"] == 1
    messages = sum(row["messages_handled"] + row["messages_unread"] for row in day.values())
    assert messages == 1 + 7 + 15 + 2
