"""The door of inbound webhooks, `POST /hooks/NAME`: it takes signatures in place of tokens (WAKE-82).

A delivery that is forged, late or filtered costs no trip to the database. One that is accepted gets its 2xx once its
message and its wake request are committed.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import orjson
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from circadia.api.body_reader import BodyReader
from circadia.api.problems import internal_error_response, problem_response
from circadia.errors import (
    CircadiaError,
    Conflict,
    InvalidRequest,
    LimitReached,
    MethodNotAllowed,
    NotFound,
    OperatorError,
)
from circadia.gateway.hold.bodies import CallerGone
from circadia.records.hook import Hook, HookOutcome
from circadia.stores.base import Store
from circadia.wake.hooks.deliveries import DeliveryResult, HookReceiver, VerifiedDelivery
from circadia.wake.hooks.service import HookService
from circadia.wake.webhook_signatures import Headers

_logger = logging.getLogger(__name__)

MAX_AT_ONCE: Final = 256
"""Bodies that are read at once: whoever sends them has shown no secret yet."""
TRIES: Final = 3
"""Tries to store a delivery while other changes of its agent come between."""
UNKNOWN: Final = "unknown"
_STATUS: Final = {HookOutcome.ACCEPTED: 202}


class HookDoor:
    def __init__(
        self, store: Store, hooks: HookService, receiver: HookReceiver, count: Callable[[str, str], None], *,
        max_body_bytes: int,
    ) -> None:  # fmt: skip
        """`count` takes the hook's name and the outcome of each request."""
        self._store = store
        self._hooks = hooks
        self._receiver = receiver
        self._count = count
        self._reader = BodyReader(max_body_bytes, "limits.max_hook_body_bytes")
        self._reading = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        name = UNKNOWN
        try:
            hook = await self._find_hook(scope)
            name = hook.name
            result = await self._take(hook, scope, receive)
            response = _build_response(result)
            self._count(name, result.outcome.value)
        except CallerGone:
            return
        except OperatorError as error:
            _logger.warning("a delivery to the hook %r fails: %s", name, error.message)
            self._count(name, HookOutcome.FAILED.value)
            response = internal_error_response(path)
        except CircadiaError as error:
            _logger.debug("a delivery to the hook %r is refused: %s", name, error.message)
            self._count(name, HookOutcome.REFUSED.value)
            response = problem_response(error, path)
        except Exception:  # the sender gets an answer whatever happens, and tries again
            _logger.exception("a delivery to the hook %r failed", name)
            self._count(name, HookOutcome.FAILED.value)
            response = internal_error_response(path)
        await response(scope, receive, send)

    async def _find_hook(self, scope: Scope) -> Hook:
        if scope["method"] != "POST":
            raise MethodNotAllowed(f"{scope['method']} is not for {scope['path']!r}; use POST", allow=["POST"])
        if not self._hooks.is_loaded:
            async with self._store.begin_read() as tx:
                await self._hooks.load(tx)
        hook = self._hooks.get(scope["path"].removeprefix("/hooks/"))
        if hook is None or not hook.spec.enabled:
            raise NotFound("no hook has this name")
        return hook

    async def _take(self, hook: Hook, scope: Scope, receive: Receive) -> DeliveryResult:
        headers = _read_headers(scope)
        if self._reading >= MAX_AT_ONCE:
            raise LimitReached(f"{MAX_AT_ONCE} deliveries arrive at once; send it again", retry_after_seconds=1)
        self._reading += 1
        try:
            body = await self._reader.read(scope, receive)
        finally:
            self._reading -= 1
        delivery = self._receiver.verify(hook, headers, body)
        return self._receiver.judge(delivery) or await self._store_delivery(delivery)

    async def _store_delivery(self, delivery: VerifiedDelivery) -> DeliveryResult:
        for _ in range(TRIES - 1):
            with suppress(Conflict):
                return await self._store_once(delivery)
        return await self._store_once(delivery)

    async def _store_once(self, delivery: VerifiedDelivery) -> DeliveryResult:
        if delivery.hook.spec.event is not None:
            async with self._store.begin_write() as tx:
                await self._receiver.emit_event(tx, delivery)
        async with self._store.begin_write() as tx:
            return await self._receiver.store(tx, delivery)


def _read_headers(scope: Scope) -> Headers:
    """Return the headers. Raises InvalidRequest: one of them occurs twice."""
    headers: dict[str, str] = {}
    for raw_name, value in scope["headers"]:
        name = raw_name.decode("latin-1")
        if name in headers:
            raise InvalidRequest(f"the header {name!r} occurs more than once; send it once")
        headers[name] = value.decode("latin-1")
    return headers


def _build_response(result: DeliveryResult) -> Response:
    if result.outcome is HookOutcome.ANSWERED:
        return PlainTextResponse(result.answer)
    body = orjson.dumps({"outcome": result.outcome.value})
    return Response(body, _STATUS.get(result.outcome, 200), media_type="application/json")
