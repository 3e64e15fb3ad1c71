"""Builds model providers and ready answers at the gateway: the part of `wiring` that picks their classes."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

from yarl import URL

from circadia.answers.lookup import AnswerLookup
from circadia.errors import ConfigError
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.answers.answer_book import ENTRIES, AnswerBook
from circadia.gateway.answers.judging import JudgeLimits, ModelJudge
from circadia.gateway.answers.serving import AnswerAccuracy, AnswerResolver
from circadia.gateway.calls.paths import parse_rules
from circadia.gateway.calls.upstream import Provider, Upstream, provider_headers
from circadia.gateway.dialects.registry import build_dialects
from circadia.gateway.wire.base import Origin
from circadia.gateway.wire.dialer import tls_context
from circadia.gateway.wire.pool import ConnectionPool
from circadia.llm.chat_model import ChatModel
from circadia.llm.prices import PriceList
from circadia.memory.services import MemoryServices
from circadia.network import find_forward_proxy
from circadia.records.member import Role
from circadia.server.context import ServerContext
from circadia.settings import UpstreamSettings
from circadia.telemetry.metrics import Metrics


async def open_providers(context: ServerContext, stack: AsyncExitStack) -> Mapping[str, Provider]:
    """Return the configured providers by name; `stack` closes their connections.

    A worker passes on no call: it does without the providers whose keys it does not have, and drafts no answers there.

    Raises ConfigError.
    """
    providers: dict[str, Provider] = {}
    for name, upstream in context.settings.upstreams.items():
        try:
            key = context.read_secret(f"upstreams.{name}", upstream.key_env)
        except ConfigError:
            if context.role is not Role.WORKER:
                raise
            continue
        pool = await _build_pool(name, upstream, key, find_forward_proxy(upstream.base_url, context.environment))
        stack.push_async_callback(pool.close)
        providers[name] = Provider(
            upstream=Upstream(
                name, upstream, key, pool, context.clock, max_answer_bytes=context.settings.limits.max_answer_bytes
            ),
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


def build_gateway_answers(
    context: ServerContext, memory: MemoryServices, journal: Journal, metrics: Metrics, model: ChatModel | None
) -> tuple[tuple[AnswerResolver, AnswerBook], AnswerLookup]:
    """Build what decides about calls and what records them, and the lookup that both the gateway and passes use.

    `model` is the sleep tier's model; without one no answers are prepared, and `check: model` checks nothing.
    """
    clock, ids, store, chosen = context.clock, context.ids, context.store, context.settings.answers
    judge: ModelJudge | None = None
    if chosen.check == "model" and model is not None:
        judge = ModelJudge(clock, ids, store, journal, model, calls_per_hour=chosen.check_calls_per_hour)
    trust = AnswerAccuracy(clock, memory.events, chosen)
    lookup = AnswerLookup(clock, memory.retrieval, memory.words, chosen)
    spool = context.build_spool("answers", ENTRIES)
    book = AnswerBook(clock, ids, store, spool, trust, metrics.count_lookup, frames=model is not None)
    limits = None if judge is None else JudgeLimits(clock, judge, book.put)
    answering = AnswerResolver(clock, ids, lookup, trust, chosen.volatile, limits, chosen.volatile_headers)
    return (answering, book), lookup
