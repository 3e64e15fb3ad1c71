"""The Job of one attempt at a pulse, and the Secret with its prompt and token."""

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from circadia.ids import PulseId
from circadia.wake.launchers.base import Launch, LaunchFailed
from circadia.wake.launchers.environment import prompt_bytes, pulse_environment

PULSE_LABEL: Final = "circadia/pulse"
EPOCH_LABEL: Final = "circadia/epoch"
_AGENT_LABEL: Final = "circadia/agent"
CONTAINER: Final = "agent"
PROMPT_FILE: Final = "CIRCADIA_PROMPT_FILE"
_PROMPT_KEY: Final = "prompt.txt"
_PROMPT_FOLDER: Final = "/run/circadia"
_LONGEST_LABEL: Final = 63
_LARGEST_SECRET_BYTES: Final = 2**20
"""`MaxSecretSize` of Kubernetes."""
_TTL_SECONDS: Final = 3600
"""After so long the cluster deletes an ended Job that no server is left to delete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTemplate:
    """What all Jobs of a launcher share; the settings of the same names document it."""

    image: str
    command: Sequence[str]
    service_account: str | None
    labels: Mapping[str, str]
    pod: Mapping[str, Any]
    user: str
    memory_mebibytes: int
    cpus: float
    tmp_mebibytes: int
    grace_seconds: float


def job_name(pulse_id: PulseId, epoch: int) -> str:
    """Return the one name of an attempt's Job and Secret, so that a second creation is refused."""
    return f"circadia-{re.sub('[^a-z0-9]+', '-', pulse_id.lower())}-{epoch}"


def collect_secret_values(named: Mapping[str, str], launch: Launch) -> dict[str, bytes]:
    """Return the prompt and the environment. Raises LaunchFailed if they do not fit into one Secret."""
    environment = pulse_environment(named, launch)
    values = {name: value.encode("utf-8", "surrogateescape") for name, value in environment.items()}
    values[_PROMPT_KEY] = prompt_bytes(launch)
    size = sum(map(len, values.values()))
    if size > _LARGEST_SECRET_BYTES:
        raise LaunchFailed(f"prompt and environment have {size} bytes, and a Secret holds 1 MiB; send shorter messages")
    return values


def build_job(template: JobTemplate, launch: Launch, values: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the Job, which refers to the values in the Secret by their names."""
    name = job_name(launch.pulse_id, launch.epoch)
    metadata = {
        "labels": {
            **template.labels,
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
            "template": {"metadata": metadata, "spec": _pod_spec(template, name, values)},
        },
    }


def _pod_spec(template: JobTemplate, name: str, values: Mapping[str, bytes]) -> dict[str, Any]:
    user, group = map(int, template.user.split(":"))
    account = template.service_account
    resources = {"memory": f"{template.memory_mebibytes}Mi", "cpu": f"{template.cpus:g}"}
    variables = [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": variable}}}
        for variable in values
        if variable != _PROMPT_KEY
    ]
    prompt = {"secretName": name, "items": [{"key": _PROMPT_KEY, "path": _PROMPT_KEY}], "defaultMode": 0o440}
    return {
        **template.pod,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(template.grace_seconds),
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
                "image": template.image,
                **({"command": list(template.command)} if template.command else {}),
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
            {"name": "tmp", "emptyDir": {"sizeLimit": f"{template.tmp_mebibytes}Mi"}},
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
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:_LONGEST_LABEL].strip("_.-")
