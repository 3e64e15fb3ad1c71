"""Totals of model calls in answers."""

from typing import Literal

from pydantic import Field

from circadia.schemas.view import View

GroupBy = Literal["agent", "model", "tier", "session", "upstream", "end_user", "conversation", "day"]


class UsageLine(View):
    """Totals over model calls. Token totals exclude calls without reported usage."""

    calls: int = Field(description="Number of calls.")
    unknown: int = Field(description="Calls whose usage the provider did not report.")
    failed: int = Field(description="Calls that failed.")
    input_tokens: int = Field(description="Input tokens, including cached ones.")
    output_tokens: int = Field(description="Output tokens, including reasoning.")
    cached_tokens: int = Field(description="Input tokens from the provider's cache.")
    reasoning_tokens: int = Field(description="Output tokens for reasoning.")
    cost_usd: float = Field(description="US dollars at list prices, for calls with a known price.")
    unpriced: int = Field(description="Calls without a known price.")
    held_seconds: float = Field(description="Total time held.")


class GroupUsage(UsageLine):
    """Totals of one group."""

    key: str = Field(description="`keys` in one text, separated by a comma.")
    keys: list[str] = Field(
        description="Agent reference, model, day …, for each grouping; empty if a call has none.", examples=[["hot"]]
    )


class UsageReport(View):
    """Totals of model calls by group."""

    group_by: str = Field(description="One or two groupings, as in the request.", examples=["day,tier"])
    usage: list[GroupUsage] = Field(description="A page, sorted by keys.")
    total: UsageLine = Field(description="Totals over all calls of the report, those of other pages included.")
    next: str | None = Field(None, description="`after` of the next page; null in the last one.")
