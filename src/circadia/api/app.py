"""The REST application: endpoints, guard, error handling and OpenAPI document."""

from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from circadia.api import djinnbot
from circadia.api.agents import agents, coordination, schedule, sessions, sleeping
from circadia.api.guard import Guard
from circadia.api.memory import banks, blocks, episodes, search, transfer
from circadia.api.messaging import inbox, messages, threads
from circadia.api.observability import cluster, events, holds, tokens, usage
from circadia.api.observability.event_tail import EventTail
from circadia.api.parts import ApiParts, HoldRegistry
from circadia.api.problems import MEDIA_TYPE, Problem, handle_errors
from circadia.api.sleeptime import answers, passes, status
from circadia.api.waking import chains, direct_messages, pulses, wake_stats, wakes
from circadia.settings.sleeptime import SleepPolicySettings

_ABOUT: Final = """The control plane of Circadia. Each request needs a token, as `Authorization: Bearer TOKEN` or
`x-api-key`: the operator's token allows everything, an agent's what the agent may do. Address a session by
name or id, and a thread by id or, if only one open thread has it, by name. Times are ISO 8601 in UTC."""

_REFERENCE: Final = "#/components/schemas/{model}"


def build_openapi_document(routes: list[BaseRoute]) -> dict[str, Any]:
    document: dict[str, Any] = get_openapi(
        title="Circadia", version=version("circadia"), description=_ABOUT.replace("\n", " "), routes=routes
    )
    schemas: dict[str, Any] = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for model in (Problem, SleepPolicySettings):
        schema = model.model_json_schema(ref_template=_REFERENCE, mode="serialization")
        schemas.update({**schema.pop("$defs", {}), model.__name__: schema})
    schemas["SleeptimeStatusView"]["properties"]["policy"] = {
        "$ref": _REFERENCE.format(model="SleepPolicySettings"), "description": "Effective policy of the bank."
    }  # fmt: skip
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    document["security"] = [{"bearer": []}, {"key": []}]
    for item in document["paths"].values():
        for operation in item.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {
                "description": "Any error.",
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }
    return document


__all__ = ["ApiParts", "HoldRegistry", "create_api", "openapi_document"]

OPENAPI_PATH: Final = "/api/openapi.json"


_NOUNS: Final = (
    sleeping, sessions, agents, threads, messages, holds, direct_messages, wakes, chains, inbox, pulses, schedule,
    coordination, wake_stats, djinnbot, banks, episodes, search, transfer, blocks, passes,
    status, answers, events, usage, cluster, tokens,
)  # fmt: skip


class Api(FastAPI):
    """The endpoints of all nouns."""

    def __init__(self) -> None:
        super().__init__(openapi_url=OPENAPI_PATH, docs_url=None, redoc_url=None, redirect_slashes=False)
        for noun in _NOUNS:
            self.router.routes.extend(noun.router.routes)
        handle_errors(self)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, built on the first call."""
        if not self.openapi_schema:
            self.openapi_schema = build_openapi_document(self.routes)
        return self.openapi_schema


def create_api(parts: ApiParts) -> FastAPI:
    """Build the application; each request needs a token."""
    api = Api()
    api.state.parts = parts
    api.state.tail = EventTail(parts)
    most = parts.settings.limits.max_api_body_bytes
    api.add_middleware(Guard, identity=parts.identity, sign_in=parts.sign_in, max_body_bytes=most)
    return api


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document without a running server."""
    return Api().openapi()
