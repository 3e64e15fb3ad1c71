"""The encoder in the server computes what the network of its weights is, on weights made up here."""

import math
from pathlib import Path

import numpy as np
import pytest

from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.search.columns import Array
from tests.fixtures.encoder import BERT, LAYERS, MPNET, SIZE, Network, archive, weights

HEADS = 12
MAX_TOKENS = 128


@pytest.mark.parametrize("network", [BERT, MPNET], ids=["BERT", "MPNet"])
def test_a_text_gets_the_vector_that_the_weights_make(tmp_path: Path, network: Network) -> None:
    encoder = LocalEncoder(archive(tmp_path, network))
    assert np.allclose(encoder.embed("who pays ann"), _by_hand([1, 3, 4, 5, 2], network), atol=1e-4)
    ids = [1, *(3, 4, 5) * 13, 2]
    assert np.allclose(encoder.embed("who pays ann " * 13), _by_hand(ids, network), atol=1e-3)


def test_the_order_of_words_counts_and_of_a_long_text_only_the_beginning_is_read(tmp_path: Path) -> None:
    encoder = LocalEncoder(archive(tmp_path, BERT))
    assert not np.allclose(encoder.embed("who pays ann"), encoder.embed("ann pays who"), atol=1e-2)
    whole = "who " * (MAX_TOKENS - 2)
    assert np.array_equal(encoder.embed(whole), encoder.embed(f"{whole} {'ann ' * 300}"))
    assert not np.array_equal(encoder.embed(whole), encoder.embed(f"{whole[:-4]}ann"))


def _distance(apart: int) -> int:
    """Return the class of a distance as T5 has it: 16 for what stands behind a token, and 16 for the rest."""
    side, far = 16 * (apart > 0), abs(apart)
    return side + (far if far < 8 else min(8 + int(math.log(far / 8) / math.log(128 / 8) * 8), 15))


def _by_hand(ids: list[int], network: Network) -> Array:
    """Compute it number by number, in 64 bits."""
    told = {name: each.astype(float) for name, each in weights(network).items()}
    kinds = told.get("embeddings.token_type_embeddings.weight", np.zeros((1, SIZE)))
    near = told.get("encoder.relative_attention_bias.weight", np.zeros((32, HEADS)))

    def norm(row: Array, name: str) -> Array:
        centred = row - sum(row) / SIZE
        deviation = math.sqrt(sum(each * each for each in centred) / SIZE + network.epsilon)
        return centred / deviation * told[f"{name}.weight"] + told[f"{name}.bias"]

    def dense(row: Array, name: str) -> Array:
        return told[f"{name}.weight"] @ row + told[f"{name}.bias"]

    rows = [
        norm(told["embeddings.word_embeddings.weight"][each] + kinds[0]
             + told["embeddings.position_embeddings.weight"][network.start + at], "embeddings.LayerNorm")
        for at, each in enumerate(ids)
    ]  # fmt: skip
    for at in range(LAYERS):
        name = f"encoder.layer.{at}"
        query, key, value = ([dense(row, f"{name}.{each}") for row in rows] for each in network.looks)
        new: list[Array] = []
        for one, row in enumerate(rows):
            seen = np.zeros(SIZE)
            for head in range(HEADS):
                of = slice(head * SIZE // HEADS, (head + 1) * SIZE // HEADS)
                raw = [
                    math.exp(query[one][of] @ other[of] / math.sqrt(SIZE // HEADS) + near[_distance(to - one), head])
                    for to, other in enumerate(key)
                ]
                seen[of] = sum(each / sum(raw) * other[of] for each, other in zip(raw, value, strict=True))
            first = norm(row + dense(seen, f"{name}.{network.seen}"), f"{name}.{network.first}")
            wide = [
                each * (1 + math.erf(each / math.sqrt(2))) / 2 for each in dense(first, f"{name}.intermediate.dense")
            ]
            new.append(norm(first + dense(np.array(wide), f"{name}.output.dense"), f"{name}.output.LayerNorm"))
        rows = new
    return np.array(rows).mean(axis=0)
