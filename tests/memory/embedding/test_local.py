"""Encoders that were fetched, as embedders: on small ones that are made up."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from circadia.errors import ConfigError, UpstreamFailed
from circadia.llm import local_weights
from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.embedding.in_process import LocalEmbedder
from circadia.settings.memory import LocalEmbedderSettings
from tests.fixtures.encoder import BERT, SIZE, archive
from tests.interaction.live import live
from tests.memory.embedding.stand import embedded_by

pytestmark = pytest.mark.spec("MEM-08")

CHOSEN = LocalEmbedderSettings.model_validate({"kind": "local"})


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = archive(tmp_path, BERT)
    known = replace(local_weights.MINILM, filename=path.name, size_bytes=path.stat().st_size)
    monkeypatch.setattr(local_weights, "WEIGHTS_BY_NAME", {"minilm": known})
    return path


def test_weights_that_were_not_fetched_are_told_with_the_command_that_does(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"minilm.*run `circadia model fetch minilm`"):
        LocalEmbedder(CHOSEN, tmp_path)


async def test_a_text_has_the_encoders_vector_at_length_one(fetched: Path) -> None:
    embedder = LocalEmbedder(CHOSEN, fetched.parent)
    with pytest.raises(UpstreamFailed, match="not loaded yet"):
        _ = embedder.name
    assert embedder.embed_nowait("who pays") is None
    vectors = await embedder.embed(["who pays", "ann pays ann"])
    found = [LocalEncoder(fetched).embed(text) for text in ("who pays", "ann pays ann")]
    assert np.allclose(vectors, [each / np.linalg.norm(each) for each in found], atol=1e-6)
    assert np.allclose(await embedder.embed(["ann pays ann"], question=True), vectors[1:])
    assert embedder.name == f"all-MiniLM-L6-v2@{local_weights.MINILM.sha256[:8]}/{SIZE}"
    assert (await embedder.embed([])).shape == (0, SIZE)


async def test_weights_that_cannot_be_read_are_the_embedders_failure_until_they_can_be(fetched: Path) -> None:
    embedder = LocalEmbedder(CHOSEN, fetched.parent)
    whole = fetched.read_bytes()
    fetched.write_bytes(bytes(len(whole)))
    with pytest.raises(UpstreamFailed, match=r"remove .*small\.zip.* and run `circadia model fetch minilm`"):
        await embedder.embed(["who pays"])
    fetched.write_bytes(whole)
    assert (await embedder.embed(["who pays"])).shape == (1, SIZE)


@pytest.mark.setting("memory.embedder.local.kind", "memory.embedder.local.model")
async def test_a_server_uses_the_encoder_that_was_fetched(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_weights, "WEIGHTS_BY_NAME", {"mpnet": local_weights.WEIGHTS_BY_NAME["minilm"]})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = local_weights.models_folder(os.environ)
    folder.mkdir(parents=True)
    fetched.rename(folder / fetched.name)
    embedder = {"kind": "local", "model": "mpnet"}
    async with live(tmp_path / "data", memory={"embedder": embedder}, banks={"ann": {}}) as server:
        assert (await embedded_by(server, "Ann pays.")).startswith("all-MiniLM-L6-v2@"), "the only one that was fetched"
