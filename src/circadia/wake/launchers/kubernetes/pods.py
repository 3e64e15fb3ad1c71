"""One watch of all pods of this server's Jobs, for as long as a run needs it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from circadia.clock import Clock
from circadia.wake.launchers.kubernetes.api import (
    PATIENCE_SECONDS,
    ApiRefused,
    ApiUnreachable,
    ClusterAccess,
    KubernetesApi,
    open_api,
    retry_pause,
)
from circadia.wake.launchers.kubernetes.job import CONTAINER, PULSE_LABEL

_logger = logging.getLogger(__name__)

_JOB_LABEL: Final = "job-name"
"""The Job controller sets it on each pod."""
_EXPIRED: Final = 410


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
