"""The part of the Docker Engine API that a container run needs; Podman serves it too.

Paths have no version, so each engine speaks its newest: no single version is served by Docker 29 and Podman 4.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast
from urllib.parse import quote

import aiohttp
import orjson

_CALL: Final = aiohttp.ClientTimeout(total=60.0)
_ENDLESS: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
_FRAME_HEAD_BYTES: Final = 8


class EngineError(Exception):
    """The engine refused: `status` is the HTTP status, `str()` its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EngineUnreachable(Exception):
    """The engine does not answer, or broke off: the request may have been executed or not."""


class ContainerStdin:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def write(self, content: bytes) -> None:
        """Write the whole input, unless the container has ended; call it after the start."""
        connection = self._response.connection
        if connection is None or connection.transport is None or connection.transport.is_closing():
            return
        transport = cast("asyncio.WriteTransport", connection.transport)
        transport.write(content)
        transport.write_eof()


class Engine:
    """One engine, opened by `open_engine` for one run. All calls raise EngineError and EngineUnreachable."""

    def __init__(self, http: aiohttp.ClientSession, base: str) -> None:
        self._http = http
        self._base = base
        self._held: list[aiohttp.ClientResponse] = []

    async def create(self, name: str, body: Mapping[str, Any]) -> None:
        """Create a container; EngineError with status 404 means that its image is missing."""
        await self._request("POST", "/containers/create", {"name": name}, body)

    async def pull(self, image: str) -> None:
        """Pull an image from its registry, without a time limit."""
        # A reference without a tag would pull all tags.
        tagged = image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"
        progress = await self._request("POST", "/images/create", {"fromImage": tagged}, timeout=_ENDLESS)
        for line in progress.splitlines():
            step: object = _parse_json(line)
            if isinstance(step, dict) and "error" in step:
                raise EngineError(500, str(cast("dict[str, object]", step)["error"]))

    async def attach(self, name: str) -> ContainerStdin:
        """Open the container's standard input before its start; it stays open as long as the engine."""
        query = {"stream": "1", "stdin": "1", "stdout": "0", "stderr": "0"}
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        try:
            response = await self._http.post(
                f"{self._base}/containers/{name}/attach", params=query, headers=headers, timeout=_ENDLESS
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EngineUnreachable(_error_text(error)) from error
        if response.status not in (101, 200):
            async with response:
                raise EngineError(response.status, await _error_message(response))
        self._held.append(response)
        return ContainerStdin(response)

    def close(self) -> None:
        for response in self._held:
            response.close()

    async def start(self, name: str) -> None:
        """Start the container; an EngineError means that nothing ran."""
        await self._request("POST", f"/containers/{name}/start")

    async def wait(self, name: str) -> int:
        answer = _parse_json(
            await self._request("POST", f"/containers/{name}/wait", {"condition": "not-running"}, timeout=_ENDLESS)
        )
        if not isinstance(answer, dict):
            raise EngineUnreachable("the engine broke off while the container ran")
        return int(cast("dict[str, Any]", answer)["StatusCode"])

    async def fetch_state(self, name: str) -> dict[str, Any]:
        answer = _parse_json(await self._request("GET", f"/containers/{name}/json"))
        return cast("dict[str, dict[str, Any]]", answer)["State"] if isinstance(answer, dict) else {}

    async def fetch_output(self, name: str) -> bytes:
        query = {"stdout": "1", "stderr": "1"}  # all of it: with a tail, Podman 4 loses an unterminated last line
        return b"".join(_split_frames(await self._request("GET", f"/containers/{name}/logs", query)))

    async def stop(self, name: str, grace_seconds: int) -> None:
        """Stop the container with SIGTERM, and by force after the grace period."""
        timeout = aiohttp.ClientTimeout(total=grace_seconds + 20.0)
        await self._request("POST", f"/containers/{name}/stop", {"t": str(grace_seconds)}, timeout=timeout)

    async def remove(self, name: str) -> None:
        """Kill and remove the container with its volumes; ignore one that is gone or going."""
        try:
            await self._request("DELETE", f"/containers/{name}", {"force": "1", "v": "1"})
        except EngineError as error:
            if error.status not in (404, 409):
                raise

    async def find_by_label(self, label: str) -> list[tuple[str, dict[str, str]]]:
        """Return id and labels of the containers with a label, ended ones included."""
        filters = orjson.dumps({"label": [label]}).decode()
        answer = _parse_json(await self._request("GET", "/containers/json", {"all": "1", "filters": filters}))
        rows = cast("list[dict[str, Any]]", answer) if isinstance(answer, list) else []
        return [(row["Id"], row.get("Labels") or {}) for row in rows]

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        timeout: aiohttp.ClientTimeout = _CALL,
    ) -> bytes:
        data = None if body is None else orjson.dumps(body)
        headers = {} if data is None else {"content-type": "application/json"}
        try:
            async with self._http.request(
                method, self._base + path, params=query, data=data, headers=headers, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise EngineError(response.status, await _error_message(response))
                return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EngineUnreachable(_error_text(error)) from error


@asynccontextmanager
async def open_engine(address: str) -> AsyncGenerator[Engine]:
    """Open the engine at `unix:///path` or `tcp://host:port`."""
    scheme, _, place = address.partition("://")
    if scheme == "unix":
        connector: aiohttp.BaseConnector = aiohttp.UnixConnector(place, force_close=True)
        base = "http://engine"
    else:
        connector, base = aiohttp.TCPConnector(force_close=True), f"http://{quote(place, safe=':[]')}"
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as http:
        engine = Engine(http, base)
        try:
            yield engine
        finally:
            engine.close()


def _split_frames(content: bytes) -> list[bytes]:
    """Return the contents of a log's frames; the last 4 of the 8 header bytes are the length."""
    contents: list[bytes] = []
    place = 0
    while place + _FRAME_HEAD_BYTES <= len(content):
        start = place + _FRAME_HEAD_BYTES
        place = start + int.from_bytes(content[start - 4 : start], "big")
        contents.append(content[start:place])
    return contents


async def _error_message(response: aiohttp.ClientResponse) -> str:
    answer = _parse_json(await response.read())
    if isinstance(answer, dict) and "message" in answer:
        return str(cast("dict[str, object]", answer)["message"])
    return f"HTTP {response.status}"


def _parse_json(content: bytes) -> object:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__
