"""Builds model providers: the part of `wiring` that opens connections to them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from yarl import URL

from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.gateway.calls.model_call import Provider
from circadia.gateway.calls.paths import parse_rules
from circadia.gateway.calls.upstream import Upstream, provider_headers
from circadia.gateway.dialects.registry import build_dialects
from circadia.gateway.wire.base import Origin
from circadia.gateway.wire.dialer import tls_context
from circadia.gateway.wire.pool import ConnectionPool
from circadia.llm.prices import PriceList
from circadia.network import find_forward_proxy
from circadia.records.member import Role
from circadia.settings import Settings, UpstreamSettings

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
