"""The body of every error (RFC 9457); all doors answer with it, also before the REST application is loaded."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, cast

import orjson
from pydantic import BaseModel, Field
from starlette.responses import Response

from circadia.errors import HTTP_STATUS, CircadiaError, MethodNotAllowed

MEDIA_TYPE: Final = "application/problem+json"
INTERNAL: Final = "internal_error"
"""Code of unexpected errors."""


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
        detail=escape_surrogates(detail),
        instance=escape_surrogates(path),
        code=code,
        errors=None if errors is None else list(errors),
    )
    return Response(orjson.dumps({**problem.model_dump(exclude_none=True), **more}), status, headers, MEDIA_TYPE)


def escape_surrogates(text: str) -> str:
    """Escape what UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
