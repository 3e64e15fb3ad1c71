"""A small encoder of sentences that runs in the server: all-MiniLM-L6-v2 or all-mpnet-base-v2, forward, in numpy.

The network is BERT's (Devlin et al. 2019), six layers of it as MiniLM distilled them (Wang et al. 2020), or MPNet's
twelve (Song et al. 2020), where a token also weighs how far another stands from it (Raffel et al. 2020, "T5"). Both
were trained so that sentences which say the same point the same way (Reimers and Gurevych 2019). Which it is, and its
sizes, are read off the weights; the number of heads is not in them.
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
MOST_TOKENS: Final = 128
"""Of a text, as it was trained; what follows is not read."""
MOST_LAYERS: Final = 6
"""So many layers are told, evenly spread, beside the tokens by themselves."""
_FAR: Final = 128
"""Tokens that stand farther away than this all count as equally far."""
_DISTANCES: Final = "encoder.relative_attention_bias.weight"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Architecture:
    """What is not the same in the two networks."""

    looks: str
    """Where a layer's `query`, `key` and `value` lie."""
    query_key_value: Sequence[str]
    seen: str
    first: str
    """The norm behind it."""
    start: int
    """The place of the first token."""
    epsilon: float
    """Of the norms, as it was trained."""


_BERT: Final = _Architecture(
    looks="attention.self", query_key_value=("query", "key", "value"), seen="attention.output.dense",
    first="attention.output.LayerNorm", start=0, epsilon=1e-12,
)  # fmt: skip
_MPNET: Final = _Architecture(
    looks="attention.attn", query_key_value=("q", "k", "v"), seen="attention.attn.o", first="attention.LayerNorm",
    start=2, epsilon=1e-5,
)  # fmt: skip


class LocalEncoder:
    """Gives each token of a text vectors that depend on the whole text. Threads may share one."""

    def __init__(self, archive: Path) -> None:
        """Load what `circadia model fetch` keeps of `minilm`, in half a second, or of `mpnet`, in some seconds."""
        with zipfile.ZipFile(archive) as kept:
            names = {name.rsplit("/", 1)[-1]: name for name in kept.namelist()}
            told: dict[str, Array] = load(kept.read(names["model.safetensors"]))
            self._tokenizer = Tokenizer.from_str(kept.read(names["tokenizer.json"]).decode())
        self._tokenizer.enable_truncation(MOST_TOKENS)  # pyright: ignore[reportUnknownMemberType]
        self._tokenizer.no_padding()
        kind = _MPNET if _DISTANCES in told else _BERT
        self._words = told["embeddings.word_embeddings.weight"]
        self._places = told["embeddings.position_embeddings.weight"][kind.start : kind.start + MOST_TOKENS]
        if kind is _BERT:
            self._places = self._places + told["embeddings.token_type_embeddings.weight"][0]
        self._distances = told.get(_DISTANCES)
        self._start = _take_norm(told, "embeddings.LayerNorm", kind)
        count = 1 + max(int(name.split(".")[2]) for name in told if name.startswith("encoder.layer."))
        self._layers = [_Layer(told, f"encoder.layer.{at}", kind) for at in range(count)]

    def states(self, text: str) -> tuple[Sequence[str], Array]:
        """Return the tokens of a text, the first and the last being marks, and their vectors, layer by layer.

        The first layer is of the tokens by themselves, the last the network's last; of each, a row for each token.
        """
        read = self._tokenizer.encode(text)
        states = [_layer_norm(self._words[read.ids] + self._places[: len(read.ids)], self._start)]
        near: Array | float = 0.0
        if self._distances is not None:
            near = self._distances[_distance_classes(len(read.ids), len(self._distances))].transpose(2, 0, 1)
        for layer in self._layers:
            states.append(layer(states[-1], near))
        return read.tokens, np.array(states[:: max(len(self._layers) // MOST_LAYERS, 1)])


class _Layer:
    """One layer: each token looks at all others, then at itself."""

    def __init__(self, told: dict[str, Array], name: str, kind: _Architecture) -> None:
        looks = [_take_linear(told, f"{name}.{kind.looks}.{each}") for each in kind.query_key_value]
        self._looks = np.hstack([matrix for matrix, _ in looks]), np.concatenate([bias for _, bias in looks])
        self._seen = _take_linear(told, f"{name}.{kind.seen}")
        self._wide, self._narrow = (
            _take_linear(told, f"{name}.intermediate.dense"),
            _take_linear(told, f"{name}.output.dense"),
        )
        self._first = _take_norm(told, f"{name}.{kind.first}", kind)
        self._last = _take_norm(told, f"{name}.output.LayerNorm", kind)

    def __call__(self, state: Array, near: Array | float) -> Array:
        """Return the tokens' vectors behind it; `near` is what it adds to how much one looks at another."""
        count, size = state.shape
        looks = (state @ self._looks[0] + self._looks[1]).reshape(count, 3, HEADS, size // HEADS)
        query, key, value = looks.transpose(1, 2, 0, 3)
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(size // HEADS) + near
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        seen = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        seen = seen.transpose(1, 0, 2).reshape(count, size)
        state = _layer_norm(state + seen @ self._seen[0] + self._seen[1], self._first)
        wide = _gelu(state @ self._wide[0] + self._wide[1])
        return _layer_norm(state + wide @ self._narrow[0] + self._narrow[1], self._last)


def _take_linear(told: dict[str, Array], name: str) -> tuple[Array, Array]:
    return np.ascontiguousarray(told.pop(f"{name}.weight").T), told[f"{name}.bias"]


def _take_norm(told: dict[str, Array], name: str, kind: _Architecture) -> tuple[Array, Array, float]:
    return told[f"{name}.weight"], told[f"{name}.bias"], kind.epsilon


@cache
def _distance_classes(count: int, classes: int) -> Array:
    """Return the class of how far each token stands from each: half of them for those behind, and so for those before.

    Half of those are a class for each distance, the others grow with its logarithm.
    """
    apart = np.arange(count)[None, :] - np.arange(count)[:, None]
    side, far = classes // 2, np.abs(apart)
    exact = side // 2
    grown = exact + (np.log(np.maximum(far, 1) / exact) / math.log(_FAR / exact) * (side - exact)).astype(int)
    return np.where(far < exact, far, np.minimum(grown, side - 1)) + side * (apart > 0)


def _layer_norm(state: Array, by: tuple[Array, Array, float]) -> Array:
    centred = state - state.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + by[2]) * by[0] + by[1]


def _gelu(value: Array) -> Array:
    """Return the Gaussian error linear unit, by an error function good to 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(value) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * size)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(value) * (1 - poly * np.exp(-size * size))
    return value * (1 + erf) / 2
