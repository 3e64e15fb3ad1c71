"""Joins ready answers at the gateway: the part of `wiring` that picks its classes."""

from circadia.clock import Clock
from circadia.gateway.answer_book import AnswerBook
from circadia.gateway.answer_check import MindCheck, NoCheck
from circadia.gateway.answer_trust import Trust
from circadia.gateway.dialects.frame import Volatile
from circadia.gateway.journal import Journal
from circadia.gateway.ready import Answering
from circadia.ids import IdSource
from circadia.llm.mind import Mind
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
    """
    chosen = settings.answers
    check = (NoCheck() if mind is None else MindCheck(clock, ids, journal, mind)) if chosen.check else None
    trust = Trust(clock, chosen)
    answering = Answering(clock, ids, shelves, trust, Volatile(chosen.volatile), check, chosen.volatile_headers)
    return answering, AnswerBook(clock, ids, store, trust, metrics.looked_up, frames=mind is not None)
