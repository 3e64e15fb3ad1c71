"""Section `launchers`: ways to start an agent for a pulse, one model per kind."""

import re
from ipaddress import ip_network
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator, model_validator

from circadia.records.variable_name import VariableName
from circadia.settings.section import USER_DESCRIPTION, OsUserName, Section, show_value

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

_OWN_POD_FIELDS: Final = {
    "restartPolicy", "terminationGracePeriodSeconds", "serviceAccountName", "automountServiceAccountToken",
    "securityContext", "containers", "volumes",
}  # fmt: skip


class ResidentLauncherSettings(Section):
    kind: Literal["resident"] = Field("resident", description="The program always runs; a pulse opens its gate.")


class SubprocessLauncherSettings(Section):
    kind: Literal["subprocess"] = Field(description="A pulse starts a program on this machine.")
    command: tuple[str, ...] = Field(min_length=1, description="Program and arguments; run without a shell.")
    env: dict[str, str] = Field(
        default_factory=dict,
        description="Environment of the program, besides PATH, HOME, LANG and the variables of its pulse.",
    )
    env_from: tuple[VariableName, ...] = Field((), description="Variables to pass on from the server's environment.")
    cwd: str | None = Field(None, description="Working directory; by default the server's.")
    user: OsUserName | None = Field(None, description=USER_DESCRIPTION)
    prompt: Literal["stdin", "file"] = Field(
        "stdin",
        description="How the program receives the prompt: on standard input, or in a temporary file that "
        "`CIRCADIA_PROMPT_FILE` names. With `user`, standard input only.",
    )
    grace_seconds: float = Field(10.0, ge=0, description="Time between SIGTERM and the kill of all its processes.")

    @model_validator(mode="after")
    def _prompt_can_be_read(self) -> "SubprocessLauncherSettings":
        if self.user is not None and self.prompt == "file":
            raise ValueError("a program with a `user` of its own cannot read the server's files; use `prompt: stdin`")
        return self


class ContainerLauncherSettings(Section):
    kind: Literal["container"] = Field(description="A pulse starts a container at a Docker or Podman engine.")
    image: str = Field(min_length=1, description="Image to run.")
    command: tuple[str, ...] = Field((), description="Arguments that replace the image's command.")
    engine: str = Field(
        "unix:///var/run/docker.sock",
        description="Address of the engine's API: `unix:///path` or `tcp://host:port`. Podman's is "
        "`unix:///run/podman/podman.sock`.",
    )
    pull: Literal["never", "missing"] = Field("never", description="`missing` pulls an image that is not there.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment of the container, besides the variables of its pulse."
    )
    env_from: tuple[VariableName, ...] = Field((), description="Variables to pass on from the server's environment.")
    prompt: Literal["stdin", "env"] = Field(
        "stdin",
        description="How the container receives the prompt: on standard input, or in `CIRCADIA_PROMPT` (up to 96 KiB).",
    )
    network: str = Field(
        "none",
        description="Network of the container. With `none` it reaches only the gateway, through the socket in "
        "`CIRCADIA_GATEWAY_SOCKET`. You restrict any other network yourself.",
    )
    mounts: tuple[str, ...] = Field(
        (), description="Folders and files to mount, as `/here:/there` (read-only) or `/here:/there:rw`."
    )
    user: str = Field("65532:65532", min_length=1, description="User and group of the container's process.")
    memory_mebibytes: int = Field(512, ge=16, description="Memory limit, without swap.")
    cpus: float = Field(1.0, gt=0, description="Processor limit, in cores.")
    pids: int = Field(256, ge=1, description="Maximum number of processes and threads.")
    tmp_mebibytes: int = Field(64, ge=1, description="Size of /tmp; the rest of the root file system is read-only.")
    init: bool = Field(
        True,
        description="Run an init process that forwards signals and reaps processes; Podman needs `catatonit` for it.",
    )
    grace_seconds: float = Field(10.0, ge=0, description="Time between the stop request and the kill.")

    @field_validator("engine")
    @classmethod
    def _address(cls, value: str) -> str:
        if not re.fullmatch(r"unix:///.+|tcp://[^/]+:\d+", value):
            raise ValueError(f"must be unix:///path or tcp://host:port, got {show_value(value)}")
        return value

    @field_validator("mounts")
    @classmethod
    def _absolute(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for mount in value:
            if not re.fullmatch(r"/[^:]*:/[^:]*(:(ro|rw))?", mount):
                raise ValueError(f"must be /here:/there or /here:/there:rw, got {show_value(mount)}")
        return value


class WebhookLauncherSettings(Section):
    kind: Literal["webhook"] = Field(description="A pulse is a signed request to a program that runs elsewhere.")
    url: str = Field(description="URL to post to: https, or http for an address in `allowed_networks`.")
    secret_env: VariableName = Field(
        description="Environment variable with the secret: `whsec_` and base64 of 24 to 64 bytes."
    )
    allowed_networks: tuple[str, ...] = Field((), description="Private networks to allow, such as `10.1.0.0/16`.")
    connect_timeout_seconds: float = Field(10.0, gt=0, description="Longest wait for a connection.")
    answer_timeout_seconds: float | None = Field(
        None, gt=0, description="Longest wait for the answer; by default until the pulse times out."
    )
    retries: int = Field(3, ge=0, le=10, description="Number of retries if the request cannot have run.")
    retry_max_seconds: float = Field(30.0, ge=0, description="Longest `Retry-After` to wait for.")
    grace_seconds: float = Field(10.0, gt=0, description="Longest wait for the answer to a stop request.")
    resumes: bool = Field(
        False,
        description="The program may suspend a run; the agent's next wake, or attempt, is a `pulse.resume` of the same "
        "pulse.",
    )

    @field_validator("url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        if not re.match(r"https?://[^/@?#]+([/?#]|$)", value):
            raise ValueError(f"must be an http or https address without a user in it, got {show_value(value)}")
        return value

    @field_validator("allowed_networks")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ip_network(network)
        return value


class KubernetesLauncherSettings(Section):
    kind: Literal["kubernetes"] = Field(description="A pulse is a Job of a Kubernetes cluster.")
    image: str = Field(min_length=1, description="Image to run.")
    command: tuple[str, ...] = Field((), description="Program and arguments that replace the image's entrypoint.")
    namespace: str | None = Field(None, description="Namespace of the Jobs; by default that of the server's pod.")
    service_account: str | None = Field(
        None, description="Service account of the agent's pod; without it, the pod gets no token of the cluster."
    )
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment of the agent, besides the variables of its pulse."
    )
    env_from: tuple[VariableName, ...] = Field((), description="Variables to pass on from the server's environment.")
    labels: dict[str, str] = Field(default_factory=dict, description="More labels of Job and pod.")
    pod: dict[str, Any] = Field(
        default_factory=dict, description="More fields of the pod's spec, such as `nodeSelector` or `tolerations`."
    )
    user: str = Field("65532:65532", pattern=r"^\d+:\d+$", description="User and group of the process, as numbers.")
    memory_mebibytes: int = Field(512, ge=16, description="Memory that is reserved, and the limit.")
    cpus: float = Field(1.0, gt=0, description="Processor time that is reserved, and the limit, in cores.")
    tmp_mebibytes: int = Field(64, ge=1, description="Size of /tmp; the rest of the root file system is read-only.")
    start_timeout_seconds: float = Field(
        300.0, gt=0, description="Longest wait until the pod runs; then the pulse fails, with the cluster's reason."
    )
    grace_seconds: float = Field(10.0, ge=0, description="Time between SIGTERM and the kill.")
    api_url: str | None = Field(
        None, description="URL of the cluster's API; by default the one in each pod's environment."
    )
    token_file: str | None = Field(
        None, description="File with the token for the API; by default that of the server's service account."
    )
    ca_file: str | None = Field(
        None, description="File with the certificates that sign the API's; by default beside the mounted token."
    )

    @field_validator("pod")
    @classmethod
    def _no_own_field(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(_OWN_POD_FIELDS & value.keys()):
            raise ValueError(f"{', '.join(taken)}: this launcher sets these fields itself; remove them")
        return value

    @field_validator("api_url")
    @classmethod
    def _secret_on_the_way(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"https://[^/@?#]+|http://(127\.0\.0\.1|localhost|\[::1\])[:/]", value):
            raise ValueError(
                f"must be an https address, or http to loopback, for the token's sake; got {show_value(value)}"
            )
        return value


class CallableLauncherSettings(Section):
    kind: Literal["callable"] = Field(description="A pulse calls an async function inside this server's process.")
    function: str = Field(description="The function, as `package.module:function`; imported when the server starts.")
    grace_seconds: float = Field(10.0, ge=0, description="Time between the cancellation and the forced end.")

    @field_validator("function")
    @classmethod
    def _module_and_function(cls, value: str) -> str:
        if not _FUNCTION.fullmatch(value):
            raise ValueError(f"must be package.module:function, got {show_value(value)}")
        return value


LauncherSettings = Annotated[
    ResidentLauncherSettings
    | SubprocessLauncherSettings
    | ContainerLauncherSettings
    | WebhookLauncherSettings
    | CallableLauncherSettings
    | KubernetesLauncherSettings,
    Field(discriminator="kind"),
]
