"""Models that fastembed runs: by a package of its name and shape, since the real one downloads its models."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from circadia.errors import ConfigError, UpstreamFailed
from circadia.memory.embedding.in_process import FastEmbedder
from circadia.settings.memory import FastembedEmbedderSettings
from tests.interaction.live import live
from tests.memory.embedding.stand import embedded_by

pytestmark = pytest.mark.spec("MEM-08")

PACKAGE = """
import numpy


class TextEmbedding:
    def __init__(self, model_name="BAAI/bge-small-en-v1.5", cache_dir=None, threads=None, **more):
        if model_name == "no/such":
            raise ValueError(f"Model {model_name} is not supported in TextEmbedding.")
        self.loaded = (model_name, cache_dir, threads)
        if cache_dir:
            with open(f"{cache_dir}/loaded", "a") as file:
                print(model_name, threads, file=file)

    def embed(self, documents, batch_size=256, parallel=None, **more):
        if "bad" in documents:
            raise RuntimeError("the runtime fails")
        for text in documents:
            yield numpy.array([3.0, float(len(text))], dtype=numpy.float32)

    def query_embed(self, query, **more):
        for text in query:
            yield numpy.array([0.0, 2.0], dtype=numpy.float32)
"""


def chosen(**more: object) -> FastembedEmbedderSettings:
    return FastembedEmbedderSettings.model_validate({"kind": "fastembed", **more})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "fastembed.py").write_text(PACKAGE, "utf-8")
    facts = tmp_path / "fastembed-9.8.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: fastembed\nVersion: 9.8\n", "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "fastembed", raising=False)
    yield
    sys.modules.pop("fastembed", None)


async def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "fastembed", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'circadia\[fastembed\]'"):
        FastEmbedder(chosen())


@pytest.mark.usefixtures("package")
async def test_it_is_loaded_with_the_first_text_and_named_by_model_version_and_dimensions() -> None:
    embedder = FastEmbedder(chosen(model="some/model", threads=1))
    assert "fastembed" not in sys.modules
    with pytest.raises(UpstreamFailed, match="not loaded"):
        _ = embedder.name
    assert (await embedder.embed(["four", "0"])).tolist() == [
        [pytest.approx(0.6), pytest.approx(0.8)],
        [pytest.approx(3 / 10**0.5), pytest.approx(1 / 10**0.5)],
    ]
    assert embedder.name == "fastembed:some/model@9.8/2"
    assert (await embedder.embed(["four"], question=True)).tolist() == [[0, 1]]
    assert (await embedder.embed([])).shape == (0, 2)


@pytest.mark.usefixtures("package")
async def test_texts_that_come_at_once_load_it_once(tmp_path: Path) -> None:
    embedder = FastEmbedder(chosen(model="some/model", threads=1, cache_folder=str(tmp_path)))
    await asyncio.gather(*(embedder.embed([f"text {number}"]) for number in range(5)))
    await embedder.embed(["another"])
    assert (tmp_path / "loaded").read_text() == "some/model 1\n"


@pytest.mark.usefixtures("package")
async def test_what_fails_inside_is_the_embedders_failure() -> None:
    with pytest.raises(UpstreamFailed, match="not supported"):
        await FastEmbedder(chosen(model="no/such")).embed(["a"])
    embedder = FastEmbedder(chosen())
    with pytest.raises(UpstreamFailed, match="runtime fails"):
        await embedder.embed(["bad"])
    assert (await embedder.embed(["good"])).shape == (1, 2)


@pytest.mark.usefixtures("package")
@pytest.mark.setting(
    "memory.embedder", "memory.embedder.fastembed.kind", "memory.embedder.fastembed.model",
    "memory.embedder.fastembed.cache_folder", "memory.embedder.fastembed.threads",
)  # fmt: skip
async def test_a_server_keeps_its_models_in_the_folder_and_names_the_model_of_each_vector(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    embedder = {"kind": "fastembed", "model": "some/model", "cache_folder": str(folder), "threads": 3}
    async with live(tmp_path / "data", memory={"embedder": embedder}, banks={"ann": {}}) as server:
        assert await embedded_by(server, "I take the night train.") == "fastembed:some/model@9.8/2"
    assert (folder / "loaded").read_text("utf-8") == "some/model 3\n"
