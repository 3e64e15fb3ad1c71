"""A benchmark ends what it has started, and nothing else."""

import subprocess
import sys

from benchmarks.processes import kills_children

WAITS = [sys.executable, "-c", "input()"]


def test_what_ran_before_a_benchmark_outlives_it_and_what_it_started_does_not() -> None:
    before = subprocess.Popen(WAITS, stdin=subprocess.PIPE)
    try:
        with kills_children():
            during = subprocess.Popen(WAITS, stdin=subprocess.PIPE)
        during.communicate(timeout=60)
        assert before.poll() is None
    finally:
        before.kill()
        before.communicate()
