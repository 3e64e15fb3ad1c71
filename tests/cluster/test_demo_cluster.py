"""`make demo-cluster` in a short form: a mock provider instead of the small model, and short leases."""

import pytest

from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import started
from tests.cluster import short_leases

DEMO_SECONDS = 200.0
STORY_SECONDS = "5"


@pytest.mark.slow
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
