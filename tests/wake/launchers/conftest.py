"""The bench of each kind."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.fixtures.kubernetes_api import kubernetes_cluster
from tests.wake.launchers.benches import Bench, FakeBench, SubprocessBench, TaskBench
from tests.wake.launchers.container_bench import ENGINE, WITH_CONTAINERS, ContainerBench, Podman, podman, running_engine
from tests.wake.launchers.kubernetes_bench import KubernetesBench
from tests.wake.launchers.webhook_bench import webhook_bench

KINDS = ["subprocess", "subprocess with a file", "webhook", "webhook that calls back", "callable", "kubernetes", "fake"]
if WITH_CONTAINERS:
    KINDS.append("container")


@pytest.fixture(scope="session")
def engine() -> Iterator[Podman]:
    with running_engine() if ENGINE else podman() as running:
        yield running


@pytest.fixture(params=KINDS)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    kind: str = request.param
    if kind.startswith("subprocess"):
        yield SubprocessBench(tmp_path, in_file="file" in kind)
    elif kind.startswith("webhook"):
        async with webhook_bench(calls_back="back" in kind) as opened:
            yield opened
    elif kind == "container":
        engine: Podman = request.getfixturevalue("engine")
        yield ContainerBench(engine, tmp_path)
    elif kind == "kubernetes":
        async with kubernetes_cluster(tmp_path) as cluster:
            yield KubernetesBench(cluster, tmp_path)
    elif kind == "callable":
        yield TaskBench()
    else:
        yield FakeBench()
