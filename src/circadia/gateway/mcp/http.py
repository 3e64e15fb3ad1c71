"""A proxied MCP server over HTTP: bytes of both protocol eras pass unchanged and uninterpreted (GATE-74)."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Final

import aiohttp
from starlette.types import Receive, Scope, Send
from yarl import URL

from circadia.errors import ConfigError, UpstreamFailed, UpstreamTimedOut
from circadia.gateway.calls import headers as crossing
from circadia.gateway.calls.upstream import maskable_secret, sendable_body
from circadia.gateway.mcp.messages import TAKEN
from circadia.network import explain_unreachable, find_forward_proxy, tls_hint
from circadia.settings import McpServerSettings

_LONGEST_ERROR: Final = 65_536
"""Maximum number of bytes read of an error's body; the rest is cut off."""


def open_session() -> aiohttp.ClientSession:
    """Return a session that forwards bytes unchanged, without a connection limit."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=30),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**18,
        trace_configs=[_tell_when_written()],
    )


def _tell_when_written() -> aiohttp.TraceConfig:
    """Return what calls a request's `trace_request_ctx` in the step in which its body is written."""
    config = aiohttp.TraceConfig()
    config.on_request_chunk_sent.append(_tell)
    return config


async def _tell(_: object, context: SimpleNamespace, __: object) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx()


class McpHttp:
    def __init__(
        self, name: str, settings: McpServerSettings, environment: Mapping[str, str], session: aiohttp.ClientSession
    ) -> None:
        self._name = name
        self._url = URL(settings.url or "")
        self._session = session
        self._proxy = find_forward_proxy(settings.url or "", environment)
        self._added = [
            (header, _header_value(name, environment, variable)) for header, variable in settings.headers_env.items()
        ]
        secrets = (maskable_secret(f"{header!r} of MCP server {name!r}", value) for header, value in self._added)
        self._secrets = [secret for secret in secrets if secret]
        self._timeout = settings.answer_timeout_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request. Raises UpstreamFailed if the server fails, UpstreamTimedOut if it is too slow."""
        body = (await receive()).get("body", b"") if scope["method"] == "POST" else None
        listens = scope["method"] == "GET"  # a stream of notifications may be silent for hours
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=None if listens else self._timeout)
        headers = [
            *crossing.as_text(crossing.to_upstream(scope["headers"])),
            ("accept-encoding", "identity"),
            *self._added,
        ]
        try:
            async with self._session.request(
                scope["method"],
                self._url,
                headers=headers,
                data=sendable_body(body),
                timeout=timeout,
                allow_redirects=False,
                proxy=self._proxy,
                trace_request_ctx=scope.get(TAKEN),
            ) as response:
                if response.status < 200:
                    raise UpstreamFailed(
                        f"MCP server {self._name!r} tried to switch protocols, which was not requested"
                    )
                if response.status > 599:
                    raise UpstreamFailed(f"MCP server {self._name!r} sent the status {response.status}")
                if 300 <= response.status < 400 and "location" in response.headers:
                    raise UpstreamFailed(f"MCP server {self._name!r} redirects; the operator must set its url")
                back = crossing.to_caller(response.raw_headers, secrets=self._secrets)
                await send({"type": "http.response.start", "status": response.status, "headers": back})
                if response.status >= 400:
                    body = self._redact_secrets(await _read_start(response.content))
                    await send({"type": "http.response.body", "body": body})
                    return
                async for chunk in response.content.iter_any():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except (TimeoutError, aiohttp.ServerTimeoutError) as error:
            raise UpstreamTimedOut(f"MCP server {self._name!r} did not answer in time") from error
        except aiohttp.ClientConnectorError as error:
            raise UpstreamFailed(
                f"MCP server {self._name!r} cannot be reached: {explain_unreachable(error)}"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(f"MCP server {self._name!r} broke off{tls_hint(str(self._url))}") from error
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _redact_secrets(self, body: bytes) -> bytes:
        """Mask the settings' secrets in an error body, in case the server repeated them."""
        for secret in self._secrets:
            body = body.replace(secret, b"[secret]")
        return body


async def _read_start(content: aiohttp.StreamReader) -> bytes:
    start = b""
    while len(start) < _LONGEST_ERROR and (chunk := await content.read(_LONGEST_ERROR - len(start))):
        start += chunk
    return start


def _header_value(server: str, environment: Mapping[str, str], variable: str) -> str:
    value = environment.get(variable)
    if value is None:
        raise ConfigError(f"mcp_servers.{server}.headers_env: the environment has no {variable!r}; set it")
    return value
