"""What the launcher of Jobs does beyond the contract and beside a whole server."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from circadia.errors import ConfigError
from circadia.ids import PulseId
from circadia.wake.launchers.base import LaunchFailed
from circadia.wake.launchers.kubernetes_api import find_cluster
from tests.fixtures.certificates import served
from tests.fixtures.kubernetes_api import VERSION, Fault, kubernetes_cluster
from tests.fixtures.leap import Leap
from tests.wake.launchers.benches import PULSE, TOKEN, a_launch, until
from tests.wake.launchers.kubernetes_bench import KubernetesBench

NAME = f"circadia-{PULSE.replace('_', '-')}-1"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[KubernetesBench]:
    async with kubernetes_cluster(tmp_path) as cluster:
        yield KubernetesBench(cluster, tmp_path)


async def nothing() -> None:
    """Take note of nothing."""


async def begin(bench: KubernetesBench, behaviour: str = "wait", *, epoch: int = 1) -> "asyncio.Task[Any]":
    """Return a run whose agent waits."""
    task = asyncio.create_task(bench.launcher(behaviour).run(a_launch(epoch=epoch), nothing))
    await until(lambda: task.done() or bench.waiting() > 0)
    assert not task.done(), task
    return task


async def stop(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.spec("SHIP-05")
async def test_a_job_runs_once_has_the_pulses_limit_and_means_and_holds_no_secret(bench: KubernetesBench) -> None:
    await bench.launcher("succeed").run(a_launch(), nothing)
    job, secret = bench.cluster.created
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert job["metadata"]["name"] == NAME
    assert (spec["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (60, 3600)
    assert pod["automountServiceAccountToken"] is False
    assert container["resources"]["limits"] == {"memory": "64Mi", "cpu": "1"} == container["resources"]["requests"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsNonRoot"]
    values = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    assert (values["CIRCADIA_TOKEN"], values["prompt.txt"]) == (TOKEN, a_launch().prompt)
    assert TOKEN not in json.dumps(job)
    assert a_launch().prompt not in json.dumps(job, ensure_ascii=False)
    assert secret["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": NAME, "uid": job["metadata"]["uid"]}
    ]
    assert (secret["immutable"], bench.cluster.jobs, bench.cluster.secrets) == (True, {}, {})


def test_the_schema_that_the_cluster_of_the_tests_checks_refuses_an_unknown_field() -> None:
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {"backofLimit": 0}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSION, strict=True)


@pytest.mark.spec("SHIP-05")
@pytest.mark.parametrize("agent", ["default:" + "x" * 300, "équipe: 🦉", "..--", "a" * 62 + "-b"])
async def test_any_agents_name_becomes_a_label_that_the_cluster_accepts(bench: KubernetesBench, agent: str) -> None:
    await bench.launcher("succeed").run(replace(a_launch(), agent=agent), nothing)
    metadata = bench.cluster.created[0]["metadata"]
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", metadata["labels"]["circadia/agent"])
    assert metadata["annotations"]["circadia/agent"] == agent


@pytest.mark.spec("SHIP-05")
async def test_all_runs_of_a_launcher_share_one_watch(bench: KubernetesBench) -> None:
    launcher = bench.launcher("wait")
    runs = [asyncio.create_task(launcher.run(a_launch(f"{PULSE}_{n}"), nothing)) for n in range(5)]
    await until(lambda: all(bench.alive(PulseId(f"{PULSE}_{n}")) for n in range(5)))
    assert bench.cluster.watches == 1
    for run in runs:
        run.cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    await until(lambda: bench.cluster.watches == 0)
    assert sum("watch=1" in path for _, path in bench.cluster.requests) == 1
    assert not bench.cluster.jobs


@pytest.mark.spec("SHIP-05")
async def test_a_watch_that_the_server_ends_goes_on_from_the_last_bookmark(bench: KubernetesBench) -> None:
    task = await begin(bench)
    await until(lambda: bench.cluster.watches == 1)
    bench.cluster.send_bookmarks()
    bench.cluster.end_watches()
    await until(lambda: len(_versions(bench)) == 2)
    before, after = _versions(bench)
    assert after > before
    assert sum("labelSelector" in path and "watch=1" not in path for _, path in bench.cluster.requests) == 1
    await stop(task)


def _versions(bench: KubernetesBench) -> list[int]:
    """Return from where each watch began."""
    paths = [path for _, path in bench.cluster.requests if "watch=1" in path]
    return [int(re.findall(r"resourceVersion=(\d+)", path)[0]) for path in paths]


@pytest.mark.spec("SHIP-05")
async def test_a_job_of_the_same_name_that_is_not_this_pulses_is_left_alone(bench: KubernetesBench) -> None:
    bench.cluster.is_full = True
    await asyncio.gather(
        bench.with_command("true", start_timeout_seconds=0.2).run(a_launch(), nothing), return_exceptions=True
    )
    foreign = bench.cluster.created[0]
    foreign["metadata"].pop("deletionTimestamp")
    foreign["metadata"]["labels"]["circadia/pulse"] = "another"
    bench.cluster.put_job(foreign)
    with pytest.raises(LaunchFailed, match=f"there is another Job named '{NAME}'; delete it"):
        await bench.launcher("succeed").run(a_launch(), nothing)
    assert list(bench.cluster.jobs) == [NAME]
    del bench.cluster.jobs[NAME]


@pytest.mark.spec("SHIP-05")
async def test_a_pod_that_the_cluster_never_creates_fails_the_pulse_after_the_start_timeout(
    bench: KubernetesBench,
) -> None:
    bench.cluster.is_full = True
    problem = f"0.3 s: the cluster has created no pod; `kubectl describe job {NAME}` says why"
    with pytest.raises(LaunchFailed, match=problem):
        await bench.with_command("true", start_timeout_seconds=0.3).run(a_launch(), nothing)
    assert not bench.cluster.jobs


@pytest.mark.spec("SHIP-05")
async def test_a_program_that_the_image_lacks_has_not_run(bench: KubernetesBench) -> None:
    with pytest.raises(LaunchFailed, match="cannot be started: StartError: failed to create containerd task"):
        await bench.with_command("no-such-program").run(a_launch(), nothing)
    assert not bench.cluster.jobs


@pytest.mark.spec("SHIP-05")
async def test_the_end_says_that_the_cluster_ended_the_job_at_its_deadline(bench: KubernetesBench) -> None:
    ended = await bench.launcher("wait").run(replace(a_launch(), timeout_seconds=0.5), nothing)
    assert ended.detail.startswith("exit status 143; DeadlineExceeded: Job was active longer")
    assert not bench.cluster.jobs


@pytest.mark.spec("SHIP-05")
async def test_the_end_says_that_somebody_deleted_the_job(bench: KubernetesBench) -> None:
    task = await begin(bench)
    run = bench.cluster.jobs[NAME]
    run.job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    del bench.cluster.jobs[NAME]
    run.delete_pod()
    assert (await task).detail == "exit status 143; its Job was deleted"


@pytest.mark.spec("SHIP-05", "WAKE-50")
async def test_clear_returns_once_the_agent_of_the_earlier_attempt_has_ended(bench: KubernetesBench) -> None:
    task = await begin(bench, "stubborn")
    await KubernetesBench(bench.cluster, bench.folder).launcher("wait").clear(PULSE, below_epoch=2)
    assert bench.alive(PULSE) == 0
    assert not (await task).succeeded
    await until(lambda: not bench.cluster.jobs and not bench.cluster.secrets)


@pytest.mark.spec("SHIP-05", "WAKE-50")
async def test_a_pulse_whose_earlier_agent_does_not_end_is_not_started_again(
    bench: KubernetesBench, leap: Leap
) -> None:
    """A node that the cluster has lost keeps its pods, and nobody knows whether they run."""
    launcher = bench.with_command(
        "sh", "-c", f"trap '' TERM; touch {bench.folder}/waiting; while :; do sleep 1; done", grace_seconds=10_000.0
    )
    task = asyncio.create_task(launcher.run(a_launch(), nothing))
    await until(lambda: bench.waiting() > 0)
    clearing = asyncio.create_task(bench.launcher("wait").clear(PULSE, below_epoch=2))
    await until(lambda: "deletionTimestamp" in bench.cluster.jobs[NAME].job["metadata"])
    leap(20)
    with pytest.raises(LaunchFailed, match="the pod of an earlier attempt does not end; look at its node"):
        await clearing
    leap(10_000)
    await task


@pytest.mark.spec("SHIP-05")
async def test_a_cluster_that_does_not_answer_is_named_and_the_token_never(
    bench: KubernetesBench, leap: Leap, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.cluster.stop()
    launcher, problem = bench.launcher("succeed"), f"{bench.cluster.url} does not answer: nothing listens there"
    run = asyncio.create_task(launcher.run(a_launch(), nothing))
    await until(lambda: "not watched" in caplog.text)
    leap(60)
    clearing = asyncio.create_task(launcher.clear(PULSE, below_epoch=2))
    while not clearing.done():
        leap(10)
        await asyncio.sleep(0.01)
    for task in (run, clearing):
        with pytest.raises(LaunchFailed, match=problem) as refused:
            await task
        assert bench.cluster.token_file.read_text() not in str(refused.value)


@pytest.mark.spec("SHIP-05")
async def test_a_token_that_is_refused_twice_is_not_tried_again(bench: KubernetesBench) -> None:
    bench.cluster.rotate_token(in_file=False)
    with pytest.raises(LaunchFailed, match="the token is not accepted"):
        await bench.launcher("succeed").run(a_launch(), nothing)
    bench.cluster.write_token()
    bench.cluster.faults.append(Fault("POST", "/jobs", 401))
    assert (await bench.launcher("succeed").run(a_launch(), nothing)).succeeded


@pytest.mark.spec("SHIP-05")
async def test_the_api_is_trusted_by_the_certificates_of_its_file_only(tmp_path: Path) -> None:
    async with kubernetes_cluster(tmp_path, tls=served(tmp_path, "127.0.0.1")) as cluster:
        bench = KubernetesBench(cluster, tmp_path)
        trusting = bench.with_command("true", ca_file=tmp_path / "cert.pem")
        assert (await trusting.run(a_launch(), nothing)).succeeded
        (tmp_path / "other").mkdir()
        served(tmp_path / "other", "127.0.0.1")
        for launcher in (bench.with_command("true"), bench.with_command("true", ca_file=tmp_path / "other/cert.pem")):
            with pytest.raises(LaunchFailed, match="`ca_file`"):
                await launcher.run(a_launch(), nothing)


@pytest.mark.spec("SHIP-05")
async def test_a_prompt_that_no_secret_holds_is_refused(bench: KubernetesBench) -> None:
    with pytest.raises(LaunchFailed, match="a Secret holds 1 MiB; send shorter messages"):
        await bench.launcher("succeed").run(a_launch(prompt="x" * 2**20), nothing)


@pytest.mark.spec("SHIP-05")
def test_outside_of_a_pod_the_api_its_token_and_the_namespace_must_be_named(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    names: dict[str, str | None] = {"api_url": None, "namespace": None, "token_file": None, "ca_file": None}
    for environment, stated, problem in (
        ({}, {}, "launchers.pods.api_url: this server runs in no pod"),
        (pod, {}, "launchers.pods.token_file: there is no token at "),
        (pod, {"token_file": str(token)}, "launchers.pods.namespace: this server runs in no pod"),
        (pod, {"token_file": str(token), "ca_file": "/no/such/ca"}, "launchers.pods.ca_file: there is no file"),
    ):
        with pytest.raises(ConfigError, match=problem):
            find_cluster("launchers.pods", environment, **{**names, **stated}, mount=tmp_path / "none")


@pytest.mark.spec("SHIP-05")
def test_in_a_pod_everything_comes_from_its_service_account(tmp_path: Path) -> None:
    for name in ("token", "ca.crt", "namespace"):
        (tmp_path / name).write_text(f"{name} of the pod\n")
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = find_cluster(
        "launchers.pods", pod, api_url=None, namespace=None, token_file=None, ca_file=None, mount=tmp_path
    )
    assert (access.url, access.namespace) == ("https://[fd00::1]:443", "namespace of the pod")
    assert (access.token_file, access.ca_file) == (tmp_path / "token", tmp_path / "ca.crt")
