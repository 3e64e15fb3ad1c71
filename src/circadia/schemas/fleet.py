"""The fleet at a glance, and the tokens of people, in answers."""

from datetime import datetime
from typing import Final

from pydantic import Field

from circadia.records.access_token import AccessRole
from circadia.records.wake import Decision
from circadia.schemas.usage import GroupUsage
from circadia.schemas.view import View


class AlertView(View):
    """The last alert for a cause and a subject."""

    cause: str = Field(description="Cause, such as `circuit_open` or `dead_letter`.", examples=["budget"])
    subject: str = Field(description="`session:agent`, as far as known; empty for the fleet.")
    at: datetime = Field(description="Time of the alert.")


class OverviewView(View):
    """The fleet at a glance. A day is in UTC."""

    asleep: int = Field(description="Agents asleep.")
    awake: int = Field(description="Agents awake.")
    pulsing: int = Field(description="Agents with a pulse under way.")
    held: int = Field(description="Calls held, at all servers.")
    passes: int = Field(description="Passes that run or wait.")
    dead_letters: int = Field(description="Dead letters of all agents; list them with `GET /messages`.")
    usage_today: list[GroupUsage] = Field(description="Model calls of today, by tier: `hot` and `sleep`.")
    wakes_today: dict[Decision, int] = Field(description="Wake requests that were decided today, by decision.")
    served_today: int = Field(description="Calls answered from a ready answer today.")
    hints_today: int = Field(description="Calls that received a hint today.")
    misses_today: int = Field(description="Questions without a ready answer today.")
    saved_tokens_today: int = Field(description="Input tokens that sleep-time work spared hot calls today.")
    saved_usd_today: float = Field(description="Their price, where it is known.")
    saved_seconds_today: float = Field(description="Time that hot calls did not take today, where it is known.")
    alerts: list[AlertView] = Field(description="Alerts of the last 24 hours, newest first, up to 20.")
    problems: list[str] = Field(description="What is not well now, each with what to do; empty if all is well.")


ROLE: Final = "An `operator` may do everything; a `viewer` sees everything and changes nothing."


class AccessTokenView(View):
    """A token of a person, without the secret."""

    name: str = Field(description="The person who has it.", examples=["ann"])
    role: AccessRole = Field(description=ROLE)
    created_at: datetime = Field(description="Time of creation.")
    created_by: str = Field(description="Creator.", examples=["operator"])


class AccessTokenCreated(AccessTokenView):
    """A new token; no other answer has its secret."""

    token: str = Field(description="The secret, which is stored only as a hash.")


class AccessTokenList(View):
    """The tokens of people."""

    tokens: list[AccessTokenView] = Field(description="By name.")


class PrincipalLink(View):
    """A link that signs its caller in to the dashboard, once."""

    path: str = Field(description="Path at this server; it works once, within a minute.", examples=["/ui/enter?code=…"])


class PrincipalView(View):
    """The owner of the request's token."""

    name: str = Field(description="Name in events and rows.", examples=["operator/ann"])
    role: str = Field(description="`operator`, `viewer` or `agent`.", examples=["operator"])
