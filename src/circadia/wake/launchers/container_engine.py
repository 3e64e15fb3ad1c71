"""The part of the Docker Engine API that a container's life needs; Podman serves it too.

Paths carry no version: each engine then speaks its own newest, as no single version is served by Docker 29 and by
Podman 4.
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
    """The engine refused; `status` is HTTP's, `str()` is what it said."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EngineUnreachable(Exception):
    """The engine does not answer, or broke off: what was asked may have been done or not."""


class ContainerStdin:
    """The standard input of a container that has been created."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def write(self, content: bytes) -> None:
        """Hand over all that it will read, if it has not ended yet; call it once the container was started."""
        connection = self._response.connection
        if connection is None or connection.transport is None or connection.transport.is_closing():
            return
        transport = cast("asyncio.WriteTransport", connection.transport)
        transport.write(content)
        transport.write_eof()


class Engine:
    """One engine, open for the calls of one run; made by `engine_at`. All calls raise EngineError and EngineAway."""

    def __init__(self, http: aiohttp.ClientSession, base: str) -> None:
        self._http = http
        self._base = base
        self._held: list[aiohttp.ClientResponse] = []

    async def create(self, name: str, body: Mapping[str, Any]) -> None:
        """Create a container; 404 says that its image is not there."""
        await self._request("POST", "/containers/create", {"name": name}, body)

    async def pull(self, image: str) -> None:
        """Fetch an image from its registry; takes as long as it takes."""
        # A reference without a tag would fetch every tag there is.
        tagged = image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"
        said = await self._request("POST", "/images/create", {"fromImage": tagged}, timeout=_ENDLESS)
        for line in said.splitlines():
            step: object = _parse_json(line)
            if isinstance(step, dict) and "error" in step:
                raise EngineError(500, str(cast("dict[str, object]", step)["error"]))

    async def attach(self, name: str) -> ContainerStdin:
        """Open the container's standard input, before it is started; it stays open as long as the engine."""
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
        """Let go of the standard inputs."""
        for response in self._held:
            response.close()

    async def start(self, name: str) -> None:
        """Start the container; an error that is not EngineAway says that nothing ran."""
        await self._request("POST", f"/containers/{name}/start")

    async def wait(self, name: str) -> int:
        """Return the exit status once the container has ended."""
        said = _parse_json(
            await self._request("POST", f"/containers/{name}/wait", {"condition": "not-running"}, timeout=_ENDLESS)
        )
        if not isinstance(said, dict):
            raise EngineUnreachable("the engine broke off while the container ran")
        return int(cast("dict[str, Any]", said)["StatusCode"])

    async def fetch_state(self, name: str) -> dict[str, Any]:
        """Return what the engine knows of the container's state."""
        said = _parse_json(await self._request("GET", f"/containers/{name}/json"))
        return cast("dict[str, dict[str, Any]]", said)["State"] if isinstance(said, dict) else {}

    async def fetch_output(self, name: str) -> bytes:
        """Return the end of what the container said."""
        query = {"stdout": "1", "stderr": "1"}  # all of it: with a tail, Podman 4 loses a last line without its end
        return b"".join(_split_frames(await self._request("GET", f"/containers/{name}/logs", query)))

    async def stop(self, name: str, grace_seconds: int) -> None:
        """Stop the container politely, and by force after the grace period."""
        timeout = aiohttp.ClientTimeout(total=grace_seconds + 20.0)
        await self._request("POST", f"/containers/{name}/stop", {"t": str(grace_seconds)}, timeout=timeout)

    async def remove(self, name: str) -> None:
        """Kill and remove the container with its volumes; one that is gone or going is no error."""
        try:
            await self._request("DELETE", f"/containers/{name}", {"force": "1", "v": "1"})
        except EngineError as error:
            if error.status not in (404, 409):
                raise

    async def find_by_label(self, label: str) -> list[tuple[str, dict[str, str]]]:
        """Return id and labels of the containers with a label, ended ones too."""
        filters = orjson.dumps({"label": [label]}).decode()
        said = _parse_json(await self._request("GET", "/containers/json", {"all": "1", "filters": filters}))
        rows = cast("list[dict[str, Any]]", said) if isinstance(said, list) else []
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
    """Return what stands in the frames of a log; each has a head of 8 bytes, of which the last 4 are its length."""
    found: list[bytes] = []
    place = 0
    while place + _FRAME_HEAD_BYTES <= len(content):
        start = place + _FRAME_HEAD_BYTES
        place = start + int.from_bytes(content[start - 4 : start], "big")
        found.append(content[start:place])
    return found


async def _error_message(response: aiohttp.ClientResponse) -> str:
    said = _parse_json(await response.read())
    if isinstance(said, dict) and "message" in said:
        return str(cast("dict[str, object]", said)["message"])
    return f"HTTP {response.status}"


def _parse_json(content: bytes) -> object:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__
