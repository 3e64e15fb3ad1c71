"""The guard of all REST requests: authentication, size of the body, and errors as problems (RFC 9457)."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from circadia.agents.access import require_may_act, require_member
from circadia.agents.identity import Identity
from circadia.agents.sign_in import SignIn
from circadia.api.body_reader import BodyReader
from circadia.api.problems import FieldProblem, escape_surrogates, internal_error_response, problem_response
from circadia.errors import CircadiaError, Forbidden, InvalidRequest, MethodNotAllowed, NotFound
from circadia.gateway.calls.headers import bearer, first_value
from circadia.gateway.hold.bodies import CallerGone
from circadia.records.principal import Principal
from circadia.stores.nul_check import NUL

_logger = logging.getLogger(__name__)

_SHOWN_INPUT: Final = 80
_MAX_REPORTED_ERRORS: Final = 3
_LISTED: Final = 100
"""Maximum number of problems in one answer."""


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
    return FieldProblem(path=escape_surrogates(place), message=escape_surrogates(message))


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
    """Return the methods of the path over all routes; where a route has its last word, not those for any word."""
    matches = [(route, *route.matches(request.scope)) for route in request.app.routes if isinstance(route, Route)]
    found = [(route, len(scope["path_params"])) for route, match, scope in matches if match is not Match.NONE]
    fewest = min((params for _, params in found), default=0)
    methods = {method for route, params in found if params == fewest for method in route.methods or ()}
    return methods - {"HEAD"}


_LOOKS: Final = ("GET", "HEAD", "OPTIONS")
_OWN_LINKS: Final = "/api/v1/me/links"
"""What a viewer may post: it changes nothing."""
_JSON: Final = (b"content-type", b"application/json")


class Guard:
    """Authenticates the caller, reads the body up to its limit, and returns errors as problems.

    It treats every body as JSON, so that `curl -d` needs no header. A web page gains nothing by that, since each
    request needs a token in a header.
    """

    def __init__(self, app: ASGIApp, identity: Identity, sign_in: SignIn, max_body_bytes: int) -> None:
        self._app = app
        self._identity = identity
        self._sign_in = sign_in
        self._reader = BodyReader(max_body_bytes, "limits.max_api_body_bytes")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def track_send(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                message = {**message, "headers": _forbid_caching(message.get("headers", ()))}
            await send(message)

        try:
            await self._serve(scope, receive, track_send)
        except CallerGone:
            return
        except CircadiaError as error:
            if started:
                raise
            await problem_response(error, scope["path"])(scope, receive, track_send)
        except Exception:
            _logger.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise
            await internal_error_response(scope["path"])(scope, receive, track_send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = await self._authenticate(scope)
        require_member(principal)
        if scope["method"] not in _LOOKS and scope["path"] != _OWN_LINKS:
            require_may_act(principal)
        body = await self._reader.read(scope, receive)
        first: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def replay_body() -> Message:
            nonlocal first
            if first is None:
                return await receive()
            message, first = first, None
            return message

        _require_text(scope)
        headers = scope["headers"]
        if body:
            headers = [(name, value) for name, value in headers if name != b"content-type"] + [_JSON]
        state = {**scope.get("state", {}), "principal": principal}
        await self._app({**scope, "headers": headers, "state": state}, replay_body, send)

    async def _authenticate(self, scope: Scope) -> Principal:
        """Return the owner of the token or, without one, of the dashboard's cookie."""
        headers = scope["headers"]
        token = bearer(headers)
        cookies = b";".join(value for name, value in headers if name == b"cookie").decode("latin-1")
        person = None if token else await self._sign_in.authenticate(cookies)
        if person is None:
            return await self._identity.authenticate(token)
        if scope["method"] not in _LOOKS and not _is_same_origin(headers):
            raise Forbidden("a page of another origin may not act for who is signed in here")
        return person


def _forbid_caching(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer, which nothing on the way may keep: it may be secret, and is old at once."""
    return [*(each for each in headers if each[0] != b"cache-control"), (b"cache-control", b"no-store")]


def _is_same_origin(headers: list[tuple[bytes, bytes]]) -> bool:
    origin, host = first_value(headers, b"origin"), first_value(headers, b"host")
    return origin is not None and host is not None and origin.lower().partition("://")[2] == host.lower()


def _require_text(scope: Scope) -> None:
    """Reject a NUL in the address; `Body` checks bodies.

    Raises:
        NotFound: the path has a NUL, so it cannot exist. InvalidRequest: the query has one.
    """
    if "\0" in scope["path"]:
        raise NotFound(f"no path {scope['path']!r}; the paths are in /api/openapi.json")
    # Callers of models choose the names of end users, so these may hold a NUL; `shorten_name` makes them storable.
    if any(b"%00" in part for part in scope["query_string"].split(b"&") if not part.startswith(b"user=")):
        raise InvalidRequest(f"the query {NUL}")
