"""The compose files, started by podman-compose on networks of their own, and driven from outside."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.testing.upstream import MockUpstream
from tests.fixtures.ports import reserved_port
from tests.house.tree import ROOT
from tests.wake.launchers.container_bench import ENGINE, WITH_CONTAINERS, Podman, podman

__test__ = WITH_CONTAINERS and not ENGINE
pytestmark = [pytest.mark.slow, pytest.mark.spec("SHIP-03")]

BUILT = ROOT / "build/image"
WAIT_SECONDS = 300.0
LOOK_SECONDS = 0.2
KEY = "sk-of-the-provider"
TOKEN = "operator-token-of-the-cluster"
SERVICES = {"POSTGRES_IMAGE": "postgres", "REDIS_IMAGE": "redis-server", "HAPROXY_IMAGE": "haproxy"}
PATH = "/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ANSWER = "Hello, you."
CALLS = 6


@pytest.fixture(scope="module")
def engine() -> Generator[Podman]:
    """An engine with networks of its own and all images: Circadia's, and one of Debian's packages for each service."""
    for name in ("circadia.tar", "services.tar"):
        assert (BUILT / name).exists(), f"{name} is missing; run `make test-slow`, or set CIRCADIA_TEST_NO_CONTAINERS=1"
    with podman(networks=True) as running:
        running("load", "--quiet", "--input", str(BUILT / "circadia.tar"))
        for program in SERVICES.values():
            changes = (f"CMD={json.dumps([program])}", 'ENTRYPOINT=["/bin/sh","/services.sh"]', f"ENV=PATH={PATH}")
            changed = [word for change in changes for word in ("--change", change)]
            running("import", "--quiet", *changed, str(BUILT / "services.tar"), f"localhost/{program}:debian")
        yield running


class Composed:
    """A compose file of `deploy` with its services, which ask a provider on this machine."""

    def __init__(self, engine: Podman, file: Path, environment: Mapping[str, str]) -> None:
        self.engine = engine
        self.url = f"http://127.0.0.1:{environment['CIRCADIA_PORT']}"
        self.http = aiohttp.ClientSession(headers={"authorization": f"Bearer {TOKEN}"})
        self._command = [sys.executable, "-m", "podman_compose", "--in-pod", "false"]
        self._command += ["--podman-args", " ".join(engine.command[1:]), "--file", str(file)]
        self._environment = {**engine.environment, **environment}

    async def compose(self, *words: str) -> str:
        done = await asyncio.to_thread(
            subprocess.run, [*self._command, *words], env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async def podman(self, *words: str) -> str:
        return await asyncio.to_thread(self.engine, *words)

    async def until(self, what: str, is_right: Callable[[], Any]) -> Any:
        """Wait until the awaited value is true, and return it."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not (value := await is_right()):
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise AssertionError(f"{what}: {await self.compose('ps')}\n{await self.compose('logs')}") from None
        return value

    async def until_healthy(self, service: str) -> None:
        """Run the service's health check until it passes; Podman's own timer needs systemd."""

        async def passes() -> bool:
            try:
                return "unhealthy" not in await self.podman("healthcheck", "run", f"circadia-cluster_{service}_1")
            except AssertionError:
                return False

        await self.until(f"{service} is not healthy", passes)

    async def is_ready(self) -> bool:
        try:
            async with self.http.get(f"{self.url}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def call(self, method: str, path: str, document: object = None) -> Any:
        async with self.http.request(method, f"{self.url}/api/v1{path}", json=document) as answer:
            text = await answer.text()
            assert answer.status < 400, f"{method} {path}: {answer.status} {text}"
            return json.loads(text) if text else None

    async def held_calls(self) -> int:
        return len((await self.call("GET", "/holds"))["holds"])

    async def ask_model(self, agent_token: str) -> tuple[int, str]:
        body = {"model": "small", "messages": [{"role": "user", "content": "Hello."}]}
        headers = {"authorization": f"Bearer {agent_token}"}
        url = f"{self.url}/llm/openai/v1/chat/completions"
        async with self.http.post(url, json=body, headers=headers) as answer:
            return answer.status, await answer.text()

    async def hold_and_wake(self, upstream: MockUpstream) -> None:
        """Show that calls wait while their agent sleeps, and are answered once it wakes."""
        session = await self.call("POST", "/sessions", {"name": "day", "agents": [{"name": "ann"}]})
        sleeping = "/sessions/day/agents/ann/sleeping"
        await self.call("PUT", sleeping, {"sleeping": True})
        calls = [asyncio.create_task(self.ask_model(session["agents"][0]["token"])) for _ in range(CALLS)]

        async def all_held() -> bool:
            return await self.held_calls() == CALLS

        await self.until("not all calls are held", all_held)
        assert upstream.requests == []
        await self.call("PUT", sleeping, {"sleeping": False})
        async with asyncio.timeout(WAIT_SECONDS):
            answers = await asyncio.gather(*calls)
        assert [status for status, _ in answers] == [200] * CALLS, answers
        assert {json.loads(text)["choices"][0]["message"]["content"] for _, text in answers} == {ANSWER}


@asynccontextmanager
async def composed(engine: Podman, folder: Path, file: str, upstream: MockUpstream) -> AsyncGenerator[Composed]:
    """Prepare a copy of `deploy` whose provider is `upstream`; all that it started is removed at the end."""
    deploy = folder / "deploy"
    shutil.copytree(ROOT / "deploy", deploy)
    (image,) = (
        name for name in engine("images", "--format", "{{.Repository}}:{{.Tag}}").split() if "/circadia:" in name
    )
    provider = f"http://host.containers.internal:{upstream.base_url.rpartition(':')[2]}/v1"
    for config in deploy.glob("*/circadia.yaml"):
        text, count = re.subn("https://api.openai.com/v1", provider, config.read_text("utf-8"))
        assert count == 1
        config.write_text(text, "utf-8")
    for path in (folder, *deploy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with reserved_port() as port:
        environment = {
            "CIRCADIA_IMAGE": image, "CIRCADIA_PORT": str(port), "CIRCADIA_ADMIN_TOKEN": TOKEN, "OPENAI_API_KEY": KEY,
            "POSTGRES_PASSWORD": "password-of-the-test",
            **{name: f"localhost/{program}:debian" for name, program in SERVICES.items()},
        }  # fmt: skip
        running = Composed(engine, deploy / file, environment)
    try:
        yield running
    finally:
        await running.http.close()
        await running.compose("down", "--volumes", "--timeout", "5")


async def test_one_server_of_the_compose_file_holds_and_wakes_a_call(engine: Podman, tmp_path: Path) -> None:
    async with MockUpstream(host="0.0.0.0", key=KEY, reply=ANSWER) as upstream:
        async with composed(engine, tmp_path, "compose.yaml", upstream) as server:
            await server.compose("up", "--detach")
            await server.until("the server is not ready", server.is_ready)
            await server.hold_and_wake(upstream)


async def test_a_cluster_of_the_compose_file_holds_and_wakes_calls_through_its_balancer(
    engine: Podman, tmp_path: Path
) -> None:
    async with MockUpstream(host="0.0.0.0", key=KEY, reply=ANSWER) as upstream:
        async with composed(engine, tmp_path, "compose.cluster.yaml", upstream) as cluster:
            # In the order of the docs: Podman before 4.6 cannot wait for health, nor start what needs an ended job.
            await cluster.compose("up", "--detach", "postgres", "redis")
            await cluster.until_healthy("postgres")
            await cluster.until_healthy("redis")
            await cluster.compose("run", "--rm", "--no-deps", "-T", "migration")
            await cluster.compose("up", "--detach", "--no-deps", "gateway-a", "gateway-b", "worker-a", "worker-b")
            await cluster.compose("up", "--detach", "--no-deps", "balancer")
            await cluster.until("no gateway is ready", cluster.is_ready)

            async def all_joined() -> bool:
                members = (await cluster.call("GET", "/cluster"))["members"]
                return sorted(each["role"] for each in members) == ["gateway", "gateway", "worker", "worker"]

            await cluster.until("not all servers have joined", all_joined)
            await cluster.hold_and_wake(upstream)
            await cluster.podman("stop", "--time", "40", "circadia-cluster_gateway-a_1")
            assert (await cluster.call("GET", "/sessions/day/agents/ann"))["sleeping"] is False
