"""The REST application: endpoints, guard, error handling and OpenAPI document."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import ParamTypes
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from circadia.api import (
    agents,
    alarms,
    answers,
    approvals,
    banks,
    blocks,
    calls,
    dreams,
    episodes,
    events,
    explanations,
    fleet,
    for_you,
    hooks,
    messages,
    passes,
    pulses,
    savings,
    schedule,
    search,
    sleeping,
    status,
    timeline,
    wakes,
)
from circadia.api.guard import Guard, handle_errors
from circadia.api.openapi import build_openapi_document
from circadia.api.services import ApiContext
from circadia.errors import InvalidRequest
from circadia.suggestions import did_you_mean

OPENAPI_PATH: Final = "/api/openapi.json"


_ROUTERS: Final = (
    sleeping.router, agents.session_router, agents.router, messages.router, messages.thread_message_router,
    fleet.hold_router, fleet.call_router, approvals.router, wakes.message_router, wakes.router, pulses.chain_router,
    messages.inbox_router, messages.unhandled_router, pulses.router, alarms.router, schedule.router,
    schedule.coordination_router, wakes.stats_router, wakes.djinnbot_router, hooks.router, banks.router,
    episodes.router, episodes.search_router, banks.transfer_router, blocks.router, passes.router, dreams.router,
    status.router, answers.router, events.router, timeline.router, calls.router, search.router,
    fleet.config_router, fleet.usage_router, savings.router,
    fleet.cluster_router, fleet.token_router, fleet.router, fleet.upstream_router,
    for_you.router, for_you.alert_router, explanations.router,
)  # fmt: skip
"""In the order of the OpenAPI document."""


class KnownQuery:
    """An endpoint that refuses query parameters that it does not know: `?dryrun=true` must not change a schedule."""

    def __init__(self, route: APIRoute) -> None:
        self._endpoint: ASGIApp = route.app
        params = get_flat_params(route.dependant)
        self._names = {param.alias for param in params if getattr(param.field_info, "in_", None) is ParamTypes.query}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for name in QueryParams(scope["query_string"]) if scope["query_string"] else ():
            if name not in self._names:
                raise InvalidRequest(f"no query parameter {name!r} here{did_you_mean(name, self._names)}")
        await self._endpoint(scope, receive, send)


class Compression:
    """Compresses whole answers, large ones outside of the event loop; a stream passes as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            await self._app(scope, receive, send)
            return
        start: Message = {}

        async def compress(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start:
                begun, start = start, {}
                headers = MutableHeaders(raw=begun["headers"])
                body = message.get("body", b"")
                if not message.get("more_body") and len(body) >= _LEAST_BYTES and "content-encoding" not in headers:
                    message = {**message, "body": await _compress(body)}
                    headers["content-encoding"], headers["content-length"] = "gzip", str(len(message["body"]))
                    headers.add_vary_header("Accept-Encoding")
                await send(begun)
            await send(message)

        await self._app(scope, receive, compress)


_LEAST_BYTES: Final = 1_000
_LEVEL: Final = 5
_IN_LOOP_BYTES: Final = 32 * 2**10
"""Larger bodies are compressed in a thread: 32 KiB take half a millisecond, and all agents of a fleet 40."""


async def _compress(body: bytes) -> bytes:
    if len(body) <= _IN_LOOP_BYTES:
        return gzip.compress(body, _LEVEL, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0)


class Api(FastAPI):
    """The endpoints of all nouns."""

    def __init__(self) -> None:
        super().__init__(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        self.add_route(OPENAPI_PATH, self._send_document, include_in_schema=False)
        for router in _ROUTERS:
            self.router.routes.extend(router.routes)
        for route in self.routes:
            if not isinstance(route, APIRoute) or not route.include_in_schema:  # aliases take what others send
                continue
            if not isinstance(route.app, KnownQuery):  # the routes are those of each application in this process
                route.app = KnownQuery(route)
        handle_errors(self)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, built on the first call."""
        if not self.openapi_schema:
            self.openapi_schema = build_openapi_document(self.routes)
        return self.openapi_schema

    async def _send_document(self, _: Request) -> Response:
        """Send the OpenAPI document from a thread: the first call takes more than half a second."""
        return await asyncio.to_thread(lambda: JSONResponse(self.openapi()))


def create_api(context: ApiContext) -> FastAPI:
    """Build the application; each request needs a token."""
    api = Api()
    api.state.context = context
    api.state.tail = events.EventTail(context)
    most = context.settings.limits.max_api_body_bytes
    api.add_middleware(Compression)
    api.add_middleware(Guard, identity=context.identity, sign_in=context.sign_in, max_body_bytes=most)
    return api


@asynccontextmanager
async def open_api(context: ApiContext) -> AsyncGenerator[ASGIApp]:
    """Yield the application."""
    yield create_api(context)


def load_api(context: ApiContext) -> Callable[[], AbstractAsyncContextManager[ASGIApp]]:
    """Return what opens the application."""
    return partial(open_api, context)


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document without a running server."""
    return Api().openapi()
