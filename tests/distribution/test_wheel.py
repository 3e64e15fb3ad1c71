"""The built files: a wheel works in an empty environment, without the checkout, and builds are repeatable."""

import asyncio
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from circadia.testing.upstream import MockUpstream
from tests.house.tree import ROOT

TOOLS = ROOT / ".venv/release/bin"
MEGABYTE = 1_000_000
KEY = {"OPENAI_API_KEY": "sk-of-the-provider"}
WAIT_SECONDS = 60.0
AGENT = """
import openai
answer = openai.OpenAI().chat.completions.create(model="small", messages=[{"role": "user", "content": "Hello."}])
print(answer.choices[0].message.content)
"""


def build(source: Path, folder: Path, *targets: str) -> list[Path]:
    """Build the distribution of a source tree into a folder; return the built files."""
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    words += [word for target in targets for word in ("-t", target)]
    subprocess.run(words, cwd=source, check=True, capture_output=True)
    return sorted(folder.iterdir())


def contents(wheel: Path) -> dict[str, str]:
    """Return the hashes of the files of a wheel, by their names."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        lines = archive.read(record).decode().splitlines()
    return dict(line.split(",")[:2] for line in lines)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    files = build(ROOT, tmp_path_factory.mktemp("dist"))
    wheel, source = (next(path for path in files if path.suffix == suffix) for suffix in (".whl", ".gz"))
    return wheel, source


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["wheel", "all"])
def installed(
    request: pytest.FixtureRequest, built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The programs of an environment that has the wheel, what it needs, and nothing else.

    The quick form finds what it needs, and only that, beside the program that runs the tests.
    """
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    words = [sys.executable, "-m", "pip", "--python", folder, "install", "-qq", "--disable-pip-version-check"]
    needs = ["-c", ROOT / "constraints.txt"] if request.param else ["--no-deps"]
    subprocess.run([*words, "--no-compile", *needs, built[0]], check=True, cwd=folder)
    if not request.param:
        (site,) = folder.glob("lib/python3.*/site-packages")
        (site / "needs.pth").write_text(
            sysconfig.get_path("purelib")
        )  # the files beside it that end in .pth are not read
    return folder / "bin"


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """The environment in which uv and pipx begin without a cache and install what the tests use."""
    assert TOOLS.is_dir(), "there is no uv: run `make .venv/release/.stamp`"
    pins = {"UV_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    places = {name: str(tmp_path / name) for name in ("UV_CACHE_DIR", "PIPX_HOME", "XDG_CACHE_HOME")}
    return {**os.environ, **pins, **places, "UV_PYTHON": sys.executable}


@pytest.mark.spec("SHIP-01")
def test_the_wheel_is_small_and_has_the_dashboard_and_the_licences(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    assert wheel.stat().st_size < 5 * MEGABYTE
    names = contents(wheel)
    assert "circadia/dashboard/index.html" in names
    assert "circadia/dashboard/third-party-licences.md" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if not name.startswith("circadia-")} == {"circadia"}


@pytest.mark.spec("SHIP-10")
def test_the_source_distribution_makes_the_same_wheel_and_a_second_build_the_same_files(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel, source = built
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = next(tmp_path.iterdir())
    (again,) = build(unpacked, tmp_path / "wheel", "wheel")
    assert contents(again) == contents(wheel)
    second = build(ROOT, tmp_path / "second")
    assert [path.read_bytes() for path in second] == [path.read_bytes() for path in sorted(built)]


@pytest.mark.timeout(300)
@pytest.mark.spec("SHIP-01")
async def test_the_demo_of_wakes_runs_from_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    day = json.loads(await command(installed, tmp_path, "circadia", "demo", "wakes", "--json"))
    assert day["stas"]["admitted"] == 1


@pytest.mark.timeout(300)
@pytest.mark.spec("SHIP-01")
async def test_a_new_user_holds_and_wakes_a_call_with_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    async with MockUpstream(key=KEY["OPENAI_API_KEY"], reply="Hello, you.") as upstream:
        words = ("circadia", "init", "--upstream", f"openai={upstream.base_url}/v1")
        await command(installed, tmp_path, *words, **KEY)
        with (tmp_path / "circadia.yaml").open("a") as file:
            file.write("server: {port: 0}\n")  # another test may have a server at the usual one
        found = json.loads(await command(installed, tmp_path, "circadia", "doctor", "--json", **KEY))
        assert {check["name"]: check["state"] for check in found["checks"]}["upstream openai"] == "ok"
        async with serve([installed / "circadia"], tmp_path) as (url, token):
            operate = {"CIRCADIA_URL": url, "CIRCADIA_TOKEN": token}
            link = await command(installed, tmp_path, "circadia", "ui", "--no-browser", **operate)
            async with aiohttp.ClientSession() as http, http.get(link.strip()) as page:
                assert page.status == 200
                assert "/ui/assets/" in await page.text()
            words = ("circadia", "agents", "add", "helper", "--json")
            agent = json.loads(await command(installed, tmp_path, *words, **operate))["token"]
            await command(installed, tmp_path, "circadia", "sleep", "helper", **operate)
            reach = {"OPENAI_BASE_URL": f"{url}/llm/openai/v1", "OPENAI_API_KEY": agent}
            call = asyncio.create_task(command(installed, tmp_path, "python", "-c", AGENT, **reach))
            async with asyncio.timeout(WAIT_SECONDS):
                words = ("circadia", "holds", "--json")
                while not json.loads(await command(installed, tmp_path, *words, **operate))["holds"]:
                    assert not call.done()
            assert not any("chat/completions" in request.path for request in upstream.requests)
            await command(installed, tmp_path, "circadia", "wake", "helper", **operate)
            assert await call == "Hello, you.\n"


@pytest.mark.slow  # the program that runs the tests has the model
@pytest.mark.spec("SHIP-01")
@pytest.mark.parametrize("installed", [True], indirect=True)
async def test_without_the_local_model_the_demo_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(installed / "circadia", "demo", cwd=tmp_path, stderr=subprocess.PIPE)
    _, err = await process.communicate()
    assert process.returncode == 10
    assert "`pip install 'circadia[local]'`, or with uv `uvx 'circadia[local]' demo`" in err.decode()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.spec("SHIP-01")
async def test_uvx_runs_the_demos_of_the_wheel_without_an_installation(
    built: tuple[Path, Path], tools: dict[str, str], tmp_path: Path
) -> None:
    words = ("uvx", "--from", str(built[0]), "circadia", "demo", "wakes", "--json")
    day = json.loads(await command(TOOLS, tmp_path, *words, **tools))
    assert day["stas"]["admitted"] == 1
    words = ("uvx", "--from", f"{built[0]}[local]", "circadia", "demo", "--seconds", "20", "--json")
    assert json.loads(await command(TOOLS, tmp_path, *words, **tools))["not_shown"] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.spec("SHIP-01")
async def test_pipx_runs_the_server_of_the_wheel_without_an_installation(
    built: tuple[Path, Path], tools: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "circadia.yaml").write_text("server: {port: 0}\n")
    words = ("pipx", "run", "--spec", str(built[0]), "circadia")
    assert (await command(TOOLS, tmp_path, *words, "--version", **tools)).split()[-1] in built[0].name
    async with serve([TOOLS / words[0], *words[1:]], tmp_path, **tools) as (url, _):
        async with aiohttp.ClientSession() as http, http.get(f"{url}/readyz") as answer:
            assert answer.status == 200


@asynccontextmanager
async def serve(program: Sequence[str | Path], home: Path, **environment: str) -> AsyncGenerator[tuple[str, str]]:
    """Run an installed server; yield its URL and the operator's token."""
    process = await asyncio.create_subprocess_exec(
        *program, "serve", cwd=home, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", **KEY, **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = ""
        async with asyncio.timeout(WAIT_SECONDS):
            while "CIRCADIA_URL=" not in said:
                line = await process.stdout.readline()
                assert line, said
                said += line.decode()
        url, token = (re.search(rf"{name}=(\S+)", said) for name in ("CIRCADIA_URL", "CIRCADIA_ADMIN_TOKEN"))
        assert url is not None
        assert token is not None
        yield url[1], token[1]
    finally:
        process.terminate()
        await process.wait()
    assert process.returncode == 0


async def command(installed: Path, home: Path, *words: str, **environment: str) -> str:
    """Run a program of the environment; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        installed / words[0], *words[1:], cwd=home, env={"HOME": str(home), "PATH": "/usr/bin:/bin", **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, f"{out.decode()}\n{err.decode()}"
    return out.decode()
