"""The door `/ui`: the built dashboard, and how people sign in to it (UI-01, UI-02)."""

import asyncio
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from circadia.agents.sign_in import COOKIE_LIFETIME, LINK_PATH, SignIn
from circadia.errors import InvalidRequest, MethodNotAllowed, NotFound, TooLarge
from circadia.schemas.fleet import PrincipalView

BUILT_FILES: Final = Path(__file__).parent.parent / "dashboard"
_MAX_BODY_BYTES: Final = 10_000
_BODY_SECONDS: Final = 30.0
_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
_HEADERS: Final = [
    (b"content-security-policy", _POLICY.encode()), (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"), (b"cross-origin-opener-policy", b"same-origin"),
]  # fmt: skip
_NOT_BUILT: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Circadia</title>
<p>This installation has no dashboard. In a source checkout, <code>make dashboard</code> builds it.</p></html>"""


class SignInBody(BaseModel):
    """A person's token."""

    model_config = ConfigDict(extra="forbid")

    token: str


class DashboardDoor:
    """Serves the files below `/ui`; a path that is no file is a page of the application."""

    def __init__(self, sign_in: SignIn) -> None:
        self._sign_in = sign_in
        pages: ASGIApp = _answer_not_built
        if BUILT_FILES.is_dir():
            pages = GZipMiddleware(_Pages(BUILT_FILES), minimum_size=1_000, compresslevel=5)
        self._router = Router(
            [
                Route("/ui/session", self._create_session, methods=["POST"]),
                Route("/ui/session", self._end_session, methods=["DELETE"]),
                Route(LINK_PATH, self._follow_link, methods=["GET"]),
                Mount("/ui", pages),
            ],
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        if scope["path"] == "/ui":
            await RedirectResponse("/ui/", 308)(scope, receive, send_with_headers)
            return
        await self._router(scope, receive, send_with_headers)

    async def _create_session(self, request: Request) -> Response:
        body = await _read_body(request)
        principal, cookie = await self._sign_in.create_cookie(body.token)
        return self._set_cookie(request, JSONResponse(PrincipalView.of(principal).model_dump()), cookie)

    async def _end_session(self, request: Request) -> Response:
        response = Response(status_code=204)
        for name in self._sign_in.cookie_names:
            response.delete_cookie(name, path="/", httponly=True, samesite="strict")
        return response

    async def _follow_link(self, request: Request) -> Response:
        if request.method != "GET":
            raise MethodNotAllowed("HEAD is not possible on a link that works once; use GET", allow=("GET",))
        cookie = await self._sign_in.follow_link(request.query_params.get("code", ""))
        return self._set_cookie(request, RedirectResponse("/ui/", 303), cookie)

    def _set_cookie(self, request: Request, response: Response, value: str) -> Response:
        secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
        response.set_cookie(
            self._sign_in.cookie_names[0], value, max_age=int(COOKIE_LIFETIME.total_seconds()), path="/", secure=secure,
            httponly=True, samesite="strict",
        )  # fmt: skip
        response.headers["cache-control"] = "no-store"
        return response


class _Pages(StaticFiles):
    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, html=True)

    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code == 405:
                message = f"{scope['method']} is not possible on a page; use GET"
                raise MethodNotAllowed(message, allow=("GET", "HEAD")) from error
            if path.startswith("assets/"):
                raise NotFound(f"no file {path!r}; reload the page, which a newer version may have replaced") from error
            response = await super().get_response("index.html", scope)
        is_named_by_content = path.startswith("assets/")
        response.headers["cache-control"] = "public, max-age=31536000, immutable" if is_named_by_content else "no-cache"
        return response


async def _answer_not_built(scope: Scope, receive: Receive, send: Send) -> None:
    await HTMLResponse(_NOT_BUILT, 404)(scope, receive, send)


async def _read_body(request: Request) -> SignInBody:
    """Raises TooLarge, InvalidRequest."""
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > _MAX_BODY_BYTES:
                    raise TooLarge(f"the body is over {_MAX_BODY_BYTES} bytes; send a token only")
        return SignInBody.model_validate_json(body)
    except TimeoutError as error:
        raise InvalidRequest(f"the body did not arrive within {_BODY_SECONDS:g} s; send it again") from error
    except (ValidationError, ClientDisconnect) as error:
        raise InvalidRequest('the body must be JSON like {"token": "circadia-…"}') from error
