"""Model calls in answers: lines of the usage ledger, and calls that are held."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from circadia.schemas.view import View

CallState = Literal["held", "reserved", "done", "failed"]


class CallView(View):
    """A model call. Figures that are not known, or not yet, are null."""

    id: str = Field(description="Unique id; while it is held, that of the hold.", examples=["call_0cwd…"])
    at: datetime = Field(description="When it was let through; while it is held, when it arrived.")
    agent: str = Field(description="Name of the agent; of the bank for tier `sleep`.", examples=["writer"])
    session: str = Field(description="Name of the session; empty for tier `sleep`.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    tier: str = Field(
        description="`hot`, `ready` if a ready answer was served, or `sleep` for sleep-time work.", examples=["hot"]
    )
    upstream: str = Field(description="Name of the provider, or of the MCP server of a held call.", examples=["openai"])
    endpoint: str = Field(description="API of the call; what a held call asks for.", examples=["chat_completions"])
    model: str = Field(description="Name of the model; empty if a held call names none.", examples=["gpt-4o-mini"])
    status: CallState = Field(
        description="`held` by a gateway, `reserved` while it runs under a budget, `done` or `failed`."
    )
    http_status: int | None = Field(description="Status of the provider's answer.", examples=[200])
    streamed: bool = Field(description="Whether it asked for a stream.")
    input_tokens: int | None = Field(description="Input tokens, including cached ones.")
    output_tokens: int | None = Field(description="Output tokens, including reasoning.")
    cached_tokens: int | None = Field(description="Input tokens from the provider's cache.")
    reasoning_tokens: int | None = Field(description="Output tokens for reasoning.")
    cost_usd: float | None = Field(description="US dollars at list prices.")
    held_seconds: float = Field(description="Time held.")
    first_token_seconds: float | None = Field(description="Time until the first byte of the answer.")
    total_seconds: float | None = Field(description="Time until the end of the answer.")
    stop_reason: str | None = Field(description="Why the model stopped, in the provider's word.", examples=["stop"])
    retries: int = Field(description="How often the gateway sent it again.")
    lookup: str | None = Field(
        description="`hit`, `hint` or `miss` if a ready answer was looked up.", examples=["hint"]
    )
    answer: str | None = Field(description="Id of the ready answer that it got, or had as a hint.")
    conversation: str | None = Field(description="Id of its conversation.")
    end_user: str | None = Field(description="End user.")
    turn: bool = Field(description="Whether its last message came from the user.")


class CallList(View):
    """Model calls."""

    calls: list[CallView] = Field(description="Newest first; held ones longest first.")
    next: str | None = Field(
        None, description="`after` of the next page, also if few calls of this one met the filter; null in the last."
    )


class CallMemoryRow(View):
    """A row of memory that a call has shown its model."""

    bank: str = Field(description="Name of the bank; empty if it was removed.")
    kind: Literal["block", "note", "episode"] = Field(description="Kind of the row.")
    id: str | None = Field(description="Id of the note or episode, label of the block; null once it is forgotten.")
    version: int | None = Field(description="Version of a block, number of an episode's passage; null without one.")


class CallDetail(CallView):
    """A model call with what memory added to it, and its text where the settings keep that."""

    memory: list[CallMemoryRow] = Field(description="What memory added for its newest turn, as the model saw it.")
    request: str | None = Field(
        description="Beginning of the request as it was sent, without secrets of known forms; null if it is not kept."
    )
    response: str | None = Field(
        description="Beginning of the answer's text, or of the provider's error; null if it is not kept."
    )
    texts_are_kept: bool = Field(description="Whether `calls.keep_texts` is on at this server.")
