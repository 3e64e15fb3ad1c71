"""Objects that stay, as those of thousands of held calls, cost no long collection of the younger generations."""

import json
import subprocess
import sys

import pytest

MOST_SECONDS = 0.05
MOST_TIMES = 10
"""Collections of the youngest generation that one of the middle generation may take the time of: of held calls, whose
objects are larger than these, that is 50 ms, too."""
ROUNDS = 3
"""The cheapest counts: the processor time of a thread grows with what the machine's other cores do."""
PROGRAM = """
import gc, json, time
from circadia.server.app import tune_interpreter

tune_interpreter()
longest = [0.0, 0.0]

def watch(phase, info):
    global began
    if phase == "start":
        began = time.thread_time()
    elif info["generation"] < 2:
        longest[info["generation"]] = max(longest[info["generation"]], time.thread_time() - began)

gc.callbacks.append(watch)
words = [str(number) for number in range(100_000)]
kept = [[words[number % 99_000 : number % 99_000 + 24]] for number in range(0, 23 * 250_000, 23)]
print(json.dumps(longest))
"""


@pytest.mark.spec("LARGE-04")
def test_half_a_million_objects_that_stay_stop_no_thread_for_50_ms() -> None:
    found: list[list[float]] = []
    for _ in range(ROUNDS):
        done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=120)
        found.append(json.loads(done.stdout))
    young, middle = (min(longest) for longest in zip(*found, strict=True))
    assert 0 < young < middle < MOST_SECONDS
    assert middle < MOST_TIMES * young
