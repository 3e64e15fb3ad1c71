"""A launcher of Jobs at a test's cluster, and what became of its agents."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from circadia.clock import SystemClock
from circadia.settings.launchers import KubernetesLauncherSettings
from circadia.wake.launchers.kubernetes import KubernetesLauncher
from circadia.wake.launchers.kubernetes_api import find_cluster
from tests.fixtures.kubernetes_api import IMAGE, NAMESPACE, KubernetesCluster
from tests.wake.launchers.benches import AGENT, WAIT_SECONDS, ProgramBench


class KubernetesBench(ProgramBench):
    tells_start = True
    longest_prompt = 10**6
    """A Secret holds 1 MiB, the environment included."""

    def __init__(self, cluster: KubernetesCluster, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = cluster

    def launcher(self, behaviour: str) -> KubernetesLauncher:
        patience = WAIT_SECONDS if behaviour == "polite" else 0.0
        return self.with_command("sh", str(AGENT), behaviour, str(self.folder), grace_seconds=patience)

    def with_command(
        self, *command: str, start_timeout_seconds: float = WAIT_SECONDS, ca_file: Path | None = None, **more: Any
    ) -> KubernetesLauncher:
        given: dict[str, Any] = {
            "memory_mebibytes": 64,
            "tmp_mebibytes": 8,
            "grace_seconds": 1.0,
            "image": IMAGE,
            **more,
        }
        access = find_cluster(
            "launchers.pods", {}, api_url=self.cluster.url, namespace=NAMESPACE,
            token_file=str(self.cluster.token_file), ca_file=ca_file and str(ca_file),
        )  # fmt: skip
        settings = KubernetesLauncherSettings(
            kind="kubernetes", command=command, start_timeout_seconds=start_timeout_seconds, **given
        )
        return KubernetesLauncher(access, settings, environment=self.basis(), clock=SystemClock())

    def missing(self) -> KubernetesLauncher:
        return self.with_command("true", image="registry.example/no-such-image:1")

    def pop_own(self, environment: dict[str, str]) -> None:
        assert environment.pop("CIRCADIA_PROMPT_FILE").endswith("/prompt.txt")

    def basis(self) -> Mapping[str, str]:
        return {"GREETING": "good morning"}
