"""The encoder in the server computes what the network of its weights is, on weights made up here."""

import math
from pathlib import Path

import numpy as np
import pytest

from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.search.columns import Array
from tests.fixtures.encoder import BERT, LAYERS, MPNET, SIZE, Network, archive, weights

HEADS = 12
MOST_TOKENS = 128


@pytest.mark.parametrize("network", [BERT, MPNET], ids=["BERT", "MPNet"])
def test_each_token_gets_the_vectors_of_each_layer_that_its_weights_make(tmp_path: Path, network: Network) -> None:
    encoder = LocalEncoder(archive(tmp_path, network))
    tokens, states = encoder.states("who pays ann")
    assert list(tokens) == ["[CLS]", "who", "pays", "ann", "[SEP]"]
    assert states.shape == (LAYERS + 1, 5, SIZE)
    assert np.allclose(states, _by_hand([1, 3, 4, 5, 2], network), atol=1e-4)
    ids = [1, *(3, 4, 5) * 13, 2]
    assert np.allclose(encoder.states("who pays ann " * 13)[1], _by_hand(ids, network), atol=1e-3)


def test_of_many_layers_seven_are_told_from_the_first_to_the_last(tmp_path: Path) -> None:
    states = LocalEncoder(archive(tmp_path, MPNET, 12)).states("who pays ann")[1]
    assert len(states) == 7
    assert np.allclose(states, _by_hand([1, 3, 4, 5, 2], MPNET, 12)[::2], atol=1e-3)


def test_what_a_word_means_depends_on_where_it_stands_and_of_a_long_text_only_the_beginning_is_read(
    tmp_path: Path,
) -> None:
    encoder = LocalEncoder(archive(tmp_path, BERT))
    one, other = encoder.states("who pays ann")[1], encoder.states("ann pays who")[1]
    assert not np.allclose(one[-1][2], other[-1][2], atol=1e-2)
    assert len(encoder.states("who " * 400)[0]) == MOST_TOKENS


def _distance(apart: int) -> int:
    """Return the class of a distance as T5 has it: 16 for what stands behind a token, and 16 for the rest."""
    side, far = 16 * (apart > 0), abs(apart)
    return side + (far if far < 8 else min(8 + int(math.log(far / 8) / math.log(128 / 8) * 8), 15))


def _by_hand(ids: list[int], network: Network, layers: int = LAYERS) -> Array:
    """Compute it number by number, in 64 bits."""
    told = {name: each.astype(float) for name, each in weights(network, layers).items()}
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
    states = [rows]
    for at in range(layers):
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
        states.append(rows)
    return np.array(states)
