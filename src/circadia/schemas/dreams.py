"""Dreams over memory folders and banks, in answers; the shape follows Anthropic's `/v1/dreams` where that fits."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from circadia.records.dream_job import DreamJobStatus, DreamSource, ReviewKind
from circadia.schemas.view import View


class DreamPlaceView(View):
    """A memory folder or a bank."""

    type: DreamSource = Field(description="`folder` or `bank`.")
    name: str = Field(
        description="Name of the folder in section `dreams`, or of the bank. In `outputs`, a folder or branch that "
        "shows what is proposed.",
        examples=["app"],
    )


class DreamErrorView(View):
    """Why a dream failed."""

    message: str = Field(description="The reason, for people.")


class DreamUsageView(View):
    """What a dream has cost."""

    calls: int = Field(description="Model calls, including failed ones.")
    tokens: int = Field(description="Input and output tokens.")
    usd: float = Field(description="US dollars, at list prices.")


class DreamReviewView(View):
    """A decision on what a dream over a folder has proposed or written."""

    act: ReviewKind = Field(description="`accepted`, `refused` or `undone`.")
    by: str = Field(description="Who decided.", examples=["operator"])
    at: datetime = Field(description="When.")
    files: list[str] = Field(description="Paths in the folder; empty for all.")


class DreamView(View):
    """A dream over a memory folder or a bank."""

    id: str = Field(description="Unique id.", examples=["drm_019b76da8c3a4e1f9d20c7b5a8e6"])
    type: Literal["dream"] = Field(description="Always `dream`.")
    status: DreamJobStatus = Field(description="Status.")
    inputs: list[DreamPlaceView] = Field(description="What it reads.")
    outputs: list[DreamPlaceView] = Field(description="What it has made: a new bank, or a place that shows a proposal.")
    mode: str | None = Field(description="`propose`, `auto` or `dry-run`; null for a bank.")
    instructions: str = Field(description="Instructions from a person.")
    by: str = Field(description="Requester; `circadia` if it was due.", examples=["operator"])
    created_at: datetime = Field(description="Time of the request.")
    ended_at: datetime | None = Field(description="Time of the end.")
    error: DreamErrorView | None = Field(description="Why it failed.")
    usage: DreamUsageView = Field(description="Its cost.")
    summary: str = Field(description="What it did, in one line.")
    report: dict[str, Any] = Field(description="What it did, in numbers: entries, files, turns, or counts of a pass.")
    waits: bool = Field(description="Whether what it proposes waits for a person.")
    reviews: list[DreamReviewView] = Field(description="What people decided on it, the oldest first.")
    entry: str | None = Field(
        description="For a bank, the pass over the new one; for a folder, the entry in its history."
    )


class DreamList(View):
    """Dreams over folders and banks."""

    dreams: list[DreamView] = Field(description="Newest first.")
    before: str | None = Field(description="Value of `before` for the next page; null at the end.")


class DreamDiffView(View):
    """What a dream changed or proposes."""

    diff: str = Field(description="A unified diff of the files.")


class DreamRefusalView(View):
    """What was dropped of a proposal."""

    refused: int = Field(description="Number of changes.")


class DreamUndoView(View):
    """An undo of a dream."""

    undo: str = Field(description="Its id in the folder's history, by which it can be undone too.")
    files: dict[str, str] = Field(description="What became of each file.")
    left_out: list[str] = Field(description="What was not restored, and where an edit that was made meanwhile is kept.")


class DreamHistoryView(View):
    """A dream or an undo in the history of a folder, whoever began it."""

    id: str = Field(description="Id in the folder's history.")
    created_at: datetime = Field(description="Time.")
    title: str = Field(description="What it did.")
    undoes: str | None = Field(description="The dream that it undid.")
    published: list[str] = Field(description="Files that it has changed.")
    proposed: list[str] = Field(description="Files that wait for a person.")
    commit: str | None = Field(description="The git commit that has the contents.")


class MemoryFolderDetail(View):
    """A memory folder: its history, and what its next dream waits for."""

    name: str = Field(description="Name in section `dreams`.", examples=["app"])
    mode: str = Field(description="Mode of dreams that state none.")
    files: int = Field(description="Number of Markdown files.")
    entries: int = Field(description="Number of entries.")
    dreamed_at: datetime | None = Field(description="End of the last dream that did not fail.")
    next_dream: str = Field(description="What the next dream waits for; empty if one is due.")
    waiting: str | None = Field(description="The entry of its history that waits for a person.")
    sessions: int = Field(description="Sessions that the next dream will read.")
    excluded: dict[str, int] = Field(description="Numbers of other new sessions, by the reason.")
    tokens: int = Field(description="About how many tokens the next dream takes.")
    usd: float | None = Field(description="About what that costs; null if no price is known.")
    model: str = Field(description="The model; empty without one.")
    failures: int = Field(description="Failed dreams in a row.")
    trouble: str = Field(description="Why the last dream failed.")
    findings: list[str] = Field(description="What the check of the folder has found.")
    history: list[DreamHistoryView] = Field(description="Dreams and undos, newest first.")


class MemoryFolderList(View):
    """The memory folders of a server."""

    folders: list[str] = Field(description="Names in section `dreams`.", examples=[["app"]])
