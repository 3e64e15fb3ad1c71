"""Builds model providers and ready answers at the gateway: the part of `wiring` that picks their classes."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from yarl import URL

from circadia.answers.lookup import AnswerLookup
from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.forward_proxy import find_forward_proxy
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.answers.answer_book import ENTRIES, AnswerBook
from circadia.gateway.answers.judging import JudgeLimits, ModelJudge
from circadia.gateway.answers.serving import AnswerResolver
from circadia.gateway.answers.trust import AnswerAccuracy
from circadia.gateway.calls.model_call import Provider
from circadia.gateway.calls.paths import parse_rules
from circadia.gateway.calls.upstream import Upstream, provider_headers
from circadia.gateway.codecs.frame import VolatileSpans
from circadia.gateway.dialects.registry import build_dialects
from circadia.gateway.wire.base import Origin
from circadia.gateway.wire.dialer import tls_context
from circadia.gateway.wire.pool import ConnectionPool
from circadia.llm.chat_model import ChatModel
from circadia.llm.prices import PriceList
from circadia.memory.services import MemoryServices
from circadia.records.member import Role
from circadia.server.basis import ServerBasis
from circadia.settings import Settings, UpstreamSettings
from circadia.telemetry.metrics import Metrics

Secret = Callable[[str, str | None], str | None]
"""Returns the value of the variable that a setting names, or None; raises ConfigError if it is not set."""


async def open_providers(
    settings: Settings,
    secret: Secret,
    environment: Mapping[str, str],
    clock: Clock,
    stack: AsyncExitStack,
    *,
    role: Role,
) -> Mapping[str, Provider]:
    """Return the configured providers by name; `stack` closes their connections.

    A worker passes on no call: it does without the providers whose keys it does not have, and drafts no answers there.

    Raises ConfigError.
    """
    providers: dict[str, Provider] = {}
    for name, upstream in settings.upstreams.items():
        try:
            key = secret(f"upstreams.{name}", upstream.key_env)
        except ConfigError:
            if role is not Role.WORKER:
                raise
            continue
        pool = await _build_pool(name, upstream, key, find_forward_proxy(upstream.base_url, environment))
        stack.push_async_callback(pool.close)
        providers[name] = Provider(
            upstream=Upstream(name, upstream, key, pool, clock, max_answer_bytes=settings.limits.max_answer_bytes),
            dialects=build_dialects(upstream.api),
            prices=PriceList(base_url=upstream.base_url, api=upstream.api),
            rules=parse_rules(upstream.paths),
        )
    return providers


async def _build_pool(name: str, settings: UpstreamSettings, key: str | None, proxy: URL | None) -> ConnectionPool:
    try:
        origin = Origin.from_url(settings.base_url)
    except ValueError as error:
        raise ConfigError(f"upstreams.{name}.base_url {error}") from error
    return ConnectionPool(
        origin,
        provider_headers(name, settings, key),
        await asyncio.to_thread(tls_context) if origin.secure else None,
        max_connections=settings.max_connections,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        answer_timeout_seconds=settings.answer_timeout_seconds,
        proxy=proxy,
    )


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
