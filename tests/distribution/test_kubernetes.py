"""The manifests for Kubernetes: valid, in line with the program, and with all that their pods need."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.distribution.manifests import (
    FOR_ALL,
    FOR_DATABASE,
    FOR_GATEWAYS,
    FOR_WORKERS,
    MANIFESTS,
    MAX_CONNECTIONS,
    NAMESPACE,
    NEWEST,
    OF_AGENTS,
    OLDEST,
    OVERLAYS,
    PAGE,
    RESERVED_CONNECTIONS,
    SERVICE_MONITOR,
    SETS,
    Json,
    autoscaled_metrics,
    container_of,
    containerfile,
    is_worker,
    keys_of_secrets,
    labels_of,
    migrations_of,
    named,
    of_kind,
    pod_of,
    secrets_of,
    selects,
    servers,
    settings_of,
)
from tests.house.tree import DOCS

pytestmark = pytest.mark.spec("SHIP-04")


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


def test_no_object_holds_a_secret_and_each_container_gets_only_those_that_its_role_needs(objects: list[Json]) -> None:
    assert of_kind(objects, "Secret") == []
    for workload in servers(objects):
        of_role = FOR_WORKERS if is_worker(workload) else FOR_GATEWAYS
        shared = [FOR_ALL] if workload["kind"] == "StatefulSet" else [FOR_ALL, FOR_DATABASE, of_role]
        assert secrets_of(container_of(workload)) == shared
        assert [secrets_of(each) for each in migrations_of(workload)] in ([], [[FOR_DATABASE]])


def test_the_documentation_and_the_script_for_kind_create_each_secret_with_its_keys(
    rendered: dict[str, list[Json]],
) -> None:
    commands = re.findall(r"^ *new (\S+)((?:.*\\\n)*.*)", PAGE, re.M)
    documented = {name: set(re.findall(r"--from-literal=(\w+)=", words)) for name, words in commands}
    needed = keys_of_secrets(rendered["cluster"])
    assert documented.keys() == needed.keys()
    assert [name for name in needed if needed[name] - documented[name]] == []
    assert keys_of_secrets(rendered["single"])[FOR_ALL] == {*documented[FOR_ALL] & needed[FOR_ALL], "OPENAI_API_KEY"}
    script = (MANIFESTS / "try-in-kind.sh").read_text("utf-8")
    assert {key for keys in needed.values() for key in keys} <= set(re.findall(r"--from-literal=(\w+)=", script))


def test_each_pod_runs_the_image_as_its_user_on_a_read_only_root_and_writes_to_its_volumes(objects: list[Json]) -> None:
    for workload in servers(objects):
        pod, container = pod_of(workload), container_of(workload)
        place = pod["securityContext"]
        assert place["runAsNonRoot"]
        assert f"USER {place['runAsUser']}:{place['runAsGroup']}\n" in containerfile()
        assert (place["fsGroup"], place["seccompProfile"]) == (10001, {"type": "RuntimeDefault"})
        for each in (container, *migrations_of(workload)):
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert each["resources"].keys() == {"requests", "limits"}
            assert each["volumeMounts"] == container["volumeMounts"]
            assert each["image"] == container["image"]
        assert re.fullmatch(rf".*/circadia(:{version('circadia')}|@sha256:[0-9a-f]{{64}})", container["image"])
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
    with_token = [each for each in servers(objects) if pod_of(each)["automountServiceAccountToken"]]
    assert with_token == [each for each in servers(objects) if roles and "gateway" not in container_of(each)["args"]]
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert {pod_of(each)["serviceAccountName"] for each in servers(objects)} <= accounts
    for role in roles:
        assert role["metadata"]["namespace"] == OF_AGENTS, "where none of the server's secrets are"
        rights = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
        assert rights == {
            *(("jobs", verb) for verb in ("create", "get", "list", "delete")),
            *(("pods", verb) for verb in ("list", "watch")),
            ("secrets", "create"),
        }
        (binding,) = of_kind(objects, "RoleBinding")
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert binding["metadata"]["namespace"] == OF_AGENTS
        (subject,) = binding["subjects"]
        assert {subject["name"]} == {pod_of(each)["serviceAccountName"] for each in with_token}
        assert subject["namespace"] == NAMESPACE


def test_agents_run_in_a_namespace_of_their_own_and_reach_only_dns_and_gateways(objects: list[Json]) -> None:
    spaces = {each["metadata"]["name"]: each["metadata"]["labels"] for each in of_kind(objects, "Namespace")}
    has_launcher = bool(of_kind(objects, "Role"))
    assert spaces.keys() == ({NAMESPACE, OF_AGENTS} if has_launcher else {NAMESPACE})
    assert {labels["pod-security.kubernetes.io/enforce"] for labels in spaces.values()} == {"restricted"}
    if not has_launcher:
        return
    assert spaces[OF_AGENTS]["circadia-clients"] == "allowed", "the gateways take their calls"
    labels = {"circadia/pulse": "pul_1"}
    assert set(open_to(objects, labels, "ingress", namespace=OF_AGENTS)) == set()
    assert set(open_to(objects, labels, "egress", namespace=OF_AGENTS)) == {(53, ""), (4114, "gateway")}
    pages = (PAGE, (DOCS / "operations/launch-on-kubernetes.md").read_text("utf-8"))
    examples = [
        yaml.safe_load(text) for page in pages for text in re.findall(r"```yaml circadia\n(.*?)```", page, re.S)
    ]
    assert [each["launchers"]["pods"]["namespace"] for each in examples] == [OF_AGENTS] * 2


def test_a_server_has_time_to_drain_and_its_probe_waits_longer_than_its_answer_takes(objects: list[Json]) -> None:
    server = settings_of(objects).server
    for workload in servers(objects):
        container = container_of(workload)
        before = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        serves_beside_others = workload["kind"] == "Deployment" and "gateway" in container["args"]
        assert (before > 0) is serves_beside_others
        assert pod_of(workload)["terminationGracePeriodSeconds"] >= before + 2 * server.drain_seconds
        assert container["readinessProbe"]["timeoutSeconds"] > 5, "the database's time to answer"


def test_gateways_and_workers_are_spread_over_zones_and_nodes(objects: list[Json]) -> None:
    for workload in servers(objects):
        spread = pod_of(workload)["topologySpreadConstraints"]
        assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        for each in spread:
            assert selects(each["labelSelector"], labels_of(workload))
            assert each["matchLabelKeys"] == ["app.kubernetes.io/component", "pod-template-hash"]
            assert each["whenUnsatisfiable"] == "ScheduleAnyway", "a lost zone keeps nobody from starting"


def test_no_job_must_be_deleted_before_an_upgrade_and_each_pod_of_a_cluster_migrates_first(objects: list[Json]) -> None:
    assert of_kind(objects, "Job") == []
    for workload in servers(objects):
        arguments = [each["args"] for each in migrations_of(workload)]
        assert arguments == ([["migrate"]] if "--no-migrate" in container_of(workload)["args"] else [])


def test_the_documented_images_are_named_by_digest(rendered: dict[str, list[Json]]) -> None:
    images = {container_of(each)["image"] for name in SETS[2:] for each in servers(rendered[name])}
    assert [re.sub("[0-9a-f]{64}", "…", image) for image in images] == ["registry.example.com/circadia@sha256:…"]


def test_the_service_leads_to_each_gateway_and_no_selector_misses_its_pods(objects: list[Json]) -> None:
    settings = settings_of(objects)
    service = named(objects, "Service", "circadia")
    (port,) = service["spec"]["ports"]
    assert settings.server.gateway_url == f"http://{service['metadata']['name']}:{port['port']}"
    namespace = service["metadata"]["namespace"]
    assert {"circadia", f"circadia.{namespace}", f"circadia.{namespace}.svc"} <= set(settings.server.allowed_hosts)
    led_to = [
        each for each in servers(objects) if selects({"matchLabels": service["spec"]["selector"]}, labels_of(each))
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
    spaces = {each["metadata"].get("namespace", namespace) for each in objects}
    assert spaces - {OF_AGENTS} == {namespace} == {NAMESPACE}


PEERS = ("circadia-clients", "prometheus", "gateway", "ipBlock", "namespaceSelector", "podSelector", "")
"""Words of a policy's peer, the narrowest first; the last stands for everyone."""


def open_to(
    objects: list[Json], labels: Mapping[str, str], way: str, *, namespace: str = NAMESPACE
) -> Iterator[tuple[int, str]]:
    """Yield the ports that policies open to pods with `labels`, each with the first of PEERS that its peer names."""
    chosen = [
        each["spec"]
        for each in of_kind(objects, "NetworkPolicy")
        if each["metadata"]["namespace"] == namespace
        and way.capitalize() in each["spec"]["policyTypes"]
        and selects(each["spec"]["podSelector"], labels)
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
    for workload in servers(objects):
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
    assert endpoint["authorization"]["credentials"] == {"name": FOR_ALL, "key": token}
    selector = {"matchLabels": service["spec"]["selector"]}
    assert [each for each in servers(objects) if selects(selector, labels_of(each))] == servers(objects)


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
