"""The files for `docker compose` and `podman compose`: valid, and in line with the documentation."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from circadia.settings import load_settings
from tests.fixtures.balancer import CONFIGURATION, find_haproxy
from tests.house.tree import DOCS, ROOT

DEPLOY = ROOT / "deploy"
SCHEMA = Path(__file__).with_name("compose-spec.json")
"""Of github.com/compose-spec/compose-spec, commit 170098ba (Apache-2.0)."""
pytestmark = pytest.mark.spec("SHIP-03")


def services(name: str) -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))["services"]


@pytest.mark.parametrize("name", ["compose.yaml", "compose.cluster.yaml"])
def test_a_compose_file_fits_the_compose_specification_and_holds_no_secret(name: str) -> None:
    text = (DEPLOY / name).read_text("utf-8")
    jsonschema.validate(yaml.safe_load(text), json.loads(SCHEMA.read_text("utf-8")), cls=jsonschema.Draft7Validator)
    secrets = re.findall(r"^ +\w*(?:TOKEN|KEY|PASSWORD): (.*)$", text, re.M)
    assert secrets
    assert all(value.startswith("${") and ":?" in value for value in secrets)


@pytest.mark.parametrize("name", ["compose.yaml", "compose.cluster.yaml"])
def test_each_server_is_read_only_without_capabilities_and_has_time_to_drain(name: str) -> None:
    servers = [each for each in services(name).values() if "circadia" in each["image"]]
    for server in servers:
        assert (server["read_only"], server["cap_drop"], server["stop_grace_period"]) == (True, ["ALL"], "90s")
        folder = next(volume.split(":")[0] for volume in server["volumes"] if "/etc/circadia" in volume)
        load_settings(DEPLOY / folder / "circadia.yaml")


def test_the_cluster_has_two_gateways_behind_the_balancer_two_workers_and_one_migration() -> None:
    cluster = services("compose.cluster.yaml")
    commands = [" ".join(map(str, service.get("command", []))) for service in cluster.values()]
    assert sum("--role gateway --host 0.0.0.0" in command for command in commands) == 2
    assert sum("--role worker" in command for command in commands) == 2
    assert commands.count("migrate") == 1
    assert [name for name, service in cluster.items() if "ports" in service] == ["balancer"]
    provider_key, database, operator = "OPENAI_API_KEY", "PGPASSWORD", "CIRCADIA_ADMIN_TOKEN"
    for name, service in cluster.items():
        if "circadia" in service["image"]:
            expected = {database} if name == "migration" else {provider_key, database, operator}
            assert service["environment"].keys() == expected, name


def test_the_documentation_shows_the_balancers_file_and_haproxy_takes_it() -> None:
    page = (DOCS / "operations/cluster.md").read_text("utf-8").split("## The load balancer")[1]
    assert page.split("```haproxy\n")[1].split("```")[0] == CONFIGURATION.read_text("utf-8")
    subprocess.run([find_haproxy(), "-c", "-f", CONFIGURATION], check=True, capture_output=True)
    (mounted,) = [volume.split(":")[0] for volume in services("compose.cluster.yaml")["balancer"]["volumes"]]
    assert (DEPLOY / mounted).resolve() == CONFIGURATION


@pytest.mark.spec("CLU-135")
def test_the_balancer_repeats_only_what_no_gateway_took_and_lets_holds_and_answers_last() -> None:
    text = CONFIGURATION.read_text("utf-8")
    assert re.findall(r"^ *retry-on (.*?) *(?:#.*)?$", text, re.M) == ["conn-failure"]
    settings = load_settings(DEPLOY / "cluster/circadia.yaml")
    (most,) = re.findall(r"^ +maxconn (\d+)", text, re.M)
    assert int(most) > settings.limits.max_holds
    hours = re.findall(r"^ +timeout (client|server) (\d+)h", text, re.M)
    assert [name for name, _ in hours] == ["client", "server"]
    silent_seconds = max(settings.defaults.silent_seconds, settings.upstreams["openai"].answer_timeout_seconds)
    assert all(int(number) * 3600 > silent_seconds for _, number in hours)
