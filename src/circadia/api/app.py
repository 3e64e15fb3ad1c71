"""The REST application: endpoints, guard, error handling and OpenAPI document."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import ParamTypes
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from circadia.api import (
    agents,
    answers,
    banks,
    blocks,
    dreams,
    episodes,
    events,
    explanations,
    fleet,
    for_you,
    messages,
    passes,
    pulses,
    schedule,
    sleeping,
    status,
    wakes,
)
from circadia.api.context import ApiContext, HoldRegistry
from circadia.api.guard import Guard, handle_errors
from circadia.api.openapi import build_openapi_document
from circadia.errors import InvalidRequest
from circadia.suggestions import did_you_mean

__all__ = ["ApiContext", "HoldRegistry", "create_api", "openapi_document"]

OPENAPI_PATH: Final = "/api/openapi.json"


_ROUTERS: Final = (
    sleeping.router, agents.session_router, agents.router, messages.router, messages.thread_message_router,
    fleet.hold_router, wakes.message_router, wakes.router, pulses.chain_router, messages.inbox_router,
    messages.unhandled_router, pulses.router, schedule.router, schedule.coordination_router, wakes.stats_router,
    wakes.djinnbot_router, banks.router, episodes.router, episodes.search_router, banks.transfer_router, blocks.router,
    passes.router, dreams.router, status.router, answers.router, events.router, fleet.usage_router,
    fleet.cluster_router, fleet.token_router, fleet.router, fleet.upstream_router, for_you.router, for_you.alert_router,
    explanations.router,
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


class Api(FastAPI):
    """The endpoints of all nouns."""

    def __init__(self) -> None:
        super().__init__(openapi_url=OPENAPI_PATH, docs_url=None, redoc_url=None, redirect_slashes=False)
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


def create_api(context: ApiContext) -> FastAPI:
    """Build the application; each request needs a token."""
    api = Api()
    api.state.context = context
    api.state.tail = events.EventTail(context)
    most = context.settings.limits.max_api_body_bytes
    api.add_middleware(GZipMiddleware, minimum_size=1_000, compresslevel=5)  # leaves streams of events as they are
    api.add_middleware(Guard, identity=context.identity, sign_in=context.sign_in, max_body_bytes=most)
    return api


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document without a running server."""
    return Api().openapi()
