"""Servers that start with the arguments, keys and configuration of their pods."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.distribution.manifests import (
    ADDRESS,
    Json,
    autoscaled_metrics,
    configuration,
    container_of,
    keys_of_secrets,
    migrations_of,
    secrets_of,
    servers,
)
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.spec("SHIP-04")


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
    (workload,) = servers(objects)
    secret = fill_secrets(objects, container_of(workload))
    async with start(tmp_path / "single", objects, workload, secret) as server:
        names = set(autoscaled_metrics(rendered["documented"]))
        await check_answers(server, workload, secret["METRICS_TOKEN"], names)


async def test_a_cluster_starts_on_the_postgresql_of_its_secret_once_its_pods_have_migrated_it(
    tmp_path: Path, rendered: dict[str, list[Json]], postgres_server: PostgresServer
) -> None:
    objects = rendered["cluster"]
    database = await postgres_server.make_database("template1")
    where = {"PGHOST": str(postgres_server.folder), "PGUSER": "postgres", "PGDATABASE": database}
    (tmp_path / "circadia.yaml").write_text(yaml.safe_dump(configuration(objects)), "utf-8")
    names = set(autoscaled_metrics(rendered["documented"]))
    for workload in servers(objects):
        (migration,) = migrations_of(workload)
        program = [Path(sys.executable).with_name("circadia"), *migration["args"]]
        own = {**os.environ, **fill_secrets(objects, migration), **where}
        subprocess.run(program, cwd=tmp_path, env=own, check=True, capture_output=True)
    for workload in servers(objects):
        secret = {**fill_secrets(objects, container_of(workload)), **where}
        async with start(tmp_path / workload["metadata"]["name"], objects, workload, secret) as server:
            await check_answers(server, workload, secret["METRICS_TOKEN"], names)


def fill_secrets(objects: list[Json], container: Json) -> dict[str, str]:
    """Return the variables that a container gets, but the operator's token, which is that of the tests."""
    keys = keys_of_secrets(objects)
    names = {key for secret in secrets_of(container) for key in keys[secret]}
    return {key: f"{key}-of-the-tests" for key in names - {"CIRCADIA_ADMIN_TOKEN"}}
