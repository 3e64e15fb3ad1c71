"""An inbound webhook as a person defines it, and a delivery that it accepted (WAKE-82)."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from circadia.errors import InvalidRequest
from circadia.ids import MessageId, WakeId
from circadia.records.message import Priority
from circadia.records.named_event import require_event_name
from circadia.records.value_filter import build_filter
from circadia.records.variable_name import VariableName
from circadia.records.wake import WakeReason

MAX_HOOKS: Final = 1_000
"""Limit of hooks that are made over REST."""
MAX_DELIVERY_ID: Final = 200
"""Characters of a delivery's id."""
_HEADER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")


_NAME: Final = r"[a-z0-9][a-z0-9_-]{0,62}"
HookName = Annotated[str, Field(pattern=f"^{_NAME}$")]


def require_hook_name(name: str) -> str:
    """Return the name of a hook. Raises InvalidRequest if it is none."""
    if not re.fullmatch(_NAME, name):
        raise InvalidRequest(f"hook name {name!r} must match {_NAME}")
    return name


class SignatureScheme(StrEnum):
    """Whose rules a signature follows."""

    GITHUB = "github"
    SLACK = "slack"
    STRIPE = "stripe"
    STANDARD = "standard"
    HMAC = "hmac"


def _require_header(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise ValueError(f"{name!r} is no header's name")
    return name.lower()


def _require_filter(document: dict[str, Any]) -> dict[str, Any]:
    try:
        build_filter(document)
    except InvalidRequest as error:
        raise ValueError(error.message) from error
    wrong = next((key for key in document if not key.startswith(("body.", "headers."))), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} names nothing; a key begins with `body.` or `headers.`")
    return document


HeaderName = Annotated[str, AfterValidator(_require_header)]


class HmacKeys(BaseModel):
    """How a sender signs that follows none of the known schemes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    header: HeaderName = Field("x-signature", description="Header with the signature.")
    prefix: str = Field("", max_length=50, description="Text before the signature in its header, such as `sha256=`.")
    algorithm: Literal["sha256", "sha512"] = Field("sha256", description="Hash of the HMAC.")
    encoding: Literal["hex", "base64"] = Field("hex", description="How the signature is written.")
    timestamp_header: HeaderName | None = Field(
        None,
        description="Header with the seconds since 1970. The signature is then over `{time}.{body}`, and the replay "
        "window holds; else over the body.",
    )
    id_header: HeaderName | None = Field(
        None, description="Header with the delivery's id; by default the hash of what is signed is the id."
    )


class HookKeys(BaseModel):
    """What a person defines of a hook."""

    model_config = ConfigDict(frozen=True)

    agent: str | None = Field(
        None, min_length=1, max_length=200, description="Agent that gets the message: `name` or `session:name`."
    )
    event: str | None = Field(
        None,
        max_length=100,
        description="Named event that each delivery is, for agents that wait for it; its data is the body. A hook has "
        "`agent`, `event` or both.",
    )
    signature: SignatureScheme = Field(
        description="How the sender signs: `github`, `slack`, `stripe`, `standard` (Standard Webhooks, as OpenAI and "
        "Anthropic sign), or `hmac`."
    )
    secret_env: VariableName = Field(description="Environment variable with the secret that the sender signs with.")
    previous_secret_env: VariableName | None = Field(
        None, description="Environment variable with an older secret that still counts, during a rotation."
    )
    hmac: HmacKeys = Field(HmacKeys.model_validate({}), description="For `signature: hmac`: how the sender signs.")
    wake: WakeReason | None = Field(
        None, description="Reason of a wake request, under the agent's guardrails; without it, only a message is sent."
    )
    priority: Priority = Field(Priority.NORMAL, description="Priority of the message; with `wake` it is `urgent`.")
    filter: Annotated[dict[str, Any], AfterValidator(_require_filter)] = Field(
        default_factory=dict[str, Any],
        description='Conditions of a delivery, such as `{"body.action": ["opened", "reopened"], '
        '"headers.x-github-event": "issues"}`; what does not meet them is dropped.',
    )
    template: str | None = Field(
        None,
        max_length=4_000,
        description="Text of the message, with values of the delivery such as `{body.issue.html_url}`; by default the "
        "whole body.",
    )
    tolerance_seconds: int = Field(
        300, ge=1, le=3_600, description="Maximum difference between the delivery's time and the server's clock."
    )
    enabled: bool = Field(True, description="Whether deliveries are accepted; while it is off, they get 404.")
    description: str = Field("", max_length=4_000, description="Purpose of the hook.")

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.agent is None and self.event is None:
            raise ValueError("a hook has `agent`, which gets a message, or `event`, or both")
        if self.event is not None:
            try:
                require_event_name(self.event)
            except InvalidRequest as error:
                raise ValueError(error.message) from error
        return self


class HookSpec(HookKeys):
    """A hook as a person defines it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    name: str
    spec: HookSpec
    in_file: bool
    """Whether the configuration file defines it, so that REST does not change it."""
    created_at: datetime | None = None
    created_by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HookDelivery:
    """A delivery that was accepted; its row commits with its message."""

    hook: str
    delivery_id: str
    """The sender's id, which two deliveries of one event share."""
    digest: str
    """Hash of what the sender signed, which a replay shares."""
    at: datetime
    message_id: MessageId | None = None
    wake_id: WakeId | None = None


class HookOutcome(StrEnum):
    """What became of a request to a hook."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    FILTERED = "filtered"
    ANSWERED = "answered"
    """The sender's check of the address."""
    REFUSED = "refused"
    """Forged, late, malformed, too large, or to no agent."""
    FAILED = "failed"
    """The server lacks the hook's secret, or failed."""
