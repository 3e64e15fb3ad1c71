"""The part of the Kubernetes API that Jobs need: calls that repeat what may succeed later, and a watch of all pods."""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Self, cast

import aiohttp
import orjson

from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.network import explain_unreachable
from circadia.wake.launchers.base import run_shielded

_logger = logging.getLogger(__name__)

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where each pod has the token, the certificates and the namespace of its service account."""
RIGHTS: Final = (
    *(("batch", "jobs", verb) for verb in ("create", "get", "list", "delete")),
    ("", "secrets", "create"),
    *(("", "pods", verb) for verb in ("list", "watch")),
)
"""Group, resource and verb of all that the launcher does."""
PATIENCE_SECONDS: Final = 60.0
"""Longest sum of the pauses between repeats: about as long as a single API server takes to restart."""
_CALL: Final = aiohttp.ClientTimeout(total=20.0)
_WATCH_SECONDS: Final = 120
"""The server ends a watch after so long. A connection that died without a sign is noticed little later."""
_WATCH: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_WATCH_SECONDS + 30.0)
_MAX_LINE_BYTES: Final = 2**21
"""etcd stores at most 1.5 MiB for an object."""
PULSE_LABEL: Final = "circadia/pulse"
CONTAINER: Final = "agent"
_JOB_LABEL: Final = "job-name"
"""The Job controller sets it on each pod."""
_EXPIRED: Final = 410
_FIRST_PAUSE_SECONDS: Final = 0.25
_MAX_PAUSE_SECONDS: Final = 10.0


class ApiRefused(Exception):
    """The API server refused: `status` is the HTTP status, or 0 if it was not trusted; `str()` its message."""

    def __init__(self, status: int, message: str, *, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.is_repeat = False
        """An earlier try of the same request may have been executed."""

    @property
    def is_transient(self) -> bool:
        return self.status == 429 or self.status >= 500


class ApiUnreachable(Exception):
    """The API server does not answer, or broke off: the request may have been executed or not."""

    retry_after_seconds = 0.0
    is_transient = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterAccess:
    url: str
    namespace: str
    token_file: Path
    """Read before each request, since kubelet replaces the token before it expires."""
    ca_file: Path | None
    """Certificates that sign the server's; without it, those of this machine."""

    def path(self, resource: str) -> str:
        """Return the path of `jobs`, `pods` or `secrets` in the namespace."""
        group = "apis/batch" if resource == "jobs" else "api"
        return f"/{group}/v1/namespaces/{self.namespace}/{resource}"


def find_cluster(
    where: str,
    environment: Mapping[str, str],
    *,
    api_url: str | None,
    namespace: str | None,
    token_file: str | None,
    ca_file: str | None,
    mount: Path = SERVICE_ACCOUNT,
) -> ClusterAccess:
    """Return the settings completed by what Kubernetes gives to each pod. `where` is their path, for messages.

    Raises:
        ConfigError: this is no pod, or it has no token, and the settings do not replace that.
    """
    if api_url is None:
        host, port = (environment.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
        if not host or not port:
            raise ConfigError(f"{where}.api_url: this server runs in no pod, so name the API's URL, and a `token_file`")
        api_url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    token = Path(token_file) if token_file else mount / "token"
    if not token.is_file():
        raise ConfigError(
            f"{where}.token_file: there is no token at {str(token)!r}; give the server's pod a service account with "
            "`automountServiceAccountToken: true`, or name the file"
        )
    ca = Path(ca_file) if ca_file else mount / "ca.crt" if token_file is None else None
    if ca is not None and not ca.is_file():
        raise ConfigError(f"{where}.ca_file: there is no file {str(ca)!r}; correct it")
    mounted = mount / "namespace"
    if namespace is None:
        if not mounted.is_file():
            raise ConfigError(f"{where}.namespace: this server runs in no pod, so name the namespace of its Jobs")
        namespace = mounted.read_text("utf-8").strip()
    return ClusterAccess(url=api_url.rstrip("/"), namespace=namespace, token_file=token, ca_file=ca)


class KubernetesApi:
    """One API server, opened by `open_api`. All calls raise ApiRefused and ApiUnreachable."""

    def __init__(self, http: aiohttp.ClientSession, access: ClusterAccess, clock: Clock) -> None:
        self._http = http
        self._access = access
        self._clock = clock

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> dict[str, Any]:
        """Return the answer, repeating the request while the server is away or busy.

        A cancellation never leaves a request half sent.
        """
        tries, waited_seconds = 0, 0.0
        while True:
            try:
                return await run_shielded(self._request(method, path, query, body))
            except (ApiRefused, ApiUnreachable) as error:
                if isinstance(error, ApiRefused):
                    error.is_repeat = tries > 0
                pause = max(retry_pause(tries), error.retry_after_seconds)
                waited_seconds += pause
                if not error.is_transient or waited_seconds > patience_seconds:
                    raise
            await self._clock.sleep(pause)
            tries += 1

    async def find_missing_rights(self) -> list[str]:
        """Return what of `RIGHTS` the token does not grant in the namespace."""
        missing: list[str] = []
        for group, resource, verb in RIGHTS:
            attributes = {"namespace": self._access.namespace, "group": group, "resource": resource, "verb": verb}
            review = {
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
                "spec": {"resourceAttributes": attributes},
            }  # fmt: skip
            path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            answer = await self.call("POST", path, body=review, patience_seconds=0)
            if not answer.get("status", {}).get("allowed"):
                missing.append(f"{verb} {resource}")
        return missing

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[dict[str, Any]]:
        """Yield events until the server ends the watch."""
        more = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(_WATCH_SECONDS)}
        async with self._respond("GET", path, {**query, **more}, None, _WATCH) as response:
            async for line in response.content:
                event = _parse_object(line)
                if "object" not in event:
                    raise ApiUnreachable(f"the Kubernetes API at {self._access.url} cut its watch in the middle")
                if event.get("type") == "ERROR":
                    raise ApiRefused(int(event["object"].get("code", 500)), str(event["object"].get("message", "")))
                yield event

    async def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        async with self._respond(method, path, query, body, _CALL) as response:
            return _parse_object(await response.read())

    @asynccontextmanager
    async def _respond(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Yield a response with a status of success; a token that expired just now is read once more."""
        content = None if body is None else orjson.dumps(body)
        try:
            for is_last in (False, True):
                token = await asyncio.to_thread(self._read_token)
                data = content and BytesIO(content)  # aiohttp warns of large bytes
                headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
                async with self._http.request(
                    method, self._access.url + path, params=query, data=data, headers=headers, timeout=timeout,
                    allow_redirects=False,  # another host must not get the token
                ) as response:  # fmt: skip
                    if response.status == 401 and not is_last:
                        continue
                    if response.status >= 300:
                        raise await _refusal(response)
                    yield response
                    return
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            problem = f"{explain_unreachable(error)}; check `api_url` and `ca_file`"
            raise ApiRefused(0, f"the Kubernetes API at {self._access.url} is not trusted: {problem}") from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            problem = explain_unreachable(error)
            raise ApiUnreachable(f"the Kubernetes API at {self._access.url} does not answer: {problem}") from error

    def _read_token(self) -> str:
        try:
            return self._access.token_file.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ApiRefused(401, f"cannot read the token in {str(self._access.token_file)!r}: {error}") from error


@asynccontextmanager
async def open_api(access: ClusterAccess, clock: Clock) -> AsyncGenerator[KubernetesApi]:
    tls = await asyncio.to_thread(ssl.create_default_context, cafile=access.ca_file)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_MAX_LINE_BYTES,
    ) as http:
        yield KubernetesApi(http, access, clock)


def retry_pause(tries: int) -> float:
    return min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(tries, 10))


async def _refusal(response: aiohttp.ClientResponse) -> ApiRefused:
    content = _parse_object(await response.read())
    message = str(content.get("message") or f"HTTP {response.status}")
    if response.status == 401:
        message = f"the token is not accepted ({message})"
    elif response.status == 403:
        message += "; grant it with a Role"
    after = response.headers.get("Retry-After", "")
    seconds = float(after) if after.isascii() and after.isdigit() else 0.0
    return ApiRefused(response.status, message, retry_after_seconds=seconds)


def _parse_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object, or an empty one if a proxy or a cut connection sent something else."""
    try:
        value: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


@dataclass(frozen=True, kw_only=True, slots=True)
class PodState:
    """The state of a Job's pod, by its agent's container: others, such as a service mesh's, may outlive it."""

    is_running: bool
    has_ended: bool
    is_deleted: bool
    """It is gone, or is being deleted."""
    is_gone: bool
    exit_status: int | None = None
    reason: str = ""
    message: str = ""

    @classmethod
    def parse(cls, pod: Mapping[str, Any], *, is_gone: bool) -> Self:
        status: Mapping[str, Any] = pod.get("status", {})
        containers = [each for each in status.get("containerStatuses", []) if each.get("name") == CONTAINER]
        state: Mapping[str, Any] = containers[0].get("state", {}) if containers else {}
        ended: Mapping[str, Any] = state.get("terminated", {})
        pending = [each for each in status.get("conditions", []) if each.get("status") == "False"]
        unscheduled = [each for each in pending if each.get("type") == "PodScheduled"]
        source = ended or state.get("waiting") or (unscheduled[0] if unscheduled else status)
        return cls(
            is_running="running" in state,
            has_ended=bool(ended) or is_gone or status.get("phase") in ("Succeeded", "Failed"),
            is_deleted=is_gone or "deletionTimestamp" in pod["metadata"],
            is_gone=is_gone,
            exit_status=ended.get("exitCode"),
            reason=str(source.get("reason") or ""),
            message=str(source.get("message") or ""),
        )

    def explain(self) -> str:
        return ": ".join(part for part in (self.reason, self.message.strip()) if part)


class PodWatch:
    """Keeps the state of each pod while it is open for a Job; Jobs that overlap share one watch."""

    def __init__(self, access: ClusterAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._jobs: list[str] = []
        self._pods: dict[str, PodState] = {}
        self._is_listed = False
        self._changed = asyncio.Event()
        self._problem: ApiRefused | ApiUnreachable | None = None
        self._watching: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self, job: str) -> AsyncGenerator[None]:
        """Watch until the block ends. Raises ApiRefused or ApiUnreachable if pods cannot be listed."""
        if self._watching is None or self._watching.done():
            self._pods, self._is_listed, self._problem = {}, False, None
            self._watching = asyncio.create_task(self._watch_until_refused())
            self._watching.add_done_callback(lambda _: self._notify())
        self._jobs.append(job)
        try:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._wait_until(lambda: self._is_listed)
            except TimeoutError:
                raise self._problem or ApiUnreachable("the Kubernetes API has not listed its pods in time") from None
            yield
        finally:
            self._jobs.remove(job)
            if job not in self._jobs and job in self._pods and self._pods[job].is_gone:
                del self._pods[job]
            if not self._jobs:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)

    async def wait_for(self, job: str, is_met: Callable[[PodState | None], bool]) -> PodState | None:
        """Return the state of an open Job's pod once it meets the condition; None until there is one.

        Raises ApiRefused if pods cannot be watched any more.
        """
        await self._wait_until(lambda: is_met(self._pods.get(job)))
        return self._pods.get(job)

    async def _wait_until(self, is_met: Callable[[], bool]) -> None:
        while not is_met():
            if self._watching is not None and self._watching.done():
                self._watching.result()  # raises what ended it
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch_until_refused(self) -> None:
        tries = 0
        version = ""
        async with open_api(self._access, self._clock) as api:
            while True:
                pause = retry_pause(0)
                try:
                    version = version or await self._list(api)
                    async for event in api.watch(self._access.path("pods"), self._query(resourceVersion=version)):
                        tries = 0
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            self._store(event["object"], is_gone=event["type"] == "DELETED")
                except (ApiRefused, ApiUnreachable) as error:
                    pause = max(retry_pause(tries), error.retry_after_seconds)
                    if isinstance(error, ApiRefused) and error.status == _EXPIRED:
                        version = ""
                    elif error.is_transient:
                        self._problem = error
                        _logger.warning("pods are not watched: %s; trying again in %g s", error, pause)
                    else:
                        raise
                    tries += 1
                await self._clock.sleep(pause)

    async def _list(self, api: KubernetesApi) -> str:
        """Replace all states, and return the version from which to watch."""
        answer = await api.call("GET", self._access.path("pods"), query=self._query(), patience_seconds=0)
        unlisted, self._pods = self._pods, {}
        for pod in answer.get("items", []):
            self._store(pod, is_gone=False)
        for job in unlisted.keys() - self._pods.keys():
            if job in self._jobs:
                self._pods[job] = replace(
                    unlisted[job], is_running=False, has_ended=True, is_deleted=True, is_gone=True
                )
        self._is_listed = True
        self._notify()
        return str(answer["metadata"]["resourceVersion"])

    def _store(self, pod: Mapping[str, Any], *, is_gone: bool) -> None:
        job = pod["metadata"].get("labels", {}).get(_JOB_LABEL, "")
        self._pods[job] = PodState.parse(pod, is_gone=is_gone)
        if is_gone and job not in self._jobs:
            del self._pods[job]
        self._notify()

    def _query(self, **more: str) -> dict[str, str]:
        return {"labelSelector": PULSE_LABEL, **more}
