"""Sessions, their threads and messages, in answers."""

from datetime import datetime

from pydantic import AliasChoices, Field

from circadia.records.session import SessionStatus
from circadia.records.thread import ThreadStatus
from circadia.schemas.agents import AgentCreated, AgentView
from circadia.schemas.view import View


class ThreadView(View):
    """A thread and its participants."""

    id: str = Field(description="Unique id.", examples=["thr_0cwd…"])
    name: str = Field(description="Name; need not be unique.", examples=["release notes"])
    session: str = Field(description="Name of the session.", examples=["default"])
    status: ThreadStatus = Field(description="`open` or `closed`; a closed one stays closed.")
    participants: list[str] = Field(description="Names of the current participants.")
    created_by: str = Field(description="Reference of its creator, or `operator`.")
    created_at: datetime = Field(description="Time of opening.")
    closed_at: datetime | None = Field(description="Time of closing.")
    summary: str | None = Field(description="Summary from whoever closed it.")


class ThreadList(View):
    """Threads of a session."""

    threads: list[ThreadView] = Field(description="Sorted by age, oldest first.")
    next: str | None = Field(None, description="`after` of the next page; null in the last one.")


class MessageView(View):
    """An accepted message."""

    id: str = Field(description="Unique id.", examples=["msg_0cwd…"])
    number: int = Field(description="Ascending number in the order of acceptance.")
    thread: str = Field(
        validation_alias=AliasChoices("thread", "thread_id"), description="Id of the thread.", examples=["thr_0cwd…"]
    )
    sender: str = Field(
        validation_alias=AliasChoices("from", "sender"),
        serialization_alias="from",
        description="Speaker.",
        examples=["user"],
    )
    content: str = Field(description="Text.")
    mentions: list[str] = Field(description="References of the mentioned agents.")
    at: datetime = Field(description="Time of acceptance.")


class MessageList(View):
    """Messages of a thread."""

    messages: list[MessageView] = Field(description="Messages in the order of acceptance.")
    after: int = Field(description="Value of `after` for the next messages.")


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
