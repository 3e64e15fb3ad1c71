"""Joins ready answers at the gateway: the part of `wiring` that picks its classes."""

import asyncio
import os

from circadia.clock import Clock
from circadia.errors import StartError
from circadia.gateway.answer_book import AnswerBook
from circadia.gateway.answer_check import Check, LocalCheck, MindCheck, NoCheck
from circadia.gateway.answer_trust import Trust
from circadia.gateway.dialects.frame import Volatile
from circadia.gateway.journal import Journal
from circadia.gateway.ready import Answering
from circadia.ids import IdSource
from circadia.llm import local_weights
from circadia.llm.local_encoder import LocalEncoder
from circadia.llm.mind import Mind
from circadia.memory.answers.second_look import Looks, SecondLook, fitted
from circadia.memory.answers.shelf import Shelves
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.telemetry.metrics import Metrics


def answers_at_gateway(
    settings: Settings, clock: Clock, ids: IdSource, store: Store, shelves: Shelves, journal: Journal, metrics: Metrics,
    mind: Mind | None,
) -> tuple[Answering, AnswerBook]:  # fmt: skip
    """Build what looks ready answers up for calls, and what writes down behind them what came of it.

    `mind` is asked whether two questions are the same, if the settings want that; without one nothing is made ready.

    Raises:
        StartError: the encoder in the server is to be asked, and its weights are not there.
    """
    chosen = settings.answers
    check: Check | None = None
    if chosen.check == "local":
        check = local_check(shelves, chosen.serve_confidence)
    elif chosen.check:
        check = NoCheck() if mind is None else MindCheck(clock, ids, journal, mind)
    trust = Trust(clock, chosen)
    answering = Answering(clock, ids, shelves, trust, Volatile(chosen.volatile), check, chosen.volatile_headers)
    return answering, AnswerBook(clock, ids, store, trust, metrics.looked_up, frames=mind is not None)


def local_check(shelves: Shelves, bar: float) -> LocalCheck:
    """Build the check by the encoder in the server, which loads it when it is first asked.

    Raises:
        StartError: its weights are not there.
    """
    folder = local_weights.models_folder(os.environ)
    found = local_weights.comparing(folder)
    if found is None:
        raise StartError(
            f"`answers.check` is 'local', and no weights for it are in {str(folder)!r}: run `circadia model fetch "
            "minilm`, or `mpnet`, which is surer and takes more, as the server's user, or set `check` to false."
        )
    weights, archive = found

    async def load() -> SecondLook:
        words, likeness = await shelves.compares()
        return await asyncio.to_thread(
            lambda: SecondLook(Looks(words, likeness, LocalEncoder(archive)), fitted(weights.name))
        )

    return LocalCheck(load, bar)
