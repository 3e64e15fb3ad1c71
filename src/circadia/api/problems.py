"""Errors as `application/problem+json` (RFC 9457), mapped from the exception tree."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from circadia.errors import HTTP_STATUS, CircadiaError, InvalidRequest, MethodNotAllowed, NotFound

MEDIA_TYPE: Final = "application/problem+json"
INTERNAL: Final = "internal_error"
"""Code of unexpected errors."""
_SHOWN_INPUT: Final = 80
_MAX_REPORTED_ERRORS: Final = 3
_LISTED: Final = 100
"""Maximum number of problems in one answer."""


class FieldProblem(BaseModel):
    """A wrong value."""

    path: str = Field(description="Path of the value, such as `body.agents.0.wake_events.1` or `query.after`.")
    message: str = Field(description="Problem with the value.")


class Problem(BaseModel):
    """The body of every error (RFC 9457)."""

    type: str = Field(description="URN of the kind of error.", examples=["urn:circadia:error:not_found"])
    title: str = Field(description="Kind of error, for people.", examples=["Not found"])
    status: int = Field(description="HTTP status.", examples=[404])
    detail: str = Field(
        description="What happened, and what to do.", examples=["no agent 'ann' in session 'default'; did you mean …"]
    )
    instance: str = Field(description="Requested path.", examples=["/api/v1/sessions/default/agents/ann"])
    code: str = Field(description="Kind of error, for programs.", examples=["not_found"])
    errors: list[FieldProblem] | None = Field(None, description="Wrong values of an invalid request.")


def problem_response(
    error: CircadiaError,
    path: str,
    errors: Sequence[FieldProblem] | None = None,
    *,
    status: int | None = None,
    more: Mapping[str, object] | None = None,
) -> Response:
    """Return the problem for an error; `status` overrides the status of its class, `more` adds keys."""
    kind = next((cls for cls in type(error).__mro__ if cls in HTTP_STATUS), None)
    if kind is None:
        return internal_error_response(path)
    status = status or HTTP_STATUS[cast("type[CircadiaError]", kind)]
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="circadia"'
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(error.allow)
    if status in (429, 503):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds or 1)))
    return _build_response(error.code, status, error.message, path, errors, headers, more or {})


def internal_error_response(path: str) -> Response:
    """Return the problem for an unexpected error, without internal details."""
    return _build_response(INTERNAL, 500, "the server failed; its log says why", path, None, {}, {})


def _build_response(
    code: str,
    status: int,
    detail: str,
    path: str,
    errors: Sequence[FieldProblem] | None,
    headers: Mapping[str, str],
    more: Mapping[str, object],
) -> Response:
    problem = Problem(
        type=f"urn:circadia:error:{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        detail=_escape_surrogates(detail),
        instance=_escape_surrogates(path),
        code=code,
        errors=None if errors is None else list(errors),
    )
    return Response(orjson.dumps({**problem.model_dump(exclude_none=True), **more}), status, headers, MEDIA_TYPE)


def _escape_surrogates(text: str) -> str:
    """Escape what UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def handle_errors(app: FastAPI) -> None:
    """Make the application return all errors as problems."""
    app.add_exception_handler(CircadiaError, _handle_circadia_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_routing_error)


async def _handle_circadia_error(request: Request, error: Exception) -> Response:
    return problem_response(cast("CircadiaError", error), request.url.path)


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    problems = [_field_problem(line) for line in cast("RequestValidationError", error).errors()[:_LISTED]]
    details = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:_MAX_REPORTED_ERRORS])
    more = f"; and {len(problems) - _MAX_REPORTED_ERRORS} more" if len(problems) > _MAX_REPORTED_ERRORS else ""
    return problem_response(InvalidRequest(details + more), request.url.path, problems)


def _field_problem(line: Mapping[str, Any]) -> FieldProblem:
    """Convert an error of pydantic; show only short values."""
    if line["type"] == "json_invalid":
        return FieldProblem(
            path="body", message=f"malformed JSON at character {line['loc'][-1]}: {line['ctx']['error']}"
        )
    place = ".".join(str(part) for part in line["loc"])
    message = str(line["msg"]).removeprefix("Value error, ").replace("valid tuple", "valid list")
    value = line.get("input")
    if isinstance(value, str | int | float) and line["type"] != "missing":
        text = repr(value)
        message += f" (got {text})" if len(text) <= _SHOWN_INPUT else ""
    elif line["type"] == "missing" and place == "body":
        message = "send a JSON object"
    return FieldProblem(path=_escape_surrogates(place), message=_escape_surrogates(message))


async def _handle_routing_error(request: Request, error: Exception) -> Response:
    path = request.url.path
    status = cast("HTTPException", error).status_code
    if status == 405:
        allowed = sorted(_allowed_methods(request))
        message = f"{request.method} is not for {path!r}; use {', '.join(allowed)}"
        return problem_response(MethodNotAllowed(message, allow=allowed), path)
    if status == 404:
        return problem_response(NotFound(f"no path {path!r}; the paths are in /api/openapi.json"), path)
    return problem_response(
        InvalidRequest("the body cannot be read as JSON; send it in UTF-8 and not compressed"), path
    )


def _allowed_methods(request: Request) -> set[str]:
    """Return the methods of the path over all routes."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    return {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
        if method != "HEAD"
    }
