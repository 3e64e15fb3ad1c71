"""The encoder in the server computes what the network of its weights is, on weights made up here."""

import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from circadia.llm.local_encoder import HEADS, MOST_TOKENS, LocalEncoder
from circadia.memory.columns import Array

SIZE, WIDE, LAYERS = 2 * HEADS, 40, 2
VOCABULARY = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "who": 3, "pays": 4, "ann": 5}


@dataclass(frozen=True, kw_only=True)
class Network:
    """What is not the same in BERT and MPNet, as their weights are named and as they were trained."""

    looks: Sequence[str]
    seen: str
    first: str
    start: int
    epsilon: float
    more: Mapping[str, tuple[int, int]]


BERT = Network(
    looks=("attention.self.query", "attention.self.key", "attention.self.value"), seen="attention.output.dense",
    first="attention.output.LayerNorm", start=0, epsilon=1e-12,
    more={"embeddings.token_type_embeddings.weight": (2, SIZE)},
)  # fmt: skip
MPNET = Network(
    looks=("attention.attn.q", "attention.attn.k", "attention.attn.v"), seen="attention.attn.o",
    first="attention.LayerNorm", start=2, epsilon=1e-5,
    more={"encoder.relative_attention_bias.weight": (32, HEADS)},
)  # fmt: skip


def _weights(network: Network, layers: int = LAYERS) -> dict[str, Array]:
    chance = np.random.default_rng(5)
    shapes = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), SIZE),
        "embeddings.position_embeddings.weight": (300, SIZE),
        "embeddings.LayerNorm.weight": (SIZE,), "embeddings.LayerNorm.bias": (SIZE,), **network.more,
    }  # fmt: skip
    for at in range(layers):
        layer = f"encoder.layer.{at}"
        dense = dict.fromkeys((*network.looks, network.seen), (SIZE, SIZE))
        dense |= {"intermediate.dense": (WIDE, SIZE), "output.dense": (SIZE, WIDE)}
        for name, shape in dense.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        for name in (network.first, "output.LayerNorm"):
            shapes |= {f"{layer}.{name}.weight": (SIZE,), f"{layer}.{name}.bias": (SIZE,)}
    return {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def _archive(folder: Path, network: Network, layers: int = LAYERS) -> Path:
    """Write what `circadia model fetch` would keep."""
    tokenizer = Tokenizer(WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    path = folder / "small.zip"
    with zipfile.ZipFile(path, "w") as kept:
        kept.writestr("small/model.safetensors", save(_weights(network, layers)))
        kept.writestr("small/tokenizer.json", tokenizer.to_str())
    return path


@pytest.mark.parametrize("network", [BERT, MPNET], ids=["BERT", "MPNet"])
def test_each_token_gets_the_vectors_of_each_layer_that_its_weights_make(tmp_path: Path, network: Network) -> None:
    encoder = LocalEncoder(_archive(tmp_path, network))
    tokens, states = encoder.states("who pays ann")
    assert list(tokens) == ["[CLS]", "who", "pays", "ann", "[SEP]"]
    assert states.shape == (LAYERS + 1, 5, SIZE)
    assert np.allclose(states, _by_hand([1, 3, 4, 5, 2], network), atol=1e-4)
    ids = [1, *(3, 4, 5) * 13, 2]
    assert np.allclose(encoder.states("who pays ann " * 13)[1], _by_hand(ids, network), atol=1e-3)


def test_of_many_layers_seven_are_told_from_the_first_to_the_last(tmp_path: Path) -> None:
    states = LocalEncoder(_archive(tmp_path, MPNET, 12)).states("who pays ann")[1]
    assert len(states) == 7
    assert np.allclose(states, _by_hand([1, 3, 4, 5, 2], MPNET, 12)[::2], atol=1e-3)


def test_what_a_word_means_depends_on_where_it_stands_and_of_a_long_text_only_the_beginning_is_read(
    tmp_path: Path,
) -> None:
    encoder = LocalEncoder(_archive(tmp_path, BERT))
    one, other = encoder.states("who pays ann")[1], encoder.states("ann pays who")[1]
    assert not np.allclose(one[-1][2], other[-1][2], atol=1e-2)
    assert len(encoder.states("who " * 400)[0]) == MOST_TOKENS


def _distance(apart: int) -> int:
    """Return the class of a distance as T5 has it: 16 for what stands behind a token, and 16 for the rest."""
    side, far = 16 * (apart > 0), abs(apart)
    return side + (far if far < 8 else min(8 + int(math.log(far / 8) / math.log(128 / 8) * 8), 15))


def _by_hand(ids: list[int], network: Network, layers: int = LAYERS) -> Array:
    """Compute it number by number, in 64 bits."""
    told = {name: each.astype(float) for name, each in _weights(network, layers).items()}
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
