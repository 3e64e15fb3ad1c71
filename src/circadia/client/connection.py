"""The connection of the client: paths, tokens, errors by code, and server-sent events.

Annotations name the HTTP library in quotes, so that programs can import it lazily.
"""

import asyncio
import io
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date
from functools import partial
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

import aiohttp
import yarl
from pydantic import ValidationError

from circadia.clock import Clock
from circadia.errors import (
    HTTP_STATUS,
    CircadiaError,
    InvalidRequest,
    RetryLater,
    StorageUnavailable,
    TargetGone,
    Unreachable,
)
from circadia.schemas.events import EventGap
from circadia.schemas.view import SettingsView, View

T = TypeVar("T")
V = TypeVar("V", bound=View)
Time = str | date
"""A time in ISO 8601, or a `datetime` or `date`."""
Query = Mapping[str, Time | float | Sequence[str] | None]

SILENCE_SECONDS: Final = 60.0
"""A stream without any data for this long, not even a keep-alive, is lost."""
FIRST_PAUSE_SECONDS: Final = 0.2
"""Pause before the first reconnect; it doubles with each failure."""
LONGEST_PAUSE_SECONDS: Final = 5.0
MAX_RETRIES: Final = 3
LONGEST_RETRY_AFTER_SECONDS: Final = 60.0
_RETRIED: Final = (429, 502, 503, 504)
FIRST_READ_PAUSE_SECONDS: Final = 0.05
LONGEST_READ_PAUSE_SECONDS: Final = 1.0

_BY_CODE: Final = {cls.code: cls for cls in HTTP_STATUS}
_BY_STATUS: Final[Mapping[int, type[CircadiaError]]] = {
    **{status: cls for cls, status in reversed(HTTP_STATUS.items()) if status < 500},
    503: StorageUnavailable,
}
"""Errors of answers without a code, which come from a proxy in front of the server."""


class ApiConnection:
    """A connection pool for one server and one token."""

    def __init__(self, base_url: str, token: str, *, timeout: float, max_retries: int, clock: Clock) -> None:
        self._base = base_url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._max_retries = max_retries
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(
        self,
        model: type[V],
        method: str,
        *path: str,
        body: object = None,
        lines: bytes | None = None,
        query: Query | None = None,
        if_match: str | None = None,
    ) -> V:
        """Send a request, with JSON or JSON Lines, and return the answer.

        A GET, or a body with an idempotency `key`, is sent again after a temporary failure.

        Raises:
            CircadiaError: the server's error, by code. Unreachable: no server answered, or not with a `model`.
        """
        total = aiohttp.ClientTimeout(total=self._timeout)
        content = _encode_body(body) if lines is None else lines
        headers = None if if_match is None else {"If-Match": if_match}
        retries = self._max_retries if method == "GET" or _has_key(body) else 0
        async with self._send(
            method, path, total, content=content, query=query, headers=headers, retries=retries
        ) as response:
            answer = self._parse(model, await response.text("utf-8", "replace"))
            if isinstance(answer, SettingsView):
                answer.etag = response.headers.get("ETag", "")
            return answer

    async def fetch_all(
        self, model: type[V], key: str, *path: str, query: Query | None = None, max_rows: int | None = None
    ) -> list[Any]:
        """Return the rows under `key` of all pages of a list, or as many as `max_rows` from its first pages.

        Raises:
            CircadiaError: the server's error, by code. Unreachable: no server answered, or not with a `model`.
        """
        rows: list[Any] = []
        cursor: object = None
        while True:
            after = {} if cursor is None else {"after": str(cursor)}
            page: Any = await self.fetch(model, "GET", *path, query={**(query or {}), **after})
            rows += getattr(page, key)
            cursor = page.next
            if cursor is None or (max_rows is not None and len(rows) >= max_rows):
                return rows[:max_rows]

    async def call(self, method: str, *path: str, query: Query | None = None) -> None:
        """Send a request whose answer has no body.

        Raises:
            CircadiaError: the server's error, by code. Unreachable: no server answered.
        """
        async with self._send(method, path, aiohttp.ClientTimeout(total=self._timeout), query=query):
            pass

    async def chunks(self, *path: str, query: Query | None = None) -> AsyncGenerator[bytes]:
        """Yield the answer as it arrives.

        Raises:
            CircadiaError: the server's error, by code. Unreachable: no server answered, or the answer broke off.
        """
        quiet = aiohttp.ClientTimeout(total=None, connect=self._timeout, sock_read=SILENCE_SECONDS)
        async with self._send("GET", path, quiet, query=query) as response:
            async for chunk in response.content.iter_any():
                yield chunk

    async def follow(
        self, model: type[V], *path: str, after: int | None, query: Query, on_gap: Callable[[EventGap], object] | None
    ) -> AsyncGenerator[V]:
        """Yield the data of server-sent events; reconnect after a drop and resume after the last event.

        Raises:
            CircadiaError: the server's error, by code, unless it is temporary. Unreachable: no server answered the
                first time. TargetGone: events were deleted before they were read, and there is no `on_gap`.
        """
        quiet = aiohttp.ClientTimeout(total=None, connect=self._timeout, sock_read=SILENCE_SECONDS)
        last = after
        reached = False
        gap: EventGap | None = None
        pause = FIRST_PAUSE_SECONDS
        while True:
            headers = {} if last is None else {"Last-Event-ID": str(last)}
            try:
                async with self._send("GET", path, quiet, query=query, headers=headers) as response:
                    reached = True
                    async for number, data, is_gap in _parse_server_sent_events(response.content):
                        last, pause = last if number is None else number, FIRST_PAUSE_SECONDS
                        if is_gap:
                            gap = self._parse(EventGap, data or "")
                        elif data is not None:
                            yield self._parse(model, data)
                        if gap is not None:
                            _report_gap(gap, on_gap)
                            gap = None
            except (Unreachable, RetryLater):
                if not reached or gap is not None:
                    raise
            await self._clock.sleep(pause)
            pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)

    def _parse(self, model: type[V], text: str) -> V:
        try:
            return model.model_validate_json(text, extra="ignore")
        except ValidationError as error:
            mistake = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, (model.__name__, *mistake["loc"])))
            raise Unreachable(
                f"{self._base} answers, but not as Circadia does ({place}: {mistake['msg']}); check the address, and "
                "that client and server have the same version"
            ) from None

    async def pause(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def read_until(
        self, read: Callable[[], Awaitable[T]], is_awaited: Callable[[T], bool], timeout_seconds: float | None
    ) -> T:
        """Read again, at most once a second, until the answer is the one awaited; return it.

        Raises:
            TimeoutError: the time is over. CircadiaError: what `read` raises.
        """
        pause = FIRST_READ_PAUSE_SECONDS
        async with asyncio.timeout(timeout_seconds):
            while not is_awaited(answer := await read()):
                await self._clock.sleep(pause)
                pause = min(LONGEST_READ_PAUSE_SECONDS, 2 * pause)
        return answer

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: Sequence[str],
        timeout: "aiohttp.ClientTimeout",
        *,
        content: bytes | None = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        retries: int = 0,
    ) -> "AsyncGenerator[aiohttp.ClientResponse]":
        """Yield the response, if need be that of one of the `retries`; afterwards, close it."""
        if self._session is None:
            raise RuntimeError("the client is not open; use `async with Client(…) as client`")
        url = _build_url(self._base, path, query or {})
        send = partial(self._session.request, method, url, timeout=timeout, headers=headers)
        try:
            response = await self._send_until_answered(send, content, retries)
            async with response:
                yield response
        except TimeoutError as error:
            raise Unreachable(f"{self._base} gave no answer within {self._timeout:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(
                f"{self._base} cannot be reached: {_unreachable_reason(error)}; is `circadia serve` running?"
            ) from error

    async def _send_until_answered(
        self, send: "Callable[..., Awaitable[aiohttp.ClientResponse]]", content: bytes | None, retries: int
    ) -> "aiohttp.ClientResponse":
        """Return a response below status 400, after up to `retries` retries. Raises the error of the last response."""
        pause = FIRST_PAUSE_SECONDS
        for left in range(retries, -1, -1):
            try:
                response = await send(data=None if content is None else io.BytesIO(content))
            except (TimeoutError, aiohttp.ClientError, OSError):
                if not left:
                    raise
                seconds = pause
            else:
                if response.status < 400:
                    return response
                async with response:
                    error = _error(response, await response.text("utf-8", "replace"))
                seconds = pause if error.retry_after_seconds is None else error.retry_after_seconds
                if not left or response.status not in _RETRIED or seconds > LONGEST_RETRY_AFTER_SECONDS:
                    raise error
            await self._clock.sleep(seconds)
            pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)
        raise AssertionError("the last try returns or raises")


def _unreachable_reason(error: Exception) -> str:
    """Return the reason, preferably in the system's words; those of the library are about sockets."""
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return str(error) or type(error).__name__


def _build_url(base: str, path: Sequence[str], query: Query) -> yarl.URL:
    """Return the URL. Raises InvalidRequest for a name or value that no URL can hold."""
    for part in path:
        if part in ("", ".", ".."):
            raise InvalidRequest(f"{part!r} is no name or id; give one")
    values = {name: _encode_query(value) for name, value in query.items() if value is not None}
    try:
        for value in values.values():
            "".join(value).encode()  # yarl would leave out what it cannot encode
        url = yarl.URL("/".join((base, "api/v1", *(quote(part, safe="") for part in path))), encoded=True)
        return url.update_query(values)
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{error.object[:80]!r} is not valid Unicode; write it in UTF-8") from error


def _encode_query(value: Time | float | Sequence[str]) -> str | list[str]:
    if isinstance(value, str):
        return value
    if isinstance(value, date):
        return value.isoformat()
    return str(value).lower() if isinstance(value, int | float) else list(value)


def _has_key(body: object) -> bool:
    """Return whether the server runs a body once only, however often it is sent."""
    return isinstance(body, Mapping) and cast("Mapping[str, Any]", body).get("key") is not None


def _encode_body(body: object) -> bytes | None:
    return None if body is None else json.dumps(body, default=_unwrap).encode()


def _unwrap(value: Any) -> object:
    """Return a time as its text, and any other mapping or sequence as one that JSON knows."""
    if isinstance(value, date):
        return value.isoformat()
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else list(value)


def _error(response: "aiohttp.ClientResponse", text: str) -> CircadiaError:
    try:
        problem: Any = json.loads(text)
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        code, detail = "", text.strip()[:500] or f"HTTP status {response.status}"
    kind = _BY_CODE.get(code) or _BY_STATUS.get(response.status, CircadiaError)
    after = response.headers.get("Retry-After", "")
    return kind(detail, retry_after_seconds=float(after) if after.isascii() and after.isdigit() else None)


def _report_gap(gap: EventGap, on_gap: Callable[[EventGap], object] | None) -> None:
    if on_gap is None:
        raise TargetGone(
            f"events after {gap.after} and before {gap.oldest} have been deleted; pass `on_gap` to go on without them"
        )
    on_gap(gap)


async def _parse_server_sent_events(
    lines: "aiohttp.StreamReader",
) -> AsyncIterator[tuple[int | None, str | None, bool]]:
    """Yield the number of each event, its data, and whether it is a gap; None for what an event lacks."""
    number: int | None = None
    data: list[str] = []
    is_gap = False
    async for raw in lines:
        line = raw.decode("utf-8").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            number = int(value)
        elif name == "data":
            data.append(value)
        elif name == "event":
            is_gap = value == "gap"
        elif not line:
            if number is not None or data:
                yield number, "\n".join(data) if data else None, is_gap
            number, data, is_gap = None, [], False
