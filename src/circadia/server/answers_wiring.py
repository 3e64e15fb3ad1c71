"""Builds ready answers at the gateway: the part of `wiring` that picks its classes."""

from circadia.answers.lookup import AnswerLookup
from circadia.clock import Clock
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.answers.answer_book import ENTRIES, AnswerBook
from circadia.gateway.answers.judging import JudgeLimits, ModelJudge
from circadia.gateway.answers.serving import AnswerAccuracy, AnswerResolver
from circadia.gateway.dialects.frames import VolatileSpans
from circadia.llm.chat_model import ChatModel
from circadia.memory.services import MemoryServices
from circadia.server.basis import ServerBasis
from circadia.settings import Settings
from circadia.telemetry.metrics import Metrics


def build_answer_lookup(settings: Settings, clock: Clock, memory: MemoryServices) -> AnswerLookup:
    return AnswerLookup(clock, memory.retrieval, memory.words, settings.answers)


def build_gateway_answers(
    basis: ServerBasis, memory: MemoryServices, journal: Journal, metrics: Metrics, mind: ChatModel | None
) -> tuple[tuple[AnswerResolver, AnswerBook], AnswerLookup]:
    """Build what decides about calls and what records them, and the lookup that both the gateway and passes use.

    `mind` is the sleep tier's model; without one no answers are prepared, and `check: model` checks nothing.
    """
    settings, clock, ids, store = basis.settings, basis.clock, basis.ids, basis.store
    chosen = settings.answers
    judge: ModelJudge | None = None
    if chosen.check == "model" and mind is not None:
        judge = ModelJudge(clock, ids, store, journal, mind, calls_per_hour=chosen.check_calls_per_hour)
    trust, lookup = AnswerAccuracy(clock, memory.events, chosen), build_answer_lookup(settings, clock, memory)
    spool = basis.build_spool("answers", ENTRIES)
    book = AnswerBook(clock, ids, store, spool, trust, metrics.count_lookup, frames=mind is not None)
    limits = None if judge is None else JudgeLimits(clock, judge, book.put)
    answering = AnswerResolver(
        clock, ids, lookup, trust, VolatileSpans(chosen.volatile), limits, chosen.volatile_headers
    )
    return (answering, book), lookup
