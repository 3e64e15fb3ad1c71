"""The outermost ASGI application: checks host and origin, routes a path to its door, tells readiness (GATE-35)."""

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sized
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from circadia.agents.database_contact import DatabaseContact
from circadia.agents.identity import CALLER, Identity
from circadia.api.problems import problem_response
from circadia.clock import Clock
from circadia.errors import (
    CircadiaError,
    Forbidden,
    InvalidRequest,
    LimitReached,
    Misdirected,
    NotFound,
    StorageUnavailable,
)
from circadia.gateway.calls.headers import CREDENTIALS, bearer, first_value
from circadia.gateway.hold.places import FILES_RESERVE, holds_within
from circadia.gateway.hold.reply import ReplyBroken
from circadia.telemetry.metrics import CONTENT_TYPE, Metrics

ANSWER_SECONDS: Final = 5.0
"""A database that needs longer counts as away."""
GRACE_ANSWER_SECONDS: Final = 1.0
"""The same during the grace, which covers a slow answer too: a balancer must hear soon that the process lives."""


class Readiness:
    """What `/readyz` says. A gateway without its database is ready while it lets calls of awake agents pass."""

    def __init__(self, clock: Clock, ping: Callable[[], Awaitable[None]], contact: DatabaseContact | None) -> None:
        """`contact` is None for a process that can do nothing without its database."""
        self._clock = clock
        self._ping = ping
        self._contact = contact
        self._failing_since: float | None = None

    async def check(self) -> str:
        """Return why the process is ready. Raises StorageUnavailable if it is not."""
        seconds = ANSWER_SECONDS if self._contact is None else GRACE_ANSWER_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._ping()
        except TimeoutError:
            return self._use_grace(
                StorageUnavailable(f"the database does not answer within {seconds:g} s; check whether it runs")
            )
        except StorageUnavailable as error:
            return self._use_grace(error)
        self._failing_since = None
        return "ready"

    def _use_grace(self, error: StorageUnavailable) -> str:
        message = without_address(error)
        now = self._clock.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        # A full disk refuses writes for good, and is read all the same.
        if self._contact is None or not self._contact.allows_cache(failing_seconds=now - self._failing_since):
            raise StorageUnavailable(message)
        return f"ready: awake agents pass for a while; {message}"


def without_address(error: StorageUnavailable) -> str:
    """Return the message for callers without a token: the driver's words in brackets may name addresses."""
    return re.sub(r" \(.*\)", "", error.message, flags=re.DOTALL)


_STRAY = ("/completions", "/embeddings", "/messages", "/models", "/responses")
"""Path ends that a provider's SDK requests when its base URL misses the model door."""
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_CORS_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_CALLS = ("/llm/", "/mcp", "/hooks/")
_OPERATOR_CONNECTIONS = 16
_PROBE_CONNECTIONS = 8
_RETRY_SECONDS = 5.0
_ONCE = CREDENTIALS | {
    b"host", b"origin", b"idempotency-key", b"if-match", b"mcp-session-id",
    b"x-circadia-conversation", b"x-circadia-user", b"x-circadia-trust", b"x-circadia-where", b"x-circadia-memory",
}  # fmt: skip
"""Headers that decide a request: a proxy in front may read a duplicate otherwise than this server."""


class HostGuard:
    """Refuses names that the owner of a foreign page may have led here (DNS rebinding); an address cannot be led."""

    def __init__(self, hosts: Collection[str], origins: Collection[str]) -> None:
        self._any = "*" in hosts
        self._hosts = {"localhost"} | {host.lower() for host in hosts}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)

    def check(self, headers: list[tuple[bytes, bytes]]) -> str | None:
        """Return the Origin of an allowed page of another site. Raises Misdirected (Host) or Forbidden (Origin)."""
        host = first_value(headers, b"host")
        name = _split_host(f"//{host}")[1] if host and "@" not in host else ""
        if not (self._any or name in self._hosts or _is_address(name)):
            if host is None:
                raise Misdirected("the request names no host; send the header Host, such as `localhost`")
            raise Misdirected(f"{host!r} is not a host of this server; the operator can add it to server.allowed_hosts")
        origin = first_value(headers, b"origin")
        if origin is None:
            return None
        page_origin = origin.rstrip("/").lower()
        if page_origin in self._origins:
            return origin
        if host and _split_host(page_origin)[0] == host.lower():
            return None
        raise Forbidden(f"pages of {origin!r} may not send requests; the operator can add it to server.allowed_origins")


@lru_cache(maxsize=256)  # nearly all requests name the same host
def _split_host(address: str) -> tuple[str, str]:
    try:
        parts = urlsplit(address)
        return parts.netloc, parts.hostname or ""
    except ValueError:
        return "", ""


@lru_cache(maxsize=256)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class ConnectionLimit:
    """How many connections of callers fit under the limit of open files, so that held calls can be sent (LARGE-07).

    Model and MCP calls leave the reserve to the operator, and the operator's leave the rest of it to probes.
    """

    def __init__(self, files: int, max_holds: int) -> None:
        self._for_calls = files - FILES_RESERVE - min(max_holds, holds_within(files))
        self.max_connections = self._for_calls + _OPERATOR_CONNECTIONS + _PROBE_CONNECTIONS
        self.connections: Sized = ()

    def check(self, path: str) -> None:
        """Raise LimitReached if the newest connections are too many for a request of this path."""
        excess = len(self.connections) - self._for_calls
        if excess > 0 and path not in _PROBES and (excess > _OPERATOR_CONNECTIONS or path.startswith(_CALLS)):
            raise LimitReached(
                f"{len(self.connections)} connections are open, as many as the open files of this server allow",
                retry_after_seconds=_RETRY_SECONDS,
            )


class DoorRouter:
    def __init__(
        self,
        hosts: HostGuard,
        limit: ConnectionLimit,
        doors: Mapping[str, ASGIApp],
        api: ASGIApp,
        identity: Identity,
        metrics: Metrics,
        readiness: Readiness,
    ) -> None:
        self._hosts = hosts
        self.limit = limit
        self._doors = doors
        self._api = api
        self._identity = identity
        self._metrics = metrics
        self._readiness = readiness
        self.is_draining = False
        """Whether `/readyz` fails, so that no balancer sends new calls."""
        self.deaths: list[str] = []
        """Names of background tasks that have ended; without them the server is not ready."""
        self.refusal: CircadiaError | None = None
        """The answer to every new call, once none is taken."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003, "reason": "no WebSocket here; use HTTP"})
            return
        CALLER.set(scope["client"][0] if scope.get("client") else "")
        deciding = [name for name, _ in scope["headers"] if name in _ONCE]
        if len(deciding) != len(set(deciding)):
            twice = next(name for name in deciding if deciding.count(name) > 1).decode()
            problem = InvalidRequest(f"the header {twice!r} occurs more than once; send it once")
            # Not 422: the head of the request is bad (RFC 9112, 3.2).
            await build_problem(problem, scope["path"], status=400)(scope, receive, send)
            return
        try:
            origin = self._hosts.check(scope["headers"])
            if origin is not None:
                send = _add_cors(send, origin, first_value(scope["headers"], b"access-control-request-headers"))
                if scope["method"] == "OPTIONS":
                    await send_answer(send, 204, b"", b"text/plain")
                    return
            if self.refusal is not None and scope["path"] not in _PROBES:
                await build_refusal(self.refusal, scope["path"])(scope, receive, send)
                return
            self.limit.check(scope["path"])
            door = self._doors.get(scope["path"][1:].split("/", 1)[0])
            await (self._dispatch if door is None else door)(scope, receive, send)
        except ReplyBroken:
            return  # the server breaks off a connection with an unfinished answer, which is all that is left to do
        except CircadiaError as error:
            await build_problem(error, scope["path"])(scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == "/healthz":
            await send_answer(send, 200, b"ok\n", b"text/plain")
        elif path == "/readyz":
            await self._answer_readiness(send)
        elif path == "/metrics":
            principal = await self._identity.authenticate(bearer(scope["headers"]))
            if principal.agent is not None:
                raise Forbidden("/metrics takes the operator's token, or the one of server.metrics_token_env")
            await send_answer(send, 200, self._metrics.render(), CONTENT_TYPE.encode())
        elif path.startswith("/.well-known/"):
            # An MCP client looks here for a sign-in by OAuth; a 401 would have it try one.
            raise NotFound(f"no path {path!r}; callers have a token of Circadia")
        elif path.endswith(_STRAY) and not path.startswith("/api/"):
            await self._identity.authenticate(bearer(scope["headers"]))
            raise NotFound(
                f"no path {path!r}; model calls go to an upstream, with a base URL that ends in /llm/NAME/v1"
                " (in /llm/NAME for Anthropic's SDKs)"
            )
        else:
            await self._api(scope, receive, send)

    async def _answer_readiness(self, send: Send) -> None:
        if self.is_draining:
            await send_answer(send, 503, b"draining: the server is stopping\n", b"text/plain")
            return
        if self.deaths:
            names = ", ".join(map(repr, self.deaths))
            message = f"background tasks have ended: {names}; see the log, and restart the server\n"
            await send_answer(send, 503, message.encode(), b"text/plain")
            return
        try:
            status, text = 200, await self._readiness.check()
        except StorageUnavailable as error:
            status, text = 503, error.message
        await send_answer(send, status, f"{text}\n".encode(), b"text/plain; charset=utf-8")


async def refuse_calls(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a call to a worker, which has no doors."""
    raise NotFound("this process is a worker and serves /healthz, /readyz and /metrics only; call a gateway")


def _add_cors(send: Send, origin: str, requested_headers: str | None) -> Send:
    """Return a `send` that lets the page read the answer and use the headers that it requests; SDKs have their own."""
    added = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", _CORS_METHODS),
        (b"access-control-expose-headers", b"etag, mcp-session-id, retry-after"),
        (b"vary", b"origin"),
    ]
    if requested_headers is not None:
        added.append((b"access-control-allow-headers", requested_headers.encode("latin-1")))

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return send_with_cors


def build_refusal(error: CircadiaError, path: str) -> Response:
    """Return an error that makes SDKs try again, over another connection: a balancer leads it to another server."""
    response = build_problem(error, path)
    response.headers.update({"x-circadia-error": error.code, "x-should-retry": "true", "connection": "close"})
    return response


def build_problem(error: CircadiaError, path: str, *, status: int | None = None) -> Response:
    """Return a problem response that OpenAI's SDKs can show too: they read `error` only."""
    openai_error = {"message": error.message, "type": "invalid_request_error", "param": None, "code": error.code}
    return problem_response(error, path, status=status, more={"error": openai_error})


async def send_answer(send: Send, status: int, body: bytes, kind: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))] if status != 204 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
