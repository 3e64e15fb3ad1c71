"""The OpenAPI document: what FastAPI gathers, with the errors and the tokens as they really are."""

from importlib.metadata import version
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from circadia.api.problems import MEDIA_TYPE, Problem

_ABOUT: Final = """The control plane of Circadia. Each request needs a token, as `Authorization: Bearer TOKEN` or
`x-api-key`: the operator's opens all, an agent's opens that agent's doors. Sessions are named by their name or id,
threads by their id or, if only one open thread has it, their name. Times are ISO 8601 in UTC."""


def build_openapi_document(routes: list[BaseRoute]) -> dict[str, Any]:
    """Return the document of these routes."""
    made: dict[str, Any] = get_openapi(
        title="Circadia", version=version("circadia"), description=_ABOUT.replace("\n", " "), routes=routes
    )
    schemas: dict[str, Any] = made.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    made["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    made["security"] = [{"bearer": []}, {"key": []}]
    for item in made["paths"].values():
        for operation in item.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {
                "description": "Any error.",
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }
    return made
