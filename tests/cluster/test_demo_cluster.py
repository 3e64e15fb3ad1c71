"""`make demo-cluster` in a short form: a mock provider instead of the small model, and short leases."""

import io
from typing import Any, cast

import pytest
from rich.console import Console

from circadia.cli.demo import story
from circadia.testing.clock import ManualClock
from circadia.testing.upstream import MockUpstream
from examples.cluster_demo.play import DemoStage
from tests.cli.terminal import started
from tests.cluster import short_leases

DEMO_SECONDS = 200.0
STORY_SECONDS = "5"


@pytest.mark.timeout(240)  # on a busy machine
@pytest.mark.spec("CLU-20")
async def test_the_demo_kills_a_gateway_and_a_worker_and_finds_everything_again() -> None:
    async with MockUpstream(reply="I look at it.") as provider:
        words = ("--json", "--seconds", STORY_SECONDS, "--upstream", f"{provider.base_url}/v1", "--model", "mock-1")
        program = ("examples.cluster_demo", "--server-module", *short_leases.PROGRAM)
        async with started(*words, program=program) as demo:
            result = await demo.ended(DEMO_SECONDS)
    assert result.status == 0, result.err
    checks = {check["what"].strip(): (check["expected"], check["found"]) for check in result.json["checks"]}
    assert checks["messages sent"] == (10, 10)
    assert checks["put back after the kill"] == (1, 1)
    assert all(expected == found > 0 for expected, found in checks.values())


class QuickClock(ManualClock):
    """Sleeps at once."""

    async def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.advance(seconds)


async def test_the_demo_says_every_ten_seconds_what_it_waits_for() -> None:
    out, clock = io.StringIO(), QuickClock()
    began = clock.monotonic()
    stage = DemoStage(
        cluster=cast("Any", None), http=cast("Any", None), folder=cast("Any", None), model="", limit_field="",
        scale=story.TimeScale(run_seconds=60.0, client_wait_seconds=60.0), console=Console(file=out, width=100),
        clock=clock, started=began,
    )  # fmt: skip

    async def is_there() -> bool:
        return clock.monotonic() >= began + 25

    await stage.wait_until("the pulse is put back", is_there)
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert [(round(float(line[0])), " ".join(line[2:])) for line in lines] == [
        (10, "waiting: the pulse is put back"), (20, "waiting: the pulse is put back"),
    ]  # fmt: skip
