"""Turns of made-up conversations, with vectors, for the benchmarks of memory: the same in each run."""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Final

import numpy as np

from circadia.ids import BankId, EpisodeId
from circadia.memory.episodes import searched_text
from circadia.memory.search.columns import Array
from circadia.memory.search.question import Question
from circadia.memory.search.terms import question_terms, stored_terms, words
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Trust
from circadia.records.episode import Episode
from circadia.stores.base import Store

DIMENSIONS: Final = 256
EMBEDDER: Final = f"benchmark@1/{DIMENSIONS}"
VOCABULARY: Final = 20_000
"""Different words; the k-th is used 1 / k times as often as the first (Zipf)."""
TURNS: Final = 30
"""Of a conversation."""
STORED_AT_ONCE: Final = 500
"""Episodes in a transaction."""
BEGIN: Final = datetime(2025, 1, 1, tzinfo=UTC)
_SYLLABLES: Final = "bacedifoguhajekilomunaperisotuvawexiyozu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What somebody said."""

    text: str
    speaker: str
    session: str
    at: datetime
    vector: Array
    """Unit length."""


class Turns:
    """Makes turns, and questions about them."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._vocabulary = [_word(number) for number in range(VOCABULARY)]
        self._often = list(accumulate(1 / (number + 1) for number in range(VOCABULARY)))
        meaning = np.random.default_rng(7).normal(size=(VOCABULARY, DIMENSIONS)).astype(np.float32)
        self._meaning = dict(zip(self._vocabulary, meaning, strict=True))
        self._rank = {word: number for number, word in enumerate(self._vocabulary)}

    def make(self, count: int) -> Iterator[Turn]:
        """Yield so many turns; some 25 words each, every third a question."""
        for number in range(count):
            text = " ".join(self._draw.choices(self._vocabulary, cum_weights=self._often, k=self._draw.randint(8, 40)))
            yield Turn(
                text=f"{text}?" if number % 3 == 0 else text,
                speaker=("Ann", "Bob")[number % 2],
                session=f"s{number // TURNS}",
                at=BEGIN + timedelta(minutes=number),
                vector=self._vector(text),
            )

    def question(self, turn: Turn) -> str:
        """Return a question about a turn: some of its rarer words among common ones."""
        rare = sorted(set(words(turn.text)), key=lambda word: -self._rank[word])[:8]
        return f"what did {turn.speaker} say about {' '.join(self._draw.sample(rare, min(4, len(rare))))}?"

    def asked(self, question: str) -> Question:
        """Return what it is looked for by; its embedding is not part of what is measured."""
        return Question(
            terms=question_terms(question),
            names=frozenset(words(question)),
            vectors={EMBEDDER: self.vector_of(question)},
            now=datetime(2026, 1, 1, tzinfo=UTC).timestamp(),
        )

    def vector_of(self, question: str) -> Array:
        """Return the question's unit vector."""
        return self._vector(" ".join(word for word in words(question) if word in self._meaning))

    def _vector(self, text: str) -> Array:
        """Return the mean of the words' vectors, rarer words first: near for texts that share words."""
        total = sum((self._meaning[word] for word in text.split()), np.full(DIMENSIONS, 1e-6, np.float32))
        return total / np.linalg.norm(total)


class NoQuestions:
    """In the place of an embedder: the vectors come with the questions."""

    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        """Return none: it is awaited."""
        return None

    async def vectors(self, question: str) -> Mapping[str, Array]:
        """Return none."""
        return {}


def _word(number: int) -> str:
    word = ""
    for _ in range(3):
        number, rest = divmod(number, 20)
        word += _SYLLABLES[2 * rest : 2 * rest + 2]
    return word + _SYLLABLES[2 * number : 2 * number + 2]


async def store_turns(store: Store, bank: BankId, turns: Sequence[Turn], *, first: int = 0) -> None:
    """Store them as episodes with their vectors; `first` is how many the bank has already."""
    for begin in range(0, len(turns), STORED_AT_ONCE):
        part = turns[begin : begin + STORED_AT_ONCE]
        episodes = await asyncio.to_thread(_episodes, bank, first + begin, part)
        async with store.begin_write() as tx:
            for episode in episodes:
                await tx.episodes.add(episode)


def _episodes(bank: BankId, begin: int, turns: Sequence[Turn]) -> list[Episode]:
    return [
        Episode(
            id=EpisodeId(f"{bank}-{number}"), number=0, bank_id=bank, at=turn.at, text=turn.text, trust=Trust.PERSON,
            terms=stored_terms(searched_text(turn.at, turn.speaker, turn.text)), speaker=turn.speaker,
            conversation=turn.session, stored_at=turn.at, digest=str(number), vector=stored_vector(turn.vector),
            embedder=EMBEDDER,
        )
        for number, turn in enumerate(turns, begin)
    ]  # fmt: skip
