"""A small sentence encoder that runs in the server: all-MiniLM-L6-v2 or all-mpnet-base-v2, forward pass only, in numpy.

The network is BERT (Devlin et al. 2019) with six layers, distilled as MiniLM (Wang et al. 2020), or MPNet (Song et al.
2020) with twelve and a relative position bias (Raffel et al. 2020, "T5"). Both were trained to place sentences with the
same meaning close together (Reimers and Gurevych 2019). The weights show which one it is, and all sizes except the
number of heads.
"""

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load
from tokenizers import Tokenizer

Array = NDArray[Any]

HEADS: Final = 12
MAX_TOKENS: Final = 128
"""Tokens read of a text, as in training."""
_FAR: Final = 128
"""Token distance above which all distances count as equal."""
_DISTANCES: Final = "encoder.relative_attention_bias.weight"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Architecture:
    """The differences between the two networks."""

    attention: str
    """Prefix of a layer's `query`, `key` and `value`."""
    query_key_value: Sequence[str]
    attention_output: str
    first: str
    """The norm behind it."""
    start: int
    """Index of the first position."""
    epsilon: float
    """Epsilon of the norms in training."""


_BERT: Final = _Architecture(
    attention="attention.self", query_key_value=("query", "key", "value"), attention_output="attention.output.dense",
    first="attention.output.LayerNorm", start=0, epsilon=1e-12,
)  # fmt: skip
_MPNET: Final = _Architecture(
    attention="attention.attn", query_key_value=("q", "k", "v"), attention_output="attention.attn.o",
    first="attention.LayerNorm", start=2, epsilon=1e-5,
)  # fmt: skip


class LocalEncoder:
    """Embeds texts; threads may share it."""

    def __init__(self, archive: Path) -> None:
        """Load the archive of `circadia model fetch`: half a second for `minilm`, some seconds for `mpnet`."""
        with zipfile.ZipFile(archive) as stored:
            names = {name.rsplit("/", 1)[-1]: name for name in stored.namelist()}
            weights: dict[str, Array] = load(stored.read(names["model.safetensors"]))
            self._tokenizer = Tokenizer.from_str(stored.read(names["tokenizer.json"]).decode())
        self._tokenizer.enable_truncation(MAX_TOKENS)  # pyright: ignore[reportUnknownMemberType]
        self._tokenizer.no_padding()
        kind = _MPNET if _DISTANCES in weights else _BERT
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = weights["embeddings.position_embeddings.weight"][kind.start : kind.start + MAX_TOKENS]
        if kind is _BERT:
            self._places = self._places + weights["embeddings.token_type_embeddings.weight"][0]
        self._position_biases = weights.get(_DISTANCES)
        self._start = _take_norm(weights, "embeddings.LayerNorm", kind)
        count = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
        self._layers = [_Layer(weights, f"encoder.layer.{at}", kind) for at in range(count)]

    def embed(self, text: str) -> Array:
        """Return the mean of the token states in the last layer, as the encoder was trained."""
        read = self._tokenizer.encode(text)
        state = _layer_norm(self._words[read.ids] + self._places[: len(read.ids)], self._start)
        position_bias: Array | float = 0.0
        if self._position_biases is not None:
            classes = _distance_classes(len(read.ids), len(self._position_biases))
            position_bias = self._position_biases[classes].transpose(2, 0, 1)
        for layer in self._layers:
            state = layer(state, position_bias)
        return state.mean(axis=0)


class _Layer:
    """One layer: attention, then a feed-forward network."""

    def __init__(self, weights: dict[str, Array], name: str, kind: _Architecture) -> None:
        qkv = [_take_linear(weights, f"{name}.{kind.attention}.{part}") for part in kind.query_key_value]
        self._qkv = np.hstack([matrix for matrix, _ in qkv]), np.concatenate([bias for _, bias in qkv])
        self._attention_output = _take_linear(weights, f"{name}.{kind.attention_output}")
        self._intermediate, self._output = (
            _take_linear(weights, f"{name}.intermediate.dense"),
            _take_linear(weights, f"{name}.output.dense"),
        )
        self._first = _take_norm(weights, f"{name}.{kind.first}", kind)
        self._last = _take_norm(weights, f"{name}.output.LayerNorm", kind)

    def __call__(self, state: Array, position_bias: Array | float) -> Array:
        """Return the layer's output; `position_bias` is added to the attention scores."""
        count, size = state.shape
        qkv = (state @ self._qkv[0] + self._qkv[1]).reshape(count, 3, HEADS, size // HEADS)
        query, key, value = qkv.transpose(1, 2, 0, 3)
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(size // HEADS) + position_bias
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attention = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        attention = attention.transpose(1, 0, 2).reshape(count, size)
        state = _layer_norm(state + attention @ self._attention_output[0] + self._attention_output[1], self._first)
        intermediate = _gelu(state @ self._intermediate[0] + self._intermediate[1])
        return _layer_norm(state + intermediate @ self._output[0] + self._output[1], self._last)


def _take_linear(weights: dict[str, Array], name: str) -> tuple[Array, Array]:
    return np.ascontiguousarray(weights.pop(f"{name}.weight").T), weights[f"{name}.bias"]


def _take_norm(weights: dict[str, Array], name: str, kind: _Architecture) -> tuple[Array, Array, float]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"], kind.epsilon


@cache
def _distance_classes(count: int, classes: int) -> Array:
    """Return the bias class of the distance between each two tokens: half of the classes for each direction.

    Half of those hold one distance each; the others grow with its logarithm.
    """
    distances = np.arange(count)[None, :] - np.arange(count)[:, None]
    side, far = classes // 2, np.abs(distances)
    exact = side // 2
    grown = exact + (np.log(np.maximum(far, 1) / exact) / math.log(_FAR / exact) * (side - exact)).astype(int)
    return np.where(far < exact, far, np.minimum(grown, side - 1)) + side * (distances > 0)


def _layer_norm(state: Array, by: tuple[Array, Array, float]) -> Array:
    centred = state - state.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + by[2]) * by[0] + by[1]


def _gelu(value: Array) -> Array:
    """Return the GELU by an error function accurate to 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(value) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * size)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(value) * (1 - poly * np.exp(-size * size))
    return value * (1 + erf) / 2
