"""Held calls in answers."""

from datetime import datetime

from pydantic import Field

from circadia.schemas.view import View


class HeldCall(View):
    """A held call."""

    id: str = Field(description="Unique id.", examples=["hold_0cwd…"])
    agent: str = Field(description="Name of the agent.", examples=["writer"])
    session: str = Field(description="Name of the session.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    door: str = Field(description="`model` or `mcp`.", examples=["model"])
    what: str = Field(description="Called endpoint or tool.", examples=["POST /v1/chat/completions", "tools/call echo"])
    since: datetime = Field(description="Time of arrival.")
    waited_seconds: float = Field(description="Time held so far.")
    phase: str = Field(description="`silent`, or `opened` after a 200 and keep-alive signals.", examples=["silent"])
    bytes: int = Field(description="Size of the body.")


class HoldList(View):
    """The held calls."""

    holds: list[HeldCall] = Field(description="Longest hold first, at most `limit`.")
    total: int = Field(description="Total number of held calls.")
