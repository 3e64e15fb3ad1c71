"""The encoder in the server computes what the network of its weights is, on weights made up here."""

import math
import zipfile
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


def _weights() -> dict[str, Array]:
    chance = np.random.default_rng(5)
    shapes = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), SIZE),
        "embeddings.position_embeddings.weight": (300, SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
        "embeddings.LayerNorm.weight": (SIZE,), "embeddings.LayerNorm.bias": (SIZE,),
    }  # fmt: skip
    for at in range(LAYERS):
        layer = f"encoder.layer.{at}"
        dense = {f"attention.self.{each}": (SIZE, SIZE) for each in ("query", "key", "value")}
        dense |= {"attention.output.dense": (SIZE, SIZE), "intermediate.dense": (WIDE, SIZE)}
        dense |= {"output.dense": (SIZE, WIDE)}
        for name, shape in dense.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}.{name}.weight": (SIZE,), f"{layer}.{name}.bias": (SIZE,)}
    return {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """What `circadia model fetch` would keep."""
    tokenizer = Tokenizer(WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    path = tmp_path / "small.zip"
    with zipfile.ZipFile(path, "w") as kept:
        kept.writestr("model.safetensors", save(_weights()))
        kept.writestr("tokenizer.json", tokenizer.to_str())
    return path


def test_each_token_gets_the_vectors_of_each_layer_that_its_weights_make(archive: Path) -> None:
    tokens, states = LocalEncoder(archive).states("who pays ann")
    assert list(tokens) == ["[CLS]", "who", "pays", "ann", "[SEP]"]
    assert states.shape == (LAYERS + 1, 5, SIZE)
    assert np.allclose(states, _by_hand([1, 3, 4, 5, 2]), atol=1e-4)


def test_what_a_word_means_depends_on_where_it_stands_and_of_a_long_text_only_the_beginning_is_read(
    archive: Path,
) -> None:
    encoder = LocalEncoder(archive)
    one, other = encoder.states("who pays ann")[1], encoder.states("ann pays who")[1]
    assert not np.allclose(one[-1][2], other[-1][2], atol=1e-2)
    assert len(encoder.states("who " * 400)[0]) == MOST_TOKENS


def _by_hand(ids: list[int]) -> Array:
    """Compute it number by number, in 64 bits."""
    told = {name: each.astype(float) for name, each in _weights().items()}

    def norm(row: Array, name: str) -> Array:
        centred = row - sum(row) / SIZE
        deviation = math.sqrt(sum(each * each for each in centred) / SIZE + 1e-12)
        return centred / deviation * told[f"{name}.weight"] + told[f"{name}.bias"]

    def dense(row: Array, name: str) -> Array:
        return told[f"{name}.weight"] @ row + told[f"{name}.bias"]

    rows = [
        norm(told["embeddings.word_embeddings.weight"][each] + told["embeddings.position_embeddings.weight"][at]
             + told["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for at, each in enumerate(ids)
    ]  # fmt: skip
    states = [rows]
    for at in range(LAYERS):
        name = f"encoder.layer.{at}"
        query, key, value = (
            [dense(row, f"{name}.attention.self.{each}") for row in rows] for each in ("query", "key", "value")
        )
        new: list[Array] = []
        for one, row in enumerate(rows):
            seen = np.zeros(SIZE)
            for head in range(HEADS):
                of = slice(head * SIZE // HEADS, (head + 1) * SIZE // HEADS)
                raw = [math.exp(query[one][of] @ other[of] / math.sqrt(SIZE // HEADS)) for other in key]
                seen[of] = sum(each / sum(raw) * other[of] for each, other in zip(raw, value, strict=True))
            first = norm(row + dense(seen, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
            wide = [
                each * (1 + math.erf(each / math.sqrt(2))) / 2 for each in dense(first, f"{name}.intermediate.dense")
            ]
            new.append(norm(first + dense(np.array(wide), f"{name}.output.dense"), f"{name}.output.LayerNorm"))
        rows = new
        states.append(rows)
    return np.array(states)
