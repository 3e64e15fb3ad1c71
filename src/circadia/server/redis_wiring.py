"""Builds what may use Redis: signals between servers, and the bridge."""

from collections.abc import Mapping, Sequence

from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.ids import MemberId
from circadia.server.basis import ServerBasis
from circadia.server.cluster_wiring import load_postgres
from circadia.settings import Settings
from circadia.settings.section import require_redis_url
from circadia.stores.redis_connection import require_redis_package
from circadia.stores.signals.local import LocalSignals
from circadia.stores.signals.redis import RedisCarrier
from circadia.stores.signals.remote import RemoteSignals
from circadia.wake.redis_bridge import RedisBridge
from circadia.wake.redis_inboxes import RedisDelivery
from circadia.wake.services import WakeServices


def open_signals(
    settings: Settings, environment: Mapping[str, str], clock: Clock, member_id: MemberId | None
) -> LocalSignals | RemoteSignals:
    """Return signals within this process, or over what joins the servers. Raises ConfigError."""
    if settings.server.database_url is None or member_id is None:
        return LocalSignals()
    url = resolve_signals_url(settings, environment)
    if url is None:
        url = settings.server.direct_database_url or settings.server.database_url
        return RemoteSignals(clock, load_postgres().NotifyCarrier(url, member_id))
    return RemoteSignals(clock, RedisCarrier(url, member_id))


def build_redis_bridge(basis: ServerBasis, tier: WakeServices) -> Sequence[RedisBridge]:
    """Return the bridge if the settings name a Redis. Raises ConfigError."""
    bridge, url = basis.settings.redis_bridge, resolve_bridge_url(basis.settings, basis.environment)
    if url is None:
        return ()
    delivery = RedisDelivery(basis.store, tier.inbox, tier.requests, bridge.session)
    return [RedisBridge(basis.clock, basis.store, basis.signals, delivery, bridge, url, leads=basis.leads)]


def resolve_signals_url(settings: Settings, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the Redis that carries signals, if the settings name one. Raises ConfigError."""
    return _resolve_url("signals_env", settings.signals, settings.signals_env, environment)


def resolve_bridge_url(settings: Settings, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the bridge's Redis, if the settings name one. Raises ConfigError."""
    return _resolve_url("redis_bridge.url_env", settings.redis_bridge.url, settings.redis_bridge.url_env, environment)


def _resolve_url(where: str, url: str | None, variable: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the file or of the variable, and check that it can be used. Raises ConfigError."""
    if variable is not None:
        url = environment.get(variable)
        if not url:
            raise ConfigError(f"{where}: the environment has no {variable!r}; set it, or remove the key from the file")
        try:
            require_redis_url(url)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
    if url is not None:
        require_redis_package()
    return url
