"""Held calls in answers."""

from datetime import datetime

from pydantic import AliasChoices, Field

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


class MemberHoldsView(View):
    """The number of calls of an agent that another server of the cluster holds."""

    agent: str = Field(description="Name of the agent.", examples=["writer"])
    session: str = Field(description="Name of the session.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    server: str = Field(
        validation_alias=AliasChoices("server", "member_id"), description="Id of the server.", examples=["exe_0cwd…"]
    )
    address: str = Field(description="URL at which the server's own machine reaches it.")
    holds: int = Field(description="Number of calls, as of the last second.")


class HoldList(View):
    """The held calls."""

    holds: list[HeldCall] = Field(description="Held by this server: longest hold first, at most `limit`.")
    total: int = Field(description="Number of all calls that this server holds.")
    elsewhere: list[MemberHoldsView] = Field(
        description="Held by other servers of the cluster: most calls first, at most `limit` rows."
    )
    total_elsewhere: int = Field(description="Number of all calls that other servers hold.")
