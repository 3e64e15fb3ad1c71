"""Messages of a thread in answers."""

from datetime import datetime

from pydantic import AliasChoices, Field

from circadia.schemas.view import View


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
