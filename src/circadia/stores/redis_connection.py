"""Connections to Redis, and its errors as Circadia's own. The package is the optional extra `redis`."""

import asyncio
import importlib
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any, Final

from circadia.errors import ConfigError, Conflict, StorageUnavailable

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


async def read_messages(subscription: Any) -> AsyncGenerator[dict[str, Any]]:
    """Yield what a subscription receives until the connection is silent and does not answer a PING.

    The first ones confirm the subscription.

    Raises:
        StorageUnavailable: the connection is lost.
    """
    is_asked = False
    while True:
        with wrap_redis_errors():
            message = await subscription.get_message(timeout=TIMEOUT_SECONDS)
            if message is None and is_asked:
                raise TimeoutError("no answer to PING")
            if message is None:
                await subscription.ping()
        if message is not None:
            yield message
        is_asked = message is None


@contextmanager
def wrap_redis_errors() -> Generator[None]:
    """Raise errors of Redis and of its connection as Circadia's own; no message has the URL.

    Before Python 3.12 the client loses a cancellation that comes just when a command is sent (`asyncio.wait_for`); here
    it goes on.

    Raises:
        Conflict: a key that a transaction watches was changed. StorageUnavailable: any other error.
    """
    errors = _import("redis.exceptions")
    try:
        yield
    except errors.WatchError as error:
        raise Conflict("another process wrote to Redis at the same moment; try again") from error
    except (errors.RedisError, OSError) as error:  # the latter includes TimeoutError
        why = str(error) or type(error).__name__
        raise StorageUnavailable(f"Redis does not answer ({why})", retry_after_seconds=1.0) from error
    finally:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError("the package `redis` is not installed; run `pip install 'circadia[redis]'`") from error
