"""A model call and its provider, which gets it, and gets it again where that is safe (GATE-62, GATE-63)."""

import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from circadia.clock import Clock
from circadia.errors import ConfigError, UpstreamFailed, UpstreamTimedOut
from circadia.gateway.calls.headers import parse_seconds, to_caller
from circadia.gateway.calls.paths import Route, Rule
from circadia.gateway.dialects.base import Dialect, ModelRequest
from circadia.gateway.wire.base import Clearance, ConnectFailed, ConnectionBroken, ConnectionStalled, ConnectTimedOut
from circadia.gateway.wire.connection import ProviderResponse
from circadia.gateway.wire.pool import ConnectionPool
from circadia.ids import CallId, PulseId
from circadia.llm.prices import PriceList
from circadia.network import tls_hint
from circadia.records.agent import Agent
from circadia.records.fast_record import fast_record
from circadia.settings import UpstreamSettings, build_key_header

_logger = logging.getLogger(__name__)

_WHOLE_KINDS: Final = frozenset({"", "application/json", "text/html", "text/plain"})
"""Answers of these types are useful only when complete; errors of proxies are among them."""
SHORTEST_MASKED: Final = 16
"""Shortest secret that is masked in answers; `none` or `test`, as local servers want it, is a word of many answers."""
FIRST_PAUSE_SECONDS = 0.25
"""Pause before the first repeat. Each further pause is twice as long."""


class Upstream:
    """One model provider. No message, log or error contains its key."""

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
        self.takes_usage_option = True
        """Whether it may be asked for usage in a stream; False once it has refused that."""
        self._pool = pool
        self._clock = clock
        self._max_answer = max_answer_bytes
        self._key = maskable_secret(f"the key of upstream {name!r}", key or "")

    async def send(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]], body: bytes, *, again: bool,
        once: bool = False, streamed: bool = False, clearance: Clearance | None = None,
    ) -> tuple[ProviderResponse, bytes | None]:  # fmt: skip
        """Send the call; return the answer, with its whole body unless it streams. The caller must `close` the answer.

        A refused connection is retried up to the configured number. With `again` (a repeat does no harm), so are a
        connection that breaks before the answer, unless `once` says that it must not be carried out twice, 429 with a
        short enough `Retry-After`, and 5xx. The last answer is returned as it is. An answer that breaks off is final:
        the work was done. `target` is path and query after the base URL, unchanged. Each write is cleared anew. With
        `streamed`, the answer's first bytes tell whether it is a stream of events.

        Raises:
            UpstreamFailed: no connection, or a broken answer, after all retries. UpstreamTimedOut: it took too long.
                The cause is a connection that broke, if one did: then the work may be done.
        """
        attempt, target = 0, self.settings.target_path(target)
        broken: ConnectionBroken | None = None
        while True:
            pause: float | None = FIRST_PAUSE_SECONDS * 2**attempt
            last = attempt >= self.settings.retries
            try:
                answer = await self._pool.send(method, target, headers, body, clearance, fresh=once)
            except ConnectFailed as error:
                if last:
                    raise UpstreamFailed(f"upstream {self.name!r} cannot be reached: {error}") from broken or error
            except (ConnectTimedOut, ConnectionStalled) as error:
                raise UpstreamTimedOut(f"upstream {self.name!r} did not answer in time") from broken or error
            except ConnectionBroken as error:
                broken = error
                if last or once or not again:
                    hint = tls_hint(self.settings.base_url)
                    raise UpstreamFailed(f"upstream {self.name!r} broke off ({error}){hint}") from error
            else:
                try:
                    self._require_answer(answer)
                    whole = None if await self._comes_in_pieces(answer, streamed) else await self.read_whole(answer)
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
        """Return an answer's headers for the caller, without any that contain the key."""
        return to_caller(answer.headers, secrets=(self._key,) if self._key else ())

    def without_key(self, body: bytes) -> bytes:
        """Mask the key in a body or a part of one, in case the provider repeated it."""
        return body.replace(self._key, b"[key]") if self._key else body

    async def read_kind(self, answer: ProviderResponse) -> None:
        """Tell by its first bytes whether the answer is a stream of events. Raises as `read_whole`."""
        try:
            await answer.read_kind()
        except ConnectionStalled as error:
            raise UpstreamTimedOut(f"upstream {self.name!r} stopped in its answer") from error

    async def read_whole(self, answer: ProviderResponse) -> bytes:
        """Read the whole answer.

        Raises:
            UpstreamFailed: it is too long.
            UpstreamTimedOut: it stalled.
            ConnectionBroken: it broke off.
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

    async def _comes_in_pieces(self, answer: ProviderResponse, streamed: bool) -> bool:
        """Return whether the answer is sent on as it arrives: events, or lines, sound and the like of unknown length.

        With `streamed`, its first bytes tell whether it is events.
        """
        if streamed and answer.status < 300 and not is_stream(answer):
            await self.read_kind(answer)
        if is_stream(answer):
            return True
        whole = _content_type(answer) in _WHOLE_KINDS or is_json(answer) or answer.header(b"content-length") is not None
        return answer.status < 300 and not whole

    def _retry_pause(self, answer: ProviderResponse, backoff: float | None) -> float | None:
        """Return the pause in seconds before a repeat; None if the answer is final."""
        if answer.status < 500 and answer.status != 429:
            return None
        if (answer.header(b"x-should-retry") or "").lower() == "false":
            return None
        retry_after = answer.header(b"retry-after")
        exact = parse_seconds(answer.header(b"retry-after-ms"))  # sent by OpenAI and Azure beside the other
        wait = parse_seconds(retry_after) if exact is None else exact / 1000
        if wait is None and (retry_after or answer.status == 429):  # a date, which the caller must read
            return None
        chosen = wait if wait is not None else backoff
        return chosen if chosen is not None and chosen <= self.settings.retry_max_seconds else None


def maskable_secret(what: str, secret: str) -> bytes:
    """Return what to mask of a secret in answers: nothing if it is short, which the log then says."""
    if 0 < len(secret) < SHORTEST_MASKED:
        _logger.warning("%s has fewer than %d characters: it is not masked in answers", what, SHORTEST_MASKED)
        return b""
    return secret.encode()


def provider_headers(name: str, settings: UpstreamSettings, key: str | None) -> list[tuple[bytes, bytes]]:
    """Return the headers sent with every call. Raises ConfigError if the key cannot be sent in a header."""
    headers = [(b"Accept-Encoding", b"identity")]
    if key:
        if not key.isascii() or not key.isprintable():
            raise ConfigError(
                f"the key of upstream {name!r} contains characters that no key has, perhaps a line break at its end"
            )
        header, value = build_key_header(key, api=settings.api, header=settings.key_header)
        headers.append((header.encode(), value.encode()))
    return headers


def sendable_body(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return a body that aiohttp sends without blocking the event loop: it writes plain bytes in one go."""
    return io.BytesIO(body) if body and len(body) > 2**20 else body or None


def is_stream(answer: ProviderResponse) -> bool:
    return answer.is_events or (answer.header(b"content-type") or "").lower().startswith("text/event-stream")


def is_json(answer: ProviderResponse) -> bool:
    kind = _content_type(answer)
    return kind == "application/json" or kind.endswith("+json")


def _content_type(answer: ProviderResponse) -> str:
    return (answer.header(b"content-type") or "").partition(";")[0].strip().lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """One upstream with its dialects and prices."""

    upstream: Upstream
    dialects: Mapping[str, Dialect]
    prices: PriceList
    rules: tuple[Rule, ...]


@fast_record
class ModelCall:
    agent: Agent
    provider: Provider
    dialect: Dialect
    route: Route
    request: ModelRequest
    method: str
    target: str
    """Path and query after the upstream's base URL, unchanged."""
    headers: Sequence[tuple[bytes, bytes]]
    pulse_id: PulseId | None = None
    """The pulse that owns its token."""
    id: CallId | None = None
    """Its id in the ledger, if its caller learns that beforehand."""
