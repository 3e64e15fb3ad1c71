"""A small encoder of sentences that runs in the server: all-MiniLM-L6-v2, forward, in numpy.

The network is BERT's (Devlin et al. 2019), six layers of it as MiniLM distilled them (Wang et al. 2020); what it was
trained for is that sentences which say the same point the same way (Reimers and Gurevych 2019). Its sizes are read off
the weights; the number of heads is not in them.
"""

import math
import zipfile
from collections.abc import Sequence
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
_EPSILON: Final = 1e-12
"""Of the layers' norms, as it was trained."""


class LocalEncoder:
    """Gives each token of a text vectors that depend on the whole text. Threads may share one."""

    def __init__(self, archive: Path) -> None:
        """Load the archive that `circadia model fetch minilm` keeps: 90 MB of memory, about half a second."""
        with zipfile.ZipFile(archive) as kept:
            told: dict[str, Array] = load(kept.read("model.safetensors"))
            self._tokenizer = Tokenizer.from_str(kept.read("tokenizer.json").decode())
        self._tokenizer.enable_truncation(MOST_TOKENS)  # pyright: ignore[reportUnknownMemberType]
        self._tokenizer.no_padding()
        self._words = told["embeddings.word_embeddings.weight"]
        first = told["embeddings.token_type_embeddings.weight"][0]
        self._places = told["embeddings.position_embeddings.weight"] + first
        self._start = _norm(told, "embeddings.LayerNorm")
        count = 1 + max(int(name.split(".")[2]) for name in told if name.startswith("encoder.layer."))
        self._layers = [_Layer(told, f"encoder.layer.{at}") for at in range(count)]

    def states(self, text: str) -> tuple[Sequence[str], Array]:
        """Return the tokens of a text, the first and the last being marks, and their vectors, layer by layer.

        The first layer is of the tokens by themselves; of each, a row for each token.
        """
        read = self._tokenizer.encode(text)
        states = [_normed(self._words[read.ids] + self._places[: len(read.ids)], self._start)]
        for layer in self._layers:
            states.append(layer(states[-1]))
        return read.tokens, np.array(states)


class _Layer:
    """One layer: each token looks at all others, then at itself."""

    def __init__(self, told: dict[str, Array], name: str) -> None:
        looks = [_linear(told, f"{name}.attention.self.{each}") for each in ("query", "key", "value")]
        self._looks = np.hstack([matrix for matrix, _ in looks]), np.concatenate([bias for _, bias in looks])
        self._seen = _linear(told, f"{name}.attention.output.dense")
        self._wide, self._narrow = _linear(told, f"{name}.intermediate.dense"), _linear(told, f"{name}.output.dense")
        self._first = _norm(told, f"{name}.attention.output.LayerNorm")
        self._last = _norm(told, f"{name}.output.LayerNorm")

    def __call__(self, state: Array) -> Array:
        count, size = state.shape
        looks = (state @ self._looks[0] + self._looks[1]).reshape(count, 3, HEADS, size // HEADS)
        query, key, value = looks.transpose(1, 2, 0, 3)
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(size // HEADS)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        seen = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        seen = seen.transpose(1, 0, 2).reshape(count, size)
        state = _normed(state + seen @ self._seen[0] + self._seen[1], self._first)
        wide = _gelu(state @ self._wide[0] + self._wide[1])
        return _normed(state + wide @ self._narrow[0] + self._narrow[1], self._last)


def _linear(told: dict[str, Array], name: str) -> tuple[Array, Array]:
    return np.ascontiguousarray(told[f"{name}.weight"].T), told[f"{name}.bias"]


def _norm(told: dict[str, Array], name: str) -> tuple[Array, Array]:
    return told[f"{name}.weight"], told[f"{name}.bias"]


def _normed(state: Array, by: tuple[Array, Array]) -> Array:
    centred = state - state.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON) * by[0] + by[1]


def _gelu(value: Array) -> Array:
    """Return the Gaussian error linear unit, by an error function good to 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(value) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * size)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(value) * (1 - poly * np.exp(-size * size))
    return value * (1 + erf) / 2
