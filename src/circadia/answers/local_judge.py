"""The judge `check: local`: an English encoder in the server that costs no tokens (ANS-02)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Final, Protocol

from circadia.answers.judge import JudgeVerdict
from circadia.answers.pair_classifier import PairClassifier
from circadia.answers.pair_features import EncodedText, encode_text, pair_features
from circadia.llm.local_encoder import LocalEncoder
from circadia.llm.local_weights import JUDGE_WEIGHTS
from circadia.memory.search.languages import languages
from circadia.records.agent import Agent

ENGLISH: Final = "en"
_KEPT_TEXTS: Final = 64
"""Cached question encodings, up to 2.7 MB each."""


class Comparison(Protocol):
    """Compares two questions in a thread; see `PairComparison`."""

    def confidence(self, first: str, second: str) -> float: ...


class PairComparison:
    """Compares two questions; threads may share it."""

    def __init__(self, encoder: LocalEncoder, classifier: PairClassifier) -> None:
        self._encoder = encoder
        self._classifier = classifier
        self._encode = lru_cache(maxsize=_KEPT_TEXTS)(self._encode_text)

    def confidence(self, first: str, second: str) -> float:
        """Return how likely both ask the same; 0 if one of them is not in English."""
        if not all(ENGLISH in languages(text) for text in (first, second)):
            return 0.0
        return self._classifier.confidence(pair_features(self._encode(first), self._encode(second)))

    def _encode_text(self, text: str) -> EncodedText:
        return encode_text(text, *self._encoder.states(text))


class LocalJudge:
    waits = False

    def __init__(self, load: Callable[[], Awaitable[Comparison]], least_confidence: float) -> None:
        """`load` is awaited at the first question."""
        self.name = f"{JUDGE_WEIGHTS.name}, from {least_confidence}"
        self._load = load
        self._least_confidence = least_confidence
        self._loading: asyncio.Future[Comparison] | None = None
        self._turn = asyncio.Lock()
        """One comparison at a time: it takes a core, which calls need too."""

    async def judge(self, agent: Agent, asked: str, candidates: Sequence[str]) -> Sequence[JudgeVerdict]:
        async with self._turn:
            if self._loading is None or (self._loading.done() and self._loading.exception()):
                self._loading = asyncio.ensure_future(self._load())
            comparison = await asyncio.shield(self._loading)
            confidences = [await asyncio.to_thread(comparison.confidence, asked, text) for text in candidates]
        return [JudgeVerdict(same=score >= self._least_confidence, confidence=score) for score in confidences]
