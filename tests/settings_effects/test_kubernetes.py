"""Keys of a launcher of Jobs: what the cluster is asked for, where, and for how long it is waited for."""

from pathlib import Path
from typing import Any

import pytest

from circadia.errors import ConfigError
from circadia.settings import settings_from
from tests.fixtures.certificates import served
from tests.fixtures.kubernetes_api import IMAGE, KubernetesCluster, kubernetes_cluster
from tests.interaction.test_wakes import until
from tests.settings_effects.test_programs import ENDED, cancelled, launching, pulsed


async def ended_pulse(folder: Path, cluster: KubernetesCluster, **more: Any) -> dict[str, Any]:
    """Return a pulse of an agent with this launcher."""
    async with launching(folder, cluster.settings(**more)) as at:
        return await until(at, await pulsed(at), *ENDED)


@pytest.mark.setting(
    "launchers.kubernetes.kind", "launchers.kubernetes.image", "launchers.kubernetes.command",
    "launchers.kubernetes.service_account", "launchers.kubernetes.env", "launchers.kubernetes.env_from",
    "launchers.kubernetes.labels", "launchers.kubernetes.pod", "launchers.kubernetes.user",
    "launchers.kubernetes.memory_mebibytes", "launchers.kubernetes.cpus", "launchers.kubernetes.tmp_mebibytes",
)  # fmt: skip
@pytest.mark.spec("SHIP-05")
async def test_a_job_has_what_the_file_says(tmp_path: Path) -> None:
    stated: dict[str, Any] = {
        "command": ["sh", "-c", 'echo "$COLOUR $CITY"; exit 3'], "env": {"COLOUR": "red"}, "env_from": ["CITY"],
        "service_account": "bob", "labels": {"team": "north"}, "pod": {"nodeSelector": {"disk": "fast"}},
        "user": "4321:1234", "memory_mebibytes": 96, "cpus": 0.5, "tmp_mebibytes": 7,
    }  # fmt: skip
    async with kubernetes_cluster(tmp_path) as cluster:
        pulse = await ended_pulse(tmp_path, cluster, **stated)
        job = cluster.created[0]
    assert pulse["detail"] == "exit status 3; its last output:\nred Porto"
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    assert (pod["serviceAccountName"], pod["nodeSelector"]) == ("bob", {"disk": "fast"})
    assert "automountServiceAccountToken" not in pod
    assert job["metadata"]["labels"]["team"] == job["spec"]["template"]["metadata"]["labels"]["team"] == "north"
    assert {key: pod["securityContext"][key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {
        "runAsUser": 4321, "runAsGroup": 1234, "fsGroup": 1234,
    }  # fmt: skip
    assert container["resources"]["limits"] == {"memory": "96Mi", "cpu": "0.5"}
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "7Mi"}} in pod["volumes"]


@pytest.mark.setting(
    "launchers.kubernetes.api_url", "launchers.kubernetes.token_file", "launchers.kubernetes.ca_file",
    "launchers.kubernetes.namespace",
)  # fmt: skip
@pytest.mark.spec("SHIP-05")
async def test_the_cluster_is_reached_where_and_as_the_file_says(tmp_path: Path) -> None:
    async with kubernetes_cluster(tmp_path, tls=served(tmp_path, "127.0.0.1")) as cluster:
        stated = {"command": ["true"], "ca_file": str(tmp_path / "cert.pem")}
        assert cluster.settings()["api_url"].startswith("https://")
        assert (await ended_pulse(tmp_path / "good", cluster, **stated))["status"] == "succeeded"
        bad = await ended_pulse(tmp_path / "bad", cluster, **stated, namespace="nowhere")
        assert "cannot run a Job in the namespace 'nowhere'" in bad["detail"]
        with pytest.raises(ConfigError, match=r"launchers.own.token_file: there is no token at '/no/such/token'"):
            await ended_pulse(tmp_path / "no token", cluster, **stated, token_file="/no/such/token")


@pytest.mark.setting("launchers.kubernetes.start_timeout_seconds")
async def test_a_pod_that_does_not_start_fails_its_pulse_after_the_seconds_of_the_file(tmp_path: Path) -> None:
    async with kubernetes_cluster(tmp_path) as cluster:
        cluster.is_full = True
        pulse = await ended_pulse(tmp_path, cluster, command=["true"], start_timeout_seconds=0.3)
    assert "its pod has not started within 0.3 s" in pulse["detail"]


@pytest.mark.setting("launchers.kubernetes.grace_seconds")
async def test_an_agent_that_does_not_stop_is_killed_after_its_grace(tmp_path: Path) -> None:
    async with kubernetes_cluster(tmp_path) as cluster:
        command = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]
        async with launching(tmp_path, cluster.settings(command=command, grace_seconds=1)) as at:
            assert 1 <= await cancelled(at, lambda: not cluster.jobs) < 8, "10 by default"


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ({"api_url": "http://10.0.0.1:6443"}, "https address, or http to loopback"),
        ({"pod": {"containers": [], "volumes": []}}, "containers, volumes: this launcher sets these fields itself"),
        ({"user": "root"}, "user"),
    ],
)
def test_a_file_that_would_show_the_token_or_break_the_pod_is_rejected(stated: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings_from({"launchers": {"pods": {"kind": "kubernetes", "image": "agent:1", **stated}}})
