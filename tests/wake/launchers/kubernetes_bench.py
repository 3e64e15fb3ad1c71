"""A launcher of Jobs at a test's cluster, and what became of its agents."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from circadia.clock import SystemClock
from circadia.ids import PulseId
from circadia.wake.launchers.kubernetes.api import find_cluster
from circadia.wake.launchers.kubernetes.job import JobTemplate
from circadia.wake.launchers.kubernetes.launcher import KubernetesLauncher
from tests.fixtures.kubernetes_api import IMAGE, NAMESPACE, KubernetesCluster
from tests.wake.launchers.benches import AGENT, WAIT_SECONDS, AgentInput, environment_in, processes


class KubernetesBench:
    tells_start = True

    def __init__(self, cluster: KubernetesCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder

    def launcher(self, behaviour: str) -> KubernetesLauncher:
        patience = WAIT_SECONDS if behaviour == "polite" else 0.0
        return self.with_command("sh", str(AGENT), behaviour, str(self.folder), grace_seconds=patience)

    def with_command(
        self, *command: str, start_timeout_seconds: float = WAIT_SECONDS, ca_file: Path | None = None, **more: Any
    ) -> KubernetesLauncher:
        template: dict[str, Any] = {
            "image": IMAGE, "service_account": None, "labels": {}, "pod": {}, "user": "65532:65532",
            "memory_mebibytes": 64, "cpus": 1.0, "tmp_mebibytes": 8, "grace_seconds": 1.0, **more,
        }  # fmt: skip
        access = find_cluster(
            "launchers.pods", {}, api_url=self.cluster.url, namespace=NAMESPACE,
            token_file=str(self.cluster.token_file), ca_file=ca_file and str(ca_file),
        )  # fmt: skip
        return KubernetesLauncher(
            access,
            JobTemplate(command=command, **template),
            environment=self.basis(),
            clock=SystemClock(),
            start_timeout_seconds=start_timeout_seconds,
        )

    def missing(self) -> KubernetesLauncher:
        return self.with_command("true", image="registry.example/no-such-image:1")

    def received(self) -> list[AgentInput]:
        environment = environment_in((self.folder / "environment").read_bytes())
        assert environment.pop("CIRCADIA_PROMPT_FILE").endswith("/prompt.txt")
        prompt = (self.folder / "prompt").read_bytes().decode()
        starts = (self.folder / "starts").read_text().splitlines()
        return [AgentInput(prompt=prompt, environment=environment)] * len(starts)

    def waiting(self) -> int:
        return int((self.folder / "waiting").exists())

    def alive(self, pulse_id: PulseId) -> int:
        return len(processes(pulse_id))

    def basis(self) -> Mapping[str, str]:
        return {"GREETING": "good morning"}
