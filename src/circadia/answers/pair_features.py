"""The features of two encoded questions for the judge `check: local` (ANS-02).

They compare both questions as a whole and token by token, in each layer: token order, tokens that only one has, and
whether numbers or names differ. Nothing here is specific to a language.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import numpy as np

from circadia.answers.identifiers import find_conflict, has_identifier
from circadia.memory.search.columns import Array

_TINY: Final = 1e-9
_NEAR: Final = 0.5
"""Cosine above which two tokens are counterparts."""
_WORST: Final = 4
"""Worst counterparts that are separate features."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedText:
    text: str
    tokens: Sequence[str]
    """Without the encoder's marks and punctuation."""
    states: Array
    """By layer, token and dimension."""
    units: Array
    """`states` as unit vectors."""
    pooled: Array
    """Unit vector of the whole question, by layer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFeatures:
    named: Mapping[str, float]
    dimensions: Array
    """Products and distances of both pooled vectors of the last layer, then those of the tokens that only one question
    has, in the first and the middle layer."""


def encode_text(text: str, tokens: Sequence[str], states: Array) -> EncodedText:
    """Encode a question from an encoder's tokens and states, each with a mark at both ends."""
    inner, words = (states[:, 1:-1], tokens[1:-1]) if len(tokens) > 2 else (states, tokens)
    kept_places = [at for at, token in enumerate(words) if any(map(str.isalnum, token))] or list(range(len(words)))
    inner = inner[:, kept_places]
    return EncodedText(
        text=text,
        tokens=[words[at] for at in kept_places],
        states=inner,
        units=_unit(inner),
        pooled=_unit(states.mean(axis=1)),
    )


def pair_features(first: EncodedText, second: EncodedText) -> PairFeatures:
    """Return the features of two questions; their order does not matter."""
    blocks = SequenceMatcher(None, first.tokens, second.tokens, autojunk=False).get_matching_blocks()
    shared = [(block.a + at, block.b + at) for block in blocks for at in range(block.size)]
    only_first = sorted(set(range(len(first.tokens))) - {at for at, _ in shared})
    only_second = sorted(set(range(len(second.tokens))) - {at for _, at in shared})
    cosines = first.units @ second.units.transpose(0, 2, 1)
    pooled = (first.pooled * second.pooled).sum(axis=1)
    named: dict[str, float] = {}
    for layer, near in enumerate(cosines):
        values = _layer_features(near, shared, only_first, only_second)
        values["whole"] = float(pooled[layer])
        one, two = first.states[layer][only_first], second.states[layer][only_second]
        values["own cosine"] = _cosine(one.sum(axis=0), two.sum(axis=0)) if only_first and only_second else 0.0
        named |= {f"{layer}: {name}": value for name, value in values.items()}
    named |= _edge_features(cosines) | _token_features(first, second, len(shared), len(only_first), len(only_second))
    named |= _identifier_features(first.text, second.text)
    whole = first.pooled[-1], second.pooled[-1]
    parts = [whole[0] * whole[1], np.abs(whole[0] - whole[1])]
    for layer in (0, len(first.states) // 2):
        one, two = first.states[layer][only_first].sum(axis=0), second.states[layer][only_second].sum(axis=0)
        parts += [np.abs(one - two), one * two]
    return PairFeatures(named=named, dimensions=np.concatenate(parts))


def _layer_features(
    near: Array, shared: Sequence[tuple[int, int]], only_first: Sequence[int], only_second: Sequence[int]
) -> dict[str, float]:
    best = near.max(axis=1), near.max(axis=0)
    mean, least = (sorted(float(getattr(maxima, how)()) for maxima in best) for how in ("mean", "min"))
    worst = np.sort(np.concatenate(best))[:_WORST]
    worst = np.pad(worst, (0, _WORST - len(worst)), constant_values=1.0)
    features = {"mean, worse": mean[0], "mean, better": mean[1], "least, worse": least[0], "least, better": least[1]}
    features |= {f"worst {at}": float(worst[at]) for at in range(1, _WORST)}
    turned = _reversed_share(near.argmax(axis=1), best[0]), _reversed_share(near.argmax(axis=0), best[1])
    features["turned"] = min(turned)
    same = near[tuple(np.array(shared).T)] if shared else np.zeros(1)
    features |= {"shared, mean": float(same.mean()), "shared, least": float(same.min())}
    own = near[np.ix_(only_first, only_second)] if only_first and only_second else None
    unshared = (0.0, 0.0, 0.0)
    if own is not None:
        means = sorted((float(own.max(axis=1).mean()), float(own.max(axis=0).mean())))
        unshared = (means[0], means[1], min(float(own.max(axis=1).min()), float(own.max(axis=0).min())))
    elif not only_first and not only_second:
        unshared = (1.0, 1.0, 1.0)
    return features | dict(zip(("own, worse", "own, better", "own, least"), unshared, strict=True))


def _reversed_share(places: Array, cosines: Array) -> float:
    """Return the share of token pairs whose counterparts are in reverse order."""
    counterparts = places[cosines > _NEAR]
    count = len(counterparts)
    if count < 2:
        return 0.0
    turned = np.triu(counterparts[:, None] > counterparts[None, :], 1).sum()
    return float(turned) / (count * (count - 1) / 2)


def _edge_features(cosines: Array) -> dict[str, float]:
    return {
        f"{name} token, layer {layer}": float(cosines[layer][at, at])
        for name, at in (("first", 0), ("last", -1))
        for layer in (0, -1)
    }


def _token_features(
    first: EncodedText, second: EncodedText, shared: int, only_first: int, only_second: int
) -> dict[str, float]:
    counts, own = (len(first.tokens), len(second.tokens)), sorted((only_first, only_second))
    one, two = set(first.tokens), set(second.tokens)
    return {
        "in order": 2 * shared / max(sum(counts), 1),
        "in common": len(one & two) / max(len(one | two), 1),
        "same tokens": float(sorted(first.tokens) == sorted(second.tokens)),
        "length": math.log1p(sum(counts)),
        "lengths apart": abs(math.log((1 + counts[0]) / (1 + counts[1]))),
        "fewest own": float(own[0]),
        "most own": float(own[1]),
        "one replaced": float(own == [1, 1]),
        "one added": float(own == [0, 1]),
        "few own": float(own[1] <= 2),
    }


def _identifier_features(first: str, second: str) -> dict[str, float]:
    identified = has_identifier(first), has_identifier(second)
    return {
        "conflict": float(bool(find_conflict(first, second))),
        "identified one": float(identified[0] != identified[1]),
        "identified both": float(all(identified)),
    }


def _cosine(one: Array, two: Array) -> float:
    return float(one @ two / max(float(np.linalg.norm(one) * np.linalg.norm(two)), _TINY))


def _unit(rows: Array) -> Array:
    return rows / np.maximum(np.sqrt((rows * rows).sum(axis=-1, keepdims=True)), _TINY)
