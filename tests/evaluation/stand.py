"""A small evaluation with the scripted model, as tests run it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from circadia.evaluation.arms import Arm, CasePreparer
from circadia.evaluation.asker import Asker
from circadia.evaluation.dataset import Case
from circadia.evaluation.generator import generate_cases
from circadia.evaluation.measure import ArmComparison
from circadia.evaluation.scripted_model import ScriptedEvalModel
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.llm.usage import Usage
from circadia.memory.search.columns import Array
from circadia.memory.search.vectors import TextVectors
from circadia.testing.clock import ManualClock

T = TypeVar("T", bound=BaseModel)

ARMS = tuple(Arm)
THINGS = ("kite", "canoe", "violin", "tent", "oven", "ladder")


@dataclass(frozen=True, kw_only=True)
class Stand:
    """A run that has not begun."""

    measuring: ArmComparison
    asker: Asker
    cases: Sequence[Case]


def same_vector(_: str) -> tuple[Array, float]:
    """Stand in for word vectors where no question is looked for by meaning."""
    return np.ones(4, np.float32) / 2, 1.0


def stand(
    words: TextVectors, *, mind: ChatModel | None = None, cases: Sequence[Case] | None = None, seed: int = 5,
    arms: Sequence[Arm] = ARMS, expected: int = 6, at_once: int = 2,
) -> Stand:  # fmt: skip
    """Return a run over one context of each world, with five questions each."""
    asked = generate_cases(seed, 4, 5) if cases is None else cases
    asker = Asker(mind or ScriptedEvalModel(), ManualClock())
    preparing = CasePreparer(asker, arms, expected, words)
    measuring = ArmComparison(asker, preparing, asked, arms, seed=seed, at_once=at_once)
    return Stand(measuring=measuring, asker=asker, cases=asked)


class Recording:
    """The scripted model, which keeps what it was asked, and does something before one of its answers."""

    name = "recording"
    upstream = "tests"
    thinking_tokens = 0

    def __init__(self) -> None:
        self.asked: list[tuple[Prompt, str]] = []
        self._mind = ScriptedEvalModel()

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


def talk(name: str = "t1") -> dict[str, Any]:
    """Return three sittings, with questions whose answer shares words with one turn."""
    said: dict[str, Any] = {}
    asked: list[dict[str, Any]] = []
    for sitting in range(1, 4):
        turns: list[dict[str, str]] = []
        for thing in THINGS:
            turns.append({"speaker": "Ann", "dia_id": f"D{sitting}:{len(turns)}", "text": f"How is the {thing}?"})
            place = f"D{sitting}:{len(turns)}"
            turns.append(
                {"speaker": "Bob", "dia_id": place, "text": f"My {thing} number {sitting} broke in {thing}town."}
            )
        said[f"session_{sitting}_date_time"] = f"1:56 pm on {sitting} May, 2023"
        said[f"session_{sitting}"] = turns
    asked = [
        {"question": "Where did Bob's kite break?", "evidence": ["D1:1", "D2:1"], "category": 1},
        {"question": "What broke in oventown?", "evidence": ["D1:9"], "category": 4},
        {"question": "Who?", "evidence": ["D9:9"]},
    ]
    return {"sample_id": name, "conversation": said, "qa": asked}


def written(folder: Path, document: object) -> Path:
    path = folder / "talks.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return path
