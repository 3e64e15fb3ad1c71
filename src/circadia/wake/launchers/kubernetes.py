"""Launcher that runs a pulse as a Job of a Kubernetes cluster."""

import asyncio
import base64
import logging
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from circadia.clock import Clock
from circadia.ids import PulseId
from circadia.output_tail import redact_tail
from circadia.settings.launchers import KubernetesLauncherSettings
from circadia.wake.launchers.base import (
    PROMPT_FILE,
    Launch,
    LaunchFailed,
    LaunchResult,
    prompt_bytes,
    pulse_environment,
    run_shielded,
)
from circadia.wake.launchers.kubernetes_api import (
    CONTAINER,
    PULSE_LABEL,
    ApiRefused,
    ApiUnreachable,
    ClusterAccess,
    KubernetesApi,
    PodState,
    PodWatch,
    open_api,
)

_logger = logging.getLogger(__name__)

EPOCH_LABEL: Final = "circadia/epoch"
_AGENT_LABEL: Final = "circadia/agent"
_PROMPT_KEY: Final = "prompt.txt"
_PROMPT_FOLDER: Final = "/run/circadia"
_MAX_LABEL_LENGTH: Final = 63
_MAX_SECRET_BYTES: Final = 2**20
"""`MaxSecretSize` of Kubernetes."""
_TTL_SECONDS: Final = 3600
"""After so long the cluster deletes an ended Job that no server is left to delete."""
_NEVER_STARTS: Final = (
    "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError",
)  # fmt: skip
"""Reasons of a waiting container that another try seldom removes."""
_NOT_STARTED: Final = ("StartError", "ContainerCannotRun")
"""Reasons of an ended container whose program the runtime could not start."""
_OUT_OF_MEMORY: Final = "OOMKilled"
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_REMOVAL_SECONDS: Final = 20.0
"""Time for the cluster to delete an ended pod, beyond its grace period."""


def job_name(pulse_id: PulseId, epoch: int) -> str:
    """Return the one name of an attempt's Job and Secret, so that a second creation is refused."""
    return f"circadia-{re.sub('[^a-z0-9]+', '-', pulse_id.lower())}-{epoch}"


def collect_secret_values(named: Mapping[str, str], launch: Launch) -> dict[str, bytes]:
    """Return the prompt and the environment. Raises LaunchFailed if they do not fit into one Secret."""
    environment = pulse_environment(named, launch)
    values = {name: value.encode("utf-8", "surrogateescape") for name, value in environment.items()}
    values[_PROMPT_KEY] = prompt_bytes(launch)
    size = sum(map(len, values.values()))
    if size > _MAX_SECRET_BYTES:
        raise LaunchFailed(f"prompt and environment have {size} bytes, and a Secret holds 1 MiB; send shorter messages")
    return values


def build_job(settings: KubernetesLauncherSettings, launch: Launch, values: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the Job, which refers to the values in the Secret by their names."""
    name = job_name(launch.pulse_id, launch.epoch)
    metadata = {
        "labels": {
            **settings.labels,
            "app.kubernetes.io/managed-by": "circadia",
            PULSE_LABEL: launch.pulse_id,
            EPOCH_LABEL: str(launch.epoch),
            _AGENT_LABEL: _label_value(launch.agent),
        },
        "annotations": {_AGENT_LABEL: launch.agent},
    }
    limit = launch.timeout_seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {
            "backoffLimit": 0,  # the pulse's own attempts repeat it, each with its own token
            "ttlSecondsAfterFinished": _TTL_SECONDS,
            **({} if math.isinf(limit) else {"activeDeadlineSeconds": max(1, math.ceil(limit))}),
            "template": {"metadata": metadata, "spec": _pod_spec(settings, name, values)},
        },
    }


def _pod_spec(settings: KubernetesLauncherSettings, name: str, values: Mapping[str, bytes]) -> dict[str, Any]:
    user, group = map(int, settings.user.split(":"))
    account = settings.service_account
    resources = {"memory": f"{settings.memory_mebibytes}Mi", "cpu": f"{settings.cpus:g}"}
    variables = [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": variable}}}
        for variable in values
        if variable != _PROMPT_KEY
    ]
    prompt = {"secretName": name, "items": [{"key": _PROMPT_KEY, "path": _PROMPT_KEY}], "defaultMode": 0o440}
    return {
        **settings.pod,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(settings.grace_seconds),
        **({"automountServiceAccountToken": False} if account is None else {"serviceAccountName": account}),
        "securityContext": {
            "runAsUser": user,
            "runAsGroup": group,
            "fsGroup": group,
            "runAsNonRoot": user != 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": settings.image,
                **({"command": list(settings.command)} if settings.command else {}),
                "env": [*variables, {"name": PROMPT_FILE, "value": f"{_PROMPT_FOLDER}/{_PROMPT_KEY}"}],
                "resources": {"limits": resources, "requests": resources},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    {"name": "pulse", "mountPath": _PROMPT_FOLDER, "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the container
                ],
            }
        ],
        "volumes": [
            {"name": "pulse", "secret": prompt},
            {"name": "tmp", "emptyDir": {"sizeLimit": f"{settings.tmp_mebibytes}Mi"}},
        ],
    }


def build_secret(job: Mapping[str, Any], uid: str, values: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the Secret of the Job that was created with this uid; the cluster deletes both together."""
    metadata = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": metadata["name"], "labels": metadata["labels"], "ownerReferences": [owner]},
        "immutable": True,
        "data": {name: base64.b64encode(value).decode("ascii") for name, value in values.items()},
    }


def _label_value(text: str) -> str:
    """Return text that a label can hold; the annotation holds the whole."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:_MAX_LABEL_LENGTH].strip("_.-")


class KubernetesLauncher:
    """Creates one Job for each attempt at a pulse, follows its pod, and deletes it; exit status 0 means success.

    The Job's name comes from pulse and epoch, so that none is created twice. `clear` finds Jobs by the pulse's label.
    """

    kind = "kubernetes"

    def __init__(
        self,
        access: ClusterAccess,
        settings: KubernetesLauncherSettings,
        *,
        environment: Mapping[str, str],
        clock: Clock,
        secrets: Sequence[str] = (),
    ) -> None:
        """Store what each start needs.

        Args:
            environment: variables from settings, as `named_environment` returns them.
            secrets: values to mask in details, besides the pulse's token.
        """
        self._access = access
        self._settings = settings
        self._environment = dict(environment)
        self._clock = clock
        self._secrets = tuple(secrets)
        self._pods = PodWatch(access, clock)

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        values = collect_secret_values(self._environment, launch)
        job = build_job(self._settings, launch, values)
        name: str = job["metadata"]["name"]
        may_run = False
        try:
            async with open_api(self._access, self._clock) as api, self._pods.open(name), self._job(api, job) as uid:
                try:
                    await self._create_secret(api, build_secret(job, uid, values))
                except (ApiRefused, ApiUnreachable) as error:
                    may_run = error.is_transient  # without its Secret no pod starts
                    raise
                may_run = True
                await self._wait_for_start(name)
                await started()
                pod = await self._pods.wait_for(name, lambda pod: pod is not None and pod.has_ended)
                return await self._describe_end(api, name, pod, launch)
        except (ApiRefused, ApiUnreachable) as error:
            if not may_run:
                raise LaunchFailed(f"cannot run a Job in the namespace {self._access.namespace!r}: {error}") from error
            return LaunchResult(succeeded=False, detail=f"its Job was lost sight of, and may have run: {error}")

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Delete the pulse's Jobs of earlier epochs and wait for their pods; after LaunchFailed it must not start."""
        await run_shielded(self._clear(pulse_id, below_epoch))

    async def _clear(self, pulse_id: PulseId, below_epoch: int) -> None:
        try:
            async with open_api(self._access, self._clock) as api:
                query = {"labelSelector": f"{PULSE_LABEL}={pulse_id}"}
                for job in (await api.call("GET", self._access.path("jobs"), query=query)).get("items", []):
                    metadata = job["metadata"]
                    if int(metadata["labels"].get(EPOCH_LABEL, below_epoch)) < below_epoch:
                        async with self._pods.open(metadata["name"]):
                            await self._delete(api, metadata["name"])
        except (ApiRefused, ApiUnreachable) as error:
            raise LaunchFailed(f"cannot end the Job of an earlier attempt: {error}") from error
        except TimeoutError as error:
            raise LaunchFailed(
                "the pod of an earlier attempt does not end; look at its node, and delete the pod by force"
            ) from error

    @asynccontextmanager
    async def _job(self, api: KubernetesApi, job: Mapping[str, Any]) -> AsyncGenerator[str]:
        """Create the Job, yield its uid, and delete it. A Job that an unanswered request created is taken over."""
        path, name = self._access.path("jobs"), job["metadata"]["name"]
        is_ours = True
        try:
            try:
                present = await api.call("POST", path, body=job)
            except ApiRefused as error:
                if error.status != _CONFLICT:
                    raise
                present = await api.call("GET", f"{path}/{name}")
                labels: Mapping[str, str] = present["metadata"].get("labels", {})
                is_ours = all(labels.get(key) == job["metadata"]["labels"][key] for key in (PULSE_LABEL, EPOCH_LABEL))
                if not is_ours:
                    raise LaunchFailed(f"there is another Job named {name!r}; delete it") from error
            yield present["metadata"]["uid"]
        finally:
            if is_ours:
                await run_shielded(self._remove(api, name))

    async def _create_secret(self, api: KubernetesApi, secret: Mapping[str, Any]) -> None:
        try:
            await api.call("POST", self._access.path("secrets"), body=secret)
        except ApiRefused as error:
            if error.status != _CONFLICT or not error.is_repeat:  # else an unanswered request created it
                raise

    async def _wait_for_start(self, name: str) -> None:
        """Return once the agent runs or has run. Raises LaunchFailed if it certainly does not."""
        pod: PodState | None = None

        def is_decided(present: PodState | None) -> bool:
            nonlocal pod
            pod = present
            return pod is not None and (pod.is_running or pod.has_ended or pod.reason in _NEVER_STARTS)

        try:
            async with asyncio.timeout(self._settings.start_timeout_seconds):
                await self._pods.wait_for(name, is_decided)
        except TimeoutError:
            why = pod.explain() if pod else f"the cluster has created no pod; `kubectl describe job {name}` says why"
            raise LaunchFailed(
                f"its pod has not started within {self._settings.start_timeout_seconds:g} s: {why}"
            ) from None
        if pod is not None and pod.reason in (*_NEVER_STARTS, *_NOT_STARTED):
            raise LaunchFailed(f"{self._settings.image!r} cannot be started: {pod.explain()}")

    async def _describe_end(self, api: KubernetesApi, name: str, pod: PodState | None, launch: Launch) -> LaunchResult:
        status, message = (pod.exit_status, pod.message) if pod else (None, "")
        if status == 0:
            return LaunchResult(succeeded=True, detail=self._redact(message, launch))
        how = "it ended without an exit status" if status is None else f"exit status {status}"
        if pod is not None and pod.reason == _OUT_OF_MEMORY:
            how += f", out of its {self._settings.memory_mebibytes} MiB of memory ({_OUT_OF_MEMORY})"
        elif pod is not None and pod.reason not in ("", "Error"):
            how += f" ({pod.reason})"
        if pod is not None and pod.is_deleted:
            how += f"; {await self._find_reason_of_deletion(api, name)}"
        text = f"{how}; its last output:\n{message}" if message else how
        return LaunchResult(succeeded=False, detail=self._redact(text, launch))

    async def _find_reason_of_deletion(self, api: KubernetesApi, name: str) -> str:
        try:
            job = await api.call("GET", f"{self._access.path('jobs')}/{name}")
        except (ApiRefused, ApiUnreachable) as error:
            is_gone = isinstance(error, ApiRefused) and error.status == _NOT_FOUND
            return "its Job was deleted" if is_gone else "its pod was deleted"
        failures = [
            f"{condition.get('reason')}: {condition.get('message')}"
            for condition in job.get("status", {}).get("conditions", [])
            if condition.get("type") in ("Failed", "FailureTarget") and condition.get("status") == "True"
        ]
        return failures[0] if failures else "its pod was deleted"

    async def _remove(self, api: KubernetesApi, name: str) -> None:
        try:
            await self._delete(api, name)
        except (ApiRefused, ApiUnreachable) as error:
            _logger.error("job %s is left behind: %s", name, error)  # noqa: TRY400 - the API's words are enough
        except TimeoutError:
            _logger.error("job %s is left behind: its pod does not end; look at its node", name)  # noqa: TRY400

    async def _delete(self, api: KubernetesApi, name: str) -> None:
        """Delete the Job and its pod, and return once the agent has ended; raise TimeoutError if it does not.

        The cluster sends SIGTERM, kills what is left after the grace period, and deletes the Secret too.
        """
        try:
            await api.call(
                "DELETE", f"{self._access.path('jobs')}/{name}", body={"propagationPolicy": "Foreground"},
                patience_seconds=_REMOVAL_SECONDS,
            )  # fmt: skip
        except ApiRefused as error:
            if error.status != _NOT_FOUND:
                raise
        async with asyncio.timeout(self._settings.grace_seconds + _REMOVAL_SECONDS):
            await self._pods.wait_for(name, lambda pod: pod is None or pod.has_ended)

    def _redact(self, text: str, launch: Launch) -> str:
        return redact_tail(text, (launch.token, *self._secrets))
