"""The sleep state of an agent in answers."""

from datetime import datetime

from pydantic import AliasChoices, Field

from circadia.records.agent import Cause
from circadia.schemas.view import View


class SleepingView(View):
    """An agent's sleep state."""

    sleeping: bool = Field(
        validation_alias=AliasChoices("sleeping", "asleep"), description="Whether the agent is asleep."
    )
    since: datetime = Field(description="When the sleep state last changed.")
    cause: Cause = Field(description="Interface of the last change.")
    actor: str = Field(description="Who made the last change.", examples=["operator"])
    generation: int = Field(description="Number of changes so far.")
    held: int = Field(description="Number of its held calls.")
    unconfirmed: list[str] = Field(
        default=[],
        description=(
            "Ids of gateways that have not confirmed within 100 ms that it sleeps; they may send its calls for up to "
            "a second more. Empty for GET."
        ),
    )
    agent: str = Field(validation_alias=AliasChoices("agent", "name"), description="Name.", examples=["writer"])
    session: str = Field(description="Name of the session.", examples=["default"])
    pulse: str | None = Field(
        None, description="After a wake, the pulse of an agent with a launcher: it starts soon, or runs already."
    )
    unread: list[str] = Field(
        default=[],
        description="After somebody else put it to sleep: ids of mentions that it has not seen. They do not wake it.",
    )


class SleepingList(View):
    """The sleep states after the change."""

    agents: list[SleepingView] = Field(description="Sleep states in the order of the request.")
