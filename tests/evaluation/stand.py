"""A small evaluation with the scripted model, as tests run it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from circadia.evaluation.arms import Arm, Preparing
from circadia.evaluation.asker import Asker
from circadia.evaluation.contexts import contexts
from circadia.evaluation.dataset import Case
from circadia.evaluation.measure import Measuring
from circadia.evaluation.scripted import ScriptedModel
from circadia.llm.mind import Mind, Prompt
from circadia.llm.usage import Usage
from circadia.memory.answers.likeness import fitted
from circadia.memory.answers.meaning import WordVectors
from circadia.memory.columns import Array
from circadia.testing.clock import ManualClock

T = TypeVar("T", bound=BaseModel)

ARMS = tuple(Arm)


@dataclass(frozen=True, kw_only=True)
class Stand:
    """A run that has not begun."""

    measuring: Measuring
    asker: Asker
    cases: Sequence[Case]


def same_vector(_: str) -> tuple[Array, float]:
    """Stand in for word vectors where no question is looked for by meaning."""
    return np.ones(4, np.float32) / 2, 1.0


def stand(
    words: WordVectors, *, mind: Mind | None = None, cases: Sequence[Case] | None = None, seed: int = 5,
    arms: Sequence[Arm] = ARMS, expected: int = 6, at_once: int = 2,
) -> Stand:  # fmt: skip
    """Return a run over one context of each world, with five questions each."""
    asked = contexts(seed, 4, 5) if cases is None else cases
    asker = Asker(mind or ScriptedModel(), ManualClock())
    preparing = Preparing(asker, arms, expected, words, fitted())
    measuring = Measuring(asker, preparing, asked, arms, seed=seed, at_once=at_once)
    return Stand(measuring=measuring, asker=asker, cases=asked)


class Recording:
    """The scripted model, which keeps what it was asked, and does something before one of its answers."""

    name = "recording"
    upstream = "tests"

    def __init__(self) -> None:
        self.asked: list[tuple[Prompt, str]] = []
        self._mind = ScriptedModel()

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        self.asked.append((prompt, output.__name__))
        self.before(len(self.asked))
        return await self._mind.ask(prompt, output, most_tokens=most_tokens)

    def before(self, number: int) -> None:
        """Do nothing."""

    def price(self, used: Usage) -> int | None:
        return None

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return None
