"""The REST application: its endpoints, its guard, its errors, its OpenAPI document."""

from typing import Any, Final

from fastapi import FastAPI

from circadia.api import (
    agents,
    answers,
    banks,
    blocks,
    chains,
    coordination,
    direct_messages,
    episodes,
    events,
    holds,
    inbox,
    memory_search,
    memory_transfer,
    messages,
    passes,
    pulses,
    schedule,
    sessions,
    sleeping,
    sleeptime,
    threads,
    usage,
    wake_stats,
    wakes,
)
from circadia.api.event_tail import EventTail
from circadia.api.guard import Guard
from circadia.api.parts import ApiParts, HoldRegistry
from circadia.api.problems import handle_errors
from circadia.api.schema import build_openapi_document

__all__ = ["ApiParts", "HoldRegistry", "create_api", "openapi_document"]

OPENAPI_PATH: Final = "/api/openapi.json"


_NOUNS: Final = (
    sleeping, sessions, agents, threads, messages, holds, direct_messages, wakes, chains, inbox, pulses, schedule,
    coordination, wake_stats, banks, episodes, memory_search, memory_transfer, blocks, passes,
    sleeptime, answers, events, usage,
)  # fmt: skip


class Api(FastAPI):
    """The endpoints of all nouns, at their whole paths."""

    def __init__(self) -> None:
        super().__init__(openapi_url=OPENAPI_PATH, docs_url=None, redoc_url=None, redirect_slashes=False)
        for noun in _NOUNS:
            self.router.routes.extend(noun.router.routes)
        handle_errors(self)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, made at the first call."""
        if not self.openapi_schema:
            self.openapi_schema = build_openapi_document(self.routes)
        return self.openapi_schema


def create_api(parts: ApiParts) -> FastAPI:
    """Return the application; each request needs a token."""
    api = Api()
    api.state.parts = parts
    api.state.tail = EventTail(parts)
    api.add_middleware(Guard, identity=parts.identity, max_body_bytes=parts.settings.limits.max_api_body_bytes)
    return api


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document without a running server."""
    return Api().openapi()
