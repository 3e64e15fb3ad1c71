"""Sessions in answers."""

from datetime import datetime

from pydantic import Field

from circadia.records.session import SessionStatus
from circadia.schemas.agents import AgentCreated, AgentView
from circadia.schemas.threads import ThreadView
from circadia.schemas.view import View


class SessionView(View):
    """A session."""

    id: str = Field(description="Unique id.", examples=["ses_0cwd…"])
    name: str = Field(description="Name, unique among open sessions.", examples=["release-7"])
    status: SessionStatus = Field(description="`open` or `closed`; a closed one stays closed.")
    created_at: datetime = Field(description="Time of creation.")
    closed_at: datetime | None = Field(description="Time of closing.")
    touched_at: datetime = Field(description="Time of the last activity.")
    stalled: bool = Field(description="Whether all agents sleep and nobody has acted for `stall_seconds`.")


class SessionDetail(SessionView):
    """A session with its agents."""

    agents: list[AgentView] = Field(description="The first ones, sorted by name.")
    next: str | None = Field(
        None, description="`after` of the next page of `GET /sessions/{session}/agents`; null if all agents are here."
    )


class SessionCreated(SessionView):
    """A new session with its graph and the agents' tokens."""

    agents: list[AgentCreated] = Field(description="Agents in the order of the request, with their tokens.")
    threads: list[ThreadView] = Field(description="Threads in the order of the request.")
    warnings: list[str] = Field(description="Ways in which agents can fall asleep and never wake.")


class SessionList(View):
    """Sessions."""

    sessions: list[SessionView] = Field(description="Sorted by age, oldest first.")
    next: str | None = Field(None, description="`after` of the next page; null in the last one.")
