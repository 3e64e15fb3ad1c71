"""The container image, as `make image` builds it: a whole server, without root, on a read-only system."""

import asyncio
import gzip
import json
import re
import shutil
import stat
import tarfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest
import yaml

from circadia.testing.upstream import MockUpstream
from tests.fixtures.ports import reserved_port
from tests.house.tree import ROOT
from tests.wake.launchers.container_bench import ENGINE, WITH_CONTAINERS, Podman, podman

__test__ = WITH_CONTAINERS and not ENGINE
pytestmark = [pytest.mark.slow, pytest.mark.spec("SHIP-03")]

ARCHIVE = ROOT / "build/image/circadia.tar"
MEGABYTE = 1_000_000
WAIT_SECONDS = 60.0
KEY = "sk-of-the-provider"
TOKEN = "operator-token-of-the-image"
OPTIONS = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"]
START = """
import subprocess, sys
command = [sys.executable, "-v", "-m", "circadia", "serve", "--data", "/tmp/data"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in server.stdout:
    print(line, end="")
    if "listens" in line:
        break
server.kill()
"""
"""A start, until the server listens, that tells of each module whether its code was compiled before."""
LOOK = """
import os, pathlib
print(os.getuid(), os.getgid())
for place in ("/", "/tmp", "/opt/circadia", "/etc/circadia", "/data"):
    try:
        pathlib.Path(place, "file").write_text("text")
        print("wrote to", place)
    except OSError:
        pass
print(pathlib.Path("/proc/1/comm").read_text())
"""


@pytest.fixture(scope="module")
def engine() -> Generator[Podman]:
    """An engine of its own with the image."""
    assert ARCHIVE.exists(), "there is no image; run `make image`, or set CIRCADIA_TEST_NO_CONTAINERS=1"
    with podman() as running:
        running("load", "--quiet", "--input", str(ARCHIVE))
        yield running


@pytest.fixture(scope="module")
def image(engine: Podman) -> str:
    return next(
        name for name in engine("images", "--format", "{{.Repository}}:{{.Tag}}").split() if "/circadia:" in name
    )


class Container:
    """`circadia serve` in a container on this machine's network."""

    def __init__(self, engine: Podman, name: str, port: int) -> None:
        self.engine = engine
        self.name = name
        self.url = f"http://127.0.0.2:{port}"  # only a server that binds more than 127.0.0.1 answers there
        self.http = aiohttp.ClientSession(headers={"host": "circadia.internal", "authorization": f"Bearer {TOKEN}"})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()

    async def podman(self, *words: str) -> str:
        return await asyncio.to_thread(self.engine, *words)

    async def call(self, method: str, path: str, document: object = None) -> Any:
        async with self.http.request(method, f"{self.url}/api/v1{path}", json=document) as answer:
            text = await answer.text()
            assert answer.status < 400, f"{method} {path}: {answer.status} {text}"
            return json.loads(text) if text else None

    async def until_ready(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                try:
                    async with self.http.get(f"{self.url}/readyz") as answer:
                        assert answer.status == 200, await answer.text()
                        return
                except aiohttp.ClientConnectionError:
                    state = await self.podman("inspect", "--format", "{{.State.Status}}", self.name)
                    assert state.strip() == "running", await self.podman("logs", self.name)
                    await asyncio.sleep(0.05)

    async def until(self, path: str, is_right: Callable[[Any], bool]) -> Any:
        """Return the answer once it is right."""
        answer = None
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not is_right(answer := await self.call("GET", path)):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{path}: {answer}") from None
        return answer

    async def until_held(self) -> None:
        await self.until("/holds", lambda answer: len(answer["holds"]) == 1)


@asynccontextmanager
async def started(engine: Podman, image: str, folder: Path, settings: dict[str, Any]) -> AsyncGenerator[Container]:
    """Run a server that has a volume and its configuration, and may write to nothing else."""
    (folder / "circadia.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    folder.chmod(0o755)
    with reserved_port() as port:
        own = ["--volume", f"data-{port}:/data", "--volume", f"{folder}:/etc/circadia:ro", "--network=host"]
        own += ["--env", f"CIRCADIA_ADMIN_TOKEN={TOKEN}", "--env", f"OPENAI_API_KEY={KEY}"]
        own += ["--env", f"CIRCADIA_URL=http://127.0.0.1:{port}"]
        name = f"server-{port}"
        serve = ["serve", "--host", "0.0.0.0", "--port", str(port)]
        async with Container(engine, name, port) as container:
            await container.podman("run", "--detach", "--name", name, *own, *OPTIONS, image, *serve)
            try:
                await container.until_ready()
                yield container
            finally:
                await container.podman("rm", "--force", "--time", "0", "--volumes", name)


def ask(container: Container, agent: str) -> "asyncio.Task[tuple[int, str]]":
    """Send a model call as an agent."""

    async def send() -> tuple[int, str]:
        body = {"model": "small", "messages": [{"role": "user", "content": "Hello."}]}
        headers = {"authorization": f"Bearer {agent}"}
        url = f"{container.url}/llm/openai/v1/chat/completions"
        async with container.http.post(url, json=body, headers=headers) as answer:
            return answer.status, await answer.text()

    return asyncio.create_task(send())


def test_the_image_is_small_and_names_its_user_volume_port_and_licence(
    engine: Podman, image: str, tmp_path: Path
) -> None:
    (about,) = json.loads(engine("image", "inspect", image))
    config = about["Config"]
    assert (config["User"], list(config["Volumes"]), list(config["ExposedPorts"])) == (
        "10001:10001",
        ["/data"],
        ["4114/tcp"],
    )
    assert config["Entrypoint"][0] == "/usr/bin/tini"
    labels = {key.rsplit(".", 1)[1]: value for key, value in config["Labels"].items() if "opencontainers.image" in key}
    assert (labels["title"], labels["licenses"]) == ("Circadia", "Apache-2.0")
    assert image.endswith(f":{labels['version']}")
    assert not [line for line in config["Env"] if re.match(r"\w*(TOKEN|KEY|PASSWORD)", line)]
    assert about["Size"] <= 265 * MEGABYTE
    packed = tmp_path / "packed"
    with ARCHIVE.open("rb") as plain, gzip.open(packed, "wb", compresslevel=6) as file:
        shutil.copyfileobj(plain, file)
    assert packed.stat().st_size <= 90 * MEGABYTE


def test_no_layer_has_a_token_a_database_or_a_program_with_the_rights_of_its_owner(engine: Podman, image: str) -> None:
    names: list[str] = []
    with tarfile.open(ARCHIVE) as archive:
        for layer in json.loads(archive.extractfile("manifest.json").read())[0]["Layers"]:  # pyright: ignore[reportOptionalMemberAccess]
            with tarfile.open(fileobj=archive.extractfile(layer)) as files:
                members = files.getmembers()
                assert not [
                    each.name for each in members if each.isfile() and each.mode & (stat.S_ISUID | stat.S_ISGID)
                ]
                names += [each.name for each in members]
    assert "opt/circadia/bin/circadia" in names
    assert not [name for name in names if re.search(r"admin\.token|circadia\.db|\.env$|/\.git/|first-start", name)]


def test_a_start_compiles_nothing(engine: Podman, image: str) -> None:
    lines = engine("run", "--rm", "--network=none", "--entrypoint=python3", image, "-c", START)
    assert "listens" in lines
    assert lines.count(" matches /") > 1000
    assert not re.findall(r"^# code object from /.*\.py$", lines, re.M)


async def test_a_server_without_root_on_a_read_only_system_holds_wakes_remembers_and_survives_a_restart(
    engine: Podman, image: str, tmp_path: Path
) -> None:
    async with MockUpstream(key=KEY, reply="Hello, you.") as upstream:
        settings: dict[str, Any] = {
            "server": {"allowed_hosts": ["circadia.internal"]},
            "upstreams": {"openai": {"base_url": f"{upstream.base_url}/v1", "key_env": "OPENAI_API_KEY"}},
            "sleeptime": {"model": {"upstream": "openai", "name": "small"}},
            "banks": {"team": {}},
        }
        async with started(engine, image, tmp_path, settings) as container:
            assert "unhealthy" not in await container.podman("healthcheck", "run", container.name)
            seen = await container.podman("exec", container.name, "python3", "-c", LOOK)
            assert seen.split("\n") == ["10001 10001", "wrote to /data", "tini", "", ""]
            session = await container.call("POST", "/sessions", {"name": "day", "agents": [{"name": "ann"}]})
            token = session["agents"][0]["token"]
            place = "/sessions/day/agents/ann/sleeping"
            await container.call("PUT", place, {"sleeping": True})
            held = ask(container, token)
            await container.until_held()
            assert upstream.requests == []
            await container.call("PUT", place, {"sleeping": False})
            status, text = await held
            assert (status, json.loads(text)["choices"][0]["message"]["content"]) == (200, "Hello, you.")

            episode = "The cat sleeps on the warm oven."
            await container.call("POST", "/banks/team/episodes", {"text": "I have moved to Porto.", "speaker": "ann"})
            kept = await container.call("POST", "/banks/team/episodes", {"text": episode, "speaker": "ann"})
            await container.until(f"/banks/team/episodes/{kept['id']}", lambda kept: kept["embedded_by"])
            question = "/banks/team/search?q=kitten+napping"
            assert (await container.call("GET", question))["hits"][0]["text"] == episode
            begun = await container.call("POST", "/banks/team/passes", {})
            ended = await container.until(
                f"/passes/{begun['id']}", lambda each: each["status"] not in {"pending", "running"}
            )
            assert "prose instead of JSON" in ended["detail"], (
                ended
            )  # the pass has asked this model, which writes no notes

            await container.call("PUT", place, {"sleeping": True})
            held = ask(container, token)
            await container.until_held()
            await container.podman("stop", "--time", "40", container.name)
            status, text = await held
            assert status == 503, text
            assert (await container.podman("inspect", "--format", "{{.State.ExitCode}}", container.name)).strip() == "0"
            await container.podman("start", container.name)
            await container.until_ready()
            assert (await container.call("GET", "/sessions/day/agents/ann"))["sleeping"] is True
            assert (await container.call("GET", question))["hits"][0]["text"] == episode
