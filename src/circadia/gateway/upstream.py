"""Sends an admitted call to its provider, and again where that is safe (GATE-62, GATE-63)."""

import asyncio
import io
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from circadia.clock import Clock
from circadia.errors import UpstreamFailed, UpstreamTimedOut
from circadia.gateway.headers import seconds_in
from circadia.settings import UpstreamSettings

_URLS_KEPT = 256
"""Parsed addresses that are kept; nearly all calls go to a handful."""
FIRST_PAUSE_SECONDS = 0.25
"""Pause before the first repeat; doubled each time."""


class Upstream:
    """One model provider. Its key is known here only; it is in no message, log or error."""

    def __init__(
        self,
        name: str,
        settings: UpstreamSettings,
        key: str | None,
        session: aiohttp.ClientSession,
        clock: Clock,
        *,
        max_answer_bytes: int,
    ) -> None:
        self.name = name
        self.settings = settings
        self._session = session
        self._clock = clock
        self._max_answer = max_answer_bytes
        self._base = settings.base_url
        self._key = (key or "").encode()
        self._urls: dict[str, URL] = {}
        self._auth: list[tuple[str, str]] = []
        if key:
            named = ("x-api-key", key) if settings.api == "anthropic" else ("authorization", f"Bearer {key}")
            self._auth = [named]
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=settings.connect_timeout_seconds, sock_read=settings.answer_timeout_seconds
        )

    @asynccontextmanager
    async def send(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes, *, again: bool
    ) -> AsyncGenerator[tuple[aiohttp.ClientResponse, bytes | None]]:
        """Send the call; give the answer, with its whole body unless it is a stream.

        A refused connection is tried again, as often as the settings say; and, where `again` says that a repeat does
        no harm, so are a connection that breaks off before the answer, 429 with a bearable `Retry-After`, and 5xx. The
        last answer is given as it is. An answer that breaks off is final: the work was done. `target` is path and query
        behind the base URL, as they came.

        Raises:
            UpstreamFailed: no connection, or a broken answer, in the end. UpstreamTimedOut: it took too long.
        """
        url = self._url(target)
        sent = [*headers, ("accept-encoding", "identity"), *self._auth]
        attempt = 0
        while True:
            pause: float | None = FIRST_PAUSE_SECONDS * 2**attempt
            last = attempt >= self.settings.retries
            try:
                response = await self._session.request(
                    method, url, headers=sent, data=sendable(body), timeout=self._timeout, allow_redirects=False
                )
            except aiohttp.ClientConnectorError as error:
                if last:
                    raise UpstreamFailed(f"upstream {self.name!r} refuses connections") from error
            except (TimeoutError, aiohttp.ServerTimeoutError) as error:
                raise UpstreamTimedOut(f"upstream {self.name!r} did not answer in time") from error
            except (aiohttp.ClientError, OSError) as error:
                if last or not again:
                    raise UpstreamFailed(f"upstream {self.name!r} broke off ({type(error).__name__})") from error
            else:
                try:
                    self._require_answer(response)
                    whole = None if is_stream(response) else await self._read(response)
                    pause = None if last or not again else self._pause(response.status, response.headers, pause)
                    if pause is None:
                        yield response, whole
                        return
                except _BrokenBody as error:
                    if last or not again or response.status < 400:
                        raise UpstreamFailed(f"upstream {self.name!r} broke off in its answer") from error
                finally:
                    if response.content.at_eof():
                        response.release()
                    else:  # the caller is gone or the rest is not wanted: end the upstream's work too
                        response.close()
            attempt += 1
            await self._clock.sleep(pause if pause is not None else 0.0)

    def _url(self, target: str) -> URL:
        url = self._urls.get(target)
        if url is None:
            url = URL(self._base + target, encoded=True)
            if len(self._urls) < _URLS_KEPT:
                self._urls[target] = url
        return url

    def _require_answer(self, response: aiohttp.ClientResponse) -> None:
        if response.status < 200:
            raise UpstreamFailed(f"upstream {self.name!r} wants to switch protocols unasked")
        if 300 <= response.status < 400 and "location" in response.headers:
            raise UpstreamFailed(f"upstream {self.name!r} redirects; the operator must set its base_url")

    def without_key(self, body: bytes) -> bytes:
        """Return an error body without the key, should the provider have repeated it."""
        return body.replace(self._key, b"[key]") if self._key else body

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            chunks: list[bytes] = []
            size = 0
            async for chunk in response.content.iter_any():
                chunks.append(chunk)
                size += len(chunk)
                if size > self._max_answer:
                    raise UpstreamFailed(f"upstream {self.name!r} sent more than {self._max_answer} bytes")
            return b"".join(chunks)
        except (TimeoutError, aiohttp.ServerTimeoutError) as error:
            raise UpstreamTimedOut(f"upstream {self.name!r} stopped in its answer") from error
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            raise _BrokenBody from error

    def _pause(self, status: int, headers: Mapping[str, str], backoff: float | None) -> float | None:
        """Return how long to wait before a repeat; none if the answer is final."""
        if headers.get("x-should-retry", "").lower() == "false":
            return None
        wait = seconds_in(headers.get("retry-after"))
        if status == 429 and wait is None:
            return None
        if status == 429 or status >= 500:
            chosen = wait if wait is not None else backoff
            return chosen if chosen is not None and chosen <= self.settings.retry_max_seconds else None
        return None


def sendable(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return what aiohttp sends without blocking the event loop: it writes plain bytes in one go."""
    return io.BytesIO(body) if body and len(body) > 2**20 else body or None


class _BrokenBody(Exception):
    """The upstream broke off within a buffered answer."""


def is_stream(response: aiohttp.ClientResponse) -> bool:
    """Return whether the answer is an event stream."""
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")
