"""Connections to Redis, and its errors as Circadia's own. The package is the optional extra `redis`."""

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from circadia.errors import ConfigError, StorageUnavailable

TIMEOUT_SECONDS: Final = 5.0
"""Longest wait for a connection or an answer."""


def require_redis_package() -> None:
    """Raises ConfigError if the extra `redis` is not installed."""
    _import("redis.asyncio")


def open_redis(url: str, name: str) -> Any:
    """Return a client of redis-py, which connects on first use and shows up under `name` in `CLIENT LIST`.

    It tries each command once: whoever uses it knows what a second try would do.
    """
    redis, retry, backoff = (_import(module) for module in ("redis.asyncio", "redis.asyncio.retry", "redis.backoff"))
    return redis.Redis.from_url(
        url,
        client_name=name.replace(" ", "-"),
        protocol=2,
        retry=retry.Retry(backoff.NoBackoff(), 0),
        socket_connect_timeout=TIMEOUT_SECONDS,
        socket_timeout=TIMEOUT_SECONDS,
    )


@contextmanager
def wrap_redis_errors() -> Generator[None]:
    """Raise StorageUnavailable for each error of Redis or of its connection; no message has the URL."""
    try:
        yield
    except (_import("redis.exceptions").RedisError, OSError) as error:  # the latter includes TimeoutError
        why = str(error) or type(error).__name__
        raise StorageUnavailable(f"Redis does not answer ({why})", retry_after_seconds=1.0) from error


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError("the package `redis` is not installed; run `pip install 'circadia[redis]'`") from error
