"""Threads of a session in answers."""

from datetime import datetime

from pydantic import Field

from circadia.records.thread import ThreadStatus
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
