"""Sends an admitted call to its provider, and again where that is safe (GATE-62, GATE-63)."""

import io
from collections.abc import Awaitable, Callable
from typing import Final

from circadia.clock import Clock
from circadia.errors import ConfigError, UpstreamFailed, UpstreamTimedOut
from circadia.gateway.calls.headers import parse_seconds, to_caller
from circadia.gateway.wire.base import ConnectFailed, ConnectionBroken, ConnectionStalled, ConnectTimedOut
from circadia.gateway.wire.connection import ProviderResponse
from circadia.gateway.wire.pool import ConnectionPool
from circadia.network_errors import tls_hint
from circadia.settings import UpstreamSettings, build_key_header

_WHOLE_KINDS: Final = frozenset({"", "application/json", "text/html", "text/plain"})
"""Of these nobody makes use before the end; errors of proxies are among them."""
FIRST_PAUSE_SECONDS = 0.25
"""Pause before the first repeat; doubled each time."""


class Upstream:
    """One model provider. No message, log or error holds its key."""

    def __init__(
        self,
        name: str,
        settings: UpstreamSettings,
        key: str | None,
        pool: ConnectionPool,
        clock: Clock,
        *,
        max_answer_bytes: int,
    ) -> None:
        """`pool` sends the `provider_headers` with every call."""
        self.name = name
        self.settings = settings
        self._pool = pool
        self._clock = clock
        self._max_answer = max_answer_bytes
        self._key = (key or "").encode()

    async def send(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]], body: bytes, *, again: bool,
        clear: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[ProviderResponse, bytes | None]:  # fmt: skip
        """Send the call; return the answer, with its whole body unless it is a stream; `close` it when done with it.

        A refused connection is tried again, as often as the settings say; and, where `again` says that a repeat does
        no harm, so are a connection that breaks off before the answer, 429 with a bearable `Retry-After`, and 5xx. The
        last answer is given as it is. An answer that breaks off is final: the work was done. `target` is path and query
        behind the base URL, as they came. `clear` is awaited directly before each time that it is written.

        Raises:
            UpstreamFailed: no connection, or a broken answer, in the end. UpstreamTimedOut: it took too long.
        """
        attempt, target = 0, self.settings.target_path(target)
        while True:
            pause: float | None = FIRST_PAUSE_SECONDS * 2**attempt
            last = attempt >= self.settings.retries
            try:
                answer = await self._pool.send(method, target, headers, body, clear)
            except ConnectFailed as error:
                if last:
                    raise UpstreamFailed(f"upstream {self.name!r} cannot be reached: {error}") from error
            except (ConnectTimedOut, ConnectionStalled) as error:
                raise UpstreamTimedOut(f"upstream {self.name!r} did not answer in time") from error
            except ConnectionBroken as error:
                if last or not again:
                    hint = tls_hint(self.settings.base_url)
                    raise UpstreamFailed(f"upstream {self.name!r} broke off ({error}){hint}") from error
            else:
                try:
                    self._require_answer(answer)
                    whole = None if _comes_in_pieces(answer) else await self.read_whole(answer)
                    pause = None if last or not again else self._retry_pause(answer, pause)
                    if pause is None:
                        return answer, whole
                except ConnectionBroken as error:
                    if last or not again or answer.status < 400:
                        raise UpstreamFailed(f"upstream {self.name!r} broke off in its answer") from error
                except BaseException:
                    answer.close()
                    raise
                answer.close()  # the rest is not wanted: end the upstream's work too
            attempt += 1
            await self._clock.sleep(pause if pause is not None else 0.0)

    def _require_answer(self, answer: ProviderResponse) -> None:
        if 300 <= answer.status < 400 and answer.header(b"location") is not None:
            raise UpstreamFailed(f"upstream {self.name!r} redirects; the operator must set its base_url")

    def headers_back(self, answer: ProviderResponse) -> list[tuple[bytes, bytes]]:
        """Return the headers of an answer that go to its caller; none of them holds the key."""
        return to_caller(answer.headers, length=False, secrets=(self._key,) if self._key else ())

    def without_key(self, body: bytes) -> bytes:
        """Return a body, or a part of one, without the key, should the provider have repeated it."""
        return body.replace(self._key, b"[key]") if self._key else body

    async def read_whole(self, answer: ProviderResponse) -> bytes:
        """Return all of an answer.

        Raises:
            UpstreamFailed: it is too long. UpstreamTimedOut: it stopped. ConnectionBroken: it broke off.
        """
        try:
            chunks: list[bytes] = []
            size = 0
            async for chunk in answer:
                chunks.append(chunk)
                size += len(chunk)
                if size > self._max_answer:
                    raise UpstreamFailed(f"upstream {self.name!r} sent more than {self._max_answer} bytes")
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except ConnectionStalled as error:
            raise UpstreamTimedOut(f"upstream {self.name!r} stopped in its answer") from error

    def _retry_pause(self, answer: ProviderResponse, backoff: float | None) -> float | None:
        """Return how long to wait before a repeat; none if the answer is final."""
        if answer.status < 500 and answer.status != 429:
            return None
        if (answer.header(b"x-should-retry") or "").lower() == "false":
            return None
        told = answer.header(b"retry-after")
        exact = parse_seconds(answer.header(b"retry-after-ms"))  # as OpenAI and Azure say it, beside the other
        wait = parse_seconds(told) if exact is None else exact / 1000
        if wait is None and (told or answer.status == 429):  # a date, which is for the caller to read
            return None
        chosen = wait if wait is not None else backoff
        return chosen if chosen is not None and chosen <= self.settings.retry_max_seconds else None


def provider_headers(name: str, settings: UpstreamSettings, key: str | None) -> list[tuple[bytes, bytes]]:
    """Return the headers that every call to the provider has.

    Raises:
        ConfigError: the key is nothing that a header can hold.
    """
    headers = [(b"Accept-Encoding", b"identity")]
    if key:
        if not key.isascii() or not key.isprintable():
            raise ConfigError(
                f"the key of upstream {name!r} has signs that no key has, perhaps a line break at its end"
            )
        header, value = build_key_header(key, api=settings.api, header=settings.key_header)
        headers.append((header.encode(), value.encode()))
    return headers


def sendable_body(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return what aiohttp sends without blocking the event loop: it writes plain bytes in one go."""
    return io.BytesIO(body) if body and len(body) > 2**20 else body or None


def is_stream(answer: ProviderResponse) -> bool:
    """Return whether the answer is an event stream."""
    return (answer.header(b"content-type") or "").lower().startswith("text/event-stream")


def is_json(answer: ProviderResponse) -> bool:
    """Return whether the answer says that it is JSON."""
    kind = _content_type(answer)
    return kind == "application/json" or kind.endswith("+json")


def _content_type(answer: ProviderResponse) -> str:
    return (answer.header(b"content-type") or "").partition(";")[0].strip().lower()


def _comes_in_pieces(answer: ProviderResponse) -> bool:
    """Return whether it is sent on as it comes: events, and lines, sound and the like whose length nobody told."""
    if is_stream(answer):
        return True
    whole = _content_type(answer) in _WHOLE_KINDS or is_json(answer) or answer.header(b"content-length") is not None
    return answer.status < 300 and not whole
