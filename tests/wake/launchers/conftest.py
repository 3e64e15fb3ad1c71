"""The bench of each kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.wake.launchers.benches import Bench, FakeBench, SubprocessBench, TaskBench
from tests.wake.launchers.webhook_bench import webhook_bench

KINDS = ["subprocess", "subprocess with a file", "webhook", "webhook that calls back", "callable", "fake"]


@pytest.fixture(params=KINDS)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    kind: str = request.param
    if kind.startswith("subprocess"):
        yield SubprocessBench(tmp_path, in_file="file" in kind)
    elif kind.startswith("webhook"):
        async with webhook_bench(calls_back="back" in kind) as opened:
            yield opened
    elif kind == "callable":
        yield TaskBench()
    else:
        yield FakeBench()
