"""Chains of wakes, pulses and messages in answers."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from circadia.schemas.usage import UsageLine
from circadia.schemas.view import View


class ChainNode(View):
    """A wake, pulse or message in a chain."""

    kind: Literal["message", "wake", "pulse"] = Field(description="Kind of node.")
    id: str = Field(description="Id of the wake, pulse or message.", examples=["wak_0cwd…"])
    at: datetime = Field(description="Time of creation.")
    agent: str = Field(
        description="Agent of the wake or pulse, or author of the message.", examples=["writer"]
    )  # fmt: skip
    by: str = Field(description="Who caused it.", examples=["lead"])
    state: str = Field(description="Decision of a wake, or status of a pulse; empty for a message.")
    detail: str = Field(description="Explanation; for a message, the start of its text.")
    depth: int = Field(description="Number of wakes since the root.")
    parent: str | None = Field(description="Id of the cause; null without a cause in the chain.")
    usage: UsageLine | None = Field(
        default=None, description="Model calls of a pulse; null for others, and for a pulse without a stored call."
    )


class Chain(View):
    """A chain."""

    root: str = Field(description="Id of the first wake, pulse or message.", examples=["msg_0cwd…"])
    wakes: int = Field(description="Number of wake requests.")
    pulses: int = Field(description="Number of pulses.")
    messages: int = Field(description="Number of messages.")
    depth: int = Field(description="Maximum depth.")
    usage: UsageLine = Field(description="Model calls of all its pulses.")
    nodes: list[ChainNode] = Field(
        description="Tree in depth-first order. A message leads to its wake, a wake to its pulse, and a pulse to its "
        "agent's messages and wake requests."
    )
