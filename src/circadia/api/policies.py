"""An agent's policy in requests and answers."""

from dataclasses import asdict
from typing import Annotated, Final

from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt

from circadia.api.bodies import Body, FirstMistake, Name
from circadia.errors import InvalidRequest
from circadia.records.agent import AgentPolicy, OnWake
from circadia.records.answer import AnswerMode
from circadia.settings import PolicySettings
from circadia.settings.agents import ToolGroup

Reach = Annotated[tuple[Name, ...], FirstMistake()]
"""Names that a policy grants, or `*`."""

MOST_COUNTED: Final = 2**53
"""Largest whole number that every JSON reader reads exactly (RFC 8259, section 6)."""
MOST_MEASURED: Final = 10.0**9
"""Largest number of seconds or dollars."""


def _setting_description(key: str) -> str:
    """Return the description of the setting, which is the same key."""
    return PolicySettings.model_fields[key].description or ""


class PolicyKeys(BaseModel):
    """All keys of a policy."""

    upstreams: Reach = Field(("*",), description=_setting_description("upstreams"), examples=[["openai"]])
    mcp_servers: Reach = Field(("*",), description=_setting_description("mcp_servers"), examples=[["*"]])
    tools: Annotated[tuple[ToolGroup, ...], FirstMistake()] = Field(("*",), description=_setting_description("tools"))
    sessions: Reach = Field((), description=_setting_description("sessions"))
    may_wake: Reach = Field((), description=_setting_description("may_wake"), examples=[["writer"]])
    may_sleep: Reach = Field((), description=_setting_description("may_sleep"))
    models: Reach | None = Field(None, description=_setting_description("models"))
    max_calls_per_day: StrictInt | None = Field(
        None, ge=0, le=MOST_COUNTED, description=_setting_description("max_calls_per_day")
    )
    max_tokens_per_day: StrictInt | None = Field(
        None, ge=0, le=MOST_COUNTED, description=_setting_description("max_tokens_per_day")
    )
    max_usd_per_day: StrictFloat | None = Field(
        None, ge=0, le=MOST_MEASURED, description=_setting_description("max_usd_per_day")
    )
    on_wake: OnWake = Field(OnWake.NOTICE, description=_setting_description("on_wake"))
    include_usage: StrictBool = Field(True, description=_setting_description("include_usage"))
    hold_max_seconds: StrictFloat | None = Field(
        None, gt=0, le=MOST_MEASURED, description=_setting_description("hold_max_seconds")
    )
    hold_lists: StrictBool = Field(False, description=_setting_description("hold_lists"))
    abort_streams: StrictBool = Field(False, description=_setting_description("abort_streams"))
    bank: Name | None = Field(None, description=_setting_description("bank"), examples=["support-{user}"])
    write_banks: Reach = Field((), description=_setting_description("write_banks"))
    read_banks: Reach = Field((), description=_setting_description("read_banks"))
    multi_user: StrictBool = Field(False, description=_setting_description("multi_user"))
    capture: StrictBool = Field(True, description=_setting_description("capture"))
    inject: StrictBool = Field(True, description=_setting_description("inject"))
    stable_tokens: StrictInt = Field(2_000, ge=0, le=MOST_COUNTED, description=_setting_description("stable_tokens"))
    fitting_tokens: StrictInt = Field(1_000, ge=0, le=MOST_COUNTED, description=_setting_description("fitting_tokens"))
    answer_mode: AnswerMode = Field(AnswerMode.HINT, description=_setting_description("answer_mode"))
    sleeptime_agent: StrictBool = Field(False, description=_setting_description("sleeptime_agent"))


class PolicyBody(PolicyKeys, Body):
    """Policy keys. Missing keys come from the server's `defaults`; in a change, they stay unchanged."""

    def changes(self) -> dict[str, object]:
        """Return the policy keys of the request."""
        return {name: getattr(self, name) for name in PolicyKeys.model_fields if name in self.model_fields_set}


class BodyWithPolicy(PolicyBody):
    """A body that takes policy keys in `policy` or beside the other keys."""

    policy: PolicyBody | None = Field(None, description="Policy keys to set; null removes a limit.")

    def policy_changes(self) -> dict[str, object]:
        """Return the policy keys of the request.

        Raises:
            InvalidRequest: a key is in both places.
        """
        inside = self.policy.changes() if self.policy else {}
        beside = self.changes()
        if twice := sorted(inside.keys() & beside.keys()):
            raise InvalidRequest(f"{twice[0]!r} is in `policy` and beside it; send it once")
        return inside | beside


class PolicyView(PolicyKeys):
    """An agent's whole policy."""


def policy_view(policy: AgentPolicy) -> PolicyView:
    """Return the view of a policy; it was validated when it was stored."""
    return PolicyView.model_construct(**asdict(policy))
