"""The embedder that comes with Circadia: the real one."""

import asyncio
import importlib.metadata
import subprocess
import sys

import numpy as np
import psutil
import pytest

from circadia.errors import UpstreamFailed
from circadia.memory.embedding.bundled import BundledEmbedder

pytestmark = pytest.mark.spec("MEM-08")


async def test_it_tells_near_from_far_and_says_which_it_is() -> None:
    embedder = BundledEmbedder()
    assert embedder.name == f"wordllama@{importlib.metadata.version('wordllama')}/256"
    texts = ["The puppy chewed on my slippers.", "Taxes are due in spring.", ""]
    one, many = await asyncio.gather(embedder.embed(["dogs ruin shoes"], question=True), embedder.embed(texts * 4))
    assert (many.shape, many.dtype) == ((12, 256), np.float32)
    cosines = many[:3] @ one[0]
    assert cosines[0] > cosines[1] + 0.1
    assert cosines[2] == 0
    assert np.linalg.norm(many[:2], axis=1) == pytest.approx(1)
    assert (await embedder.embed([])).shape == (0, 256)


async def test_it_refuses_no_text() -> None:
    texts = ["\u200b", "🦄", "\x01", "word " * 5_000, "\u0301" * 100]
    vectors = await BundledEmbedder().embed(texts)
    assert np.isfinite(vectors).all()


async def test_it_keeps_nothing_of_the_texts_that_it_was_given() -> None:
    """Of each of these 20,000 its tokenizer would keep three kilobytes, 60 MB in all."""
    embedder, process = BundledEmbedder(), psutil.Process()
    await embedder.embed(["a"])
    before = process.memory_info().rss
    for number in range(0, 20_000, 4):
        await embedder.embed([f"The boat has a hull that we paint in blue {number + at} " * 3 for at in range(4)])
    assert process.memory_info().rss - before < 15 * 2**20


def test_its_package_does_not_choose_where_a_program_logs_to() -> None:
    program = """
import asyncio, logging
from circadia.memory.embedding.bundled import BundledEmbedder
asyncio.run(BundledEmbedder().embed(["a"]))
root = logging.getLogger()
print(root.handlers, root.level == logging.WARNING)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[] True\n", "")


async def test_who_does_not_wait_for_its_weights_leaves_them_to_the_next() -> None:
    embedder = BundledEmbedder()
    impatient = asyncio.create_task(embedder.embed(["a"]))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await embedder.embed(["a"])).shape == (1, 256)


async def test_without_its_package_it_fails_as_an_embedder_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(UpstreamFailed, match="reinstall wordllama"):
        await BundledEmbedder().embed(["a"])
