"""`circadia demo dream`: what is shown is what has happened, on a real server, and nothing of it is left behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import started

LIMIT_SECONDS = 240
"""It starts a server, and the machine may be busy."""


@pytest.mark.timeout(LIMIT_SECONDS)
@pytest.mark.spec("SLEEP-04", "SLEEP-32", "SLEEP-60", "ANS-01", "ANS-03", "ANS-04")
def test_an_agent_that_has_slept_knows_what_holds_now_for_fewer_tokens() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "circadia", "demo", "dream", "--json"], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["scripted"], "without --model nobody is told of a real one"
    whole, before, after = (
        found["answers"][way] for way in ("all in the prompt", "before: by search", "after: learned")
    )
    assert all(each["right"] for each in after)
    assert not all(each["right"] for each in whole)
    assert not all(each["right"] for each in before)
    assert sum(each["input_tokens"] for each in after) < sum(each["input_tokens"] for each in whole)
    assert found["first"]["status"] == "succeeded"
    assert found["first"]["spent"]["calls"] > 0
    assert found["second"]["yielded"], "a wake ends the pass for now"
    assert found["second"]["status"] == "succeeded"
    assert found["second"]["changed"]
    assert [each["ready"] for each in found["ahead"]["expected"]] == ["hit"] * 4
    assert all(each["right"] and each["input_tokens"] == 0 for each in found["ahead"]["expected"])
    assert "hit" not in [each["ready"] for each in found["ahead"]["near"]]
    assert found["ahead"]["changed"]["ready"] != "hit", "what it rests on has changed"
    assert found["ahead"]["changed"]["right"]
    assert found["undo"]["as_before"]
    assert found["undo"]["undone"] > 0
    assert found["not_shown"] == []


@pytest.mark.timeout(LIMIT_SECONDS)
async def test_a_demo_that_has_not_shown_its_point_says_so_and_ends_with_another_status_than_0() -> None:
    async with MockUpstream() as provider:  # it says ok, whatever it is asked
        words = ("--upstream", provider.base_url, "--model", "mock-1", "--json")
        async with started("demo", "dream", *words) as demo:
            result = await demo.ended(LIMIT_SECONDS)
    assert result.status == 1
    assert json.loads(result.out)["not_shown"][0] == "what an agent learns in its sleep"
    assert "Not shown: what an agent learns in its sleep\n" in result.err
    assert "Not shown: an answer that was ready before it was asked for\n" in result.err
    assert "Traceback" not in result.err


@pytest.mark.timeout(LIMIT_SECONDS)
def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "circadia", "demo", "dream", "--pause-seconds", "5"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert running.stdout is not None
    for line in running.stdout:
        if "falls asleep" in line:
            break
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_an_address_without_a_model_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "circadia", "demo", "dream", "--upstream", "http://127.0.0.1:9"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--model" in done.stderr
