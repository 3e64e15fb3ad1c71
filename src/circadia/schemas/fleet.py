"""The fleet at a glance, usage, held calls, servers, providers, and tokens of people, in answers."""

from datetime import date, datetime
from typing import Any, Final, Literal

from pydantic import AliasChoices, Field

from circadia.records.member import Role
from circadia.records.overview import ProblemKind
from circadia.records.principal import AccessRole
from circadia.records.wake import Decision
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


class MemberView(View):
    """A server process on the shared database."""

    id: str = Field(description="Unique id.", examples=["exe_0cwd…"])
    role: Role = Field(description="`gateway` serves calls, `worker` runs pulses and passes, `all` does both.")
    version: str = Field(description="Version of Circadia.")
    host: str = Field(description="Name of its machine.")
    address: str = Field(description="URL at which its own machine reaches it.")
    config_check: str | None = Field(
        description="Digits that are the same at servers with the same configuration; null before version 0.2."
    )
    started_at: datetime = Field(description="Time of its start.")
    lease_until: datetime = Field(description="It counts as dead from then on, unless it renews its lease.")
    connections: int = Field(description="Maximum number of its connections to PostgreSQL.")
    holds: int = Field(description="Calls that it holds.")
    running: int = Field(description="Pulses and passes that it runs.")
    leads: bool = Field(description="Whether it does the work that one process at a time does.")


class Cluster(View):
    """The live members."""

    members: list[MemberView] = Field(description="Oldest first; none on SQLite, where one process is all there is.")
    conflicts: list[str] = Field(
        description="What is wrong with them together, such as two servers with one name or different configurations."
    )


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
    approval: str | None = Field(
        None, description="Id of the approval that it waits for; null if it waits for its agent's wake."
    )


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


class UpstreamView(View):
    """A provider behind the gateway, and how the official SDKs reach it."""

    name: str = Field(description="Name in the configuration.", examples=["openai"])
    api: Literal["openai", "anthropic", "gemini"] = Field(description="API of the provider.")
    path: str = Field(description="Path at this server, to which SDKs add their own.", examples=["/llm/openai/v1"])
    url_variable: str = Field(
        description="Environment variable in which SDKs of this API read the base URL.", examples=["OPENAI_BASE_URL"]
    )
    key_variable: str = Field(
        description="Environment variable in which they read the key, here the agent's token.",
        examples=["OPENAI_API_KEY"],
    )


class UpstreamList(View):
    """The providers behind the gateway."""

    upstreams: list[UpstreamView] = Field(description="In the order of the configuration.")


class AlertRecordView(View):
    """An alert in the history."""

    id: str = Field(description="Unique id.", examples=["alr_0cwd…"])
    cause: str = Field(description="Cause, such as `circuit_open` or `dead_letter`.", examples=["budget"])
    session: str | None = Field(description="Session of the agent; null for the fleet.")
    agent: str | None = Field(description="Name of the agent; null for a session or the fleet.")
    at: datetime = Field(description="Time of the alert.")
    detail: dict[str, Any] = Field(description="Figures and reasons, by the cause.")
    acknowledged_at: datetime | None = Field(description="When a person acknowledged it; null if nobody has.")
    acknowledged_by: str | None = Field(description="Who acknowledged it.")


class AlertPage(View):
    """The history of alerts."""

    alerts: list[AlertRecordView] = Field(description="Newest first.")
    before: str | None = Field(description="Value of `before` for the next page; null at the end.")


class WaitingCountView(View):
    """How much waits for a person. Counts above 1,000 are 1,000."""

    approvals: int = Field(description="Calls to approve or refuse; list them with `GET /approvals?status=pending`.")
    proposals: int = Field(description="Changes of passes to accept or refuse; list them with `GET /proposals`.")
    dreams: int = Field(description="Dreams over folders to accept or refuse; list them with `GET /dreams?waits=true`.")
    dead_letters: int = Field(description="Dead letters of all agents; list them with `GET /messages`.")
    alerts: int = Field(description="Alerts that nobody has acknowledged; list them with `GET /alerts?open=true`.")


class AlertView(View):
    """The last alert for a cause and a subject."""

    cause: str = Field(description="Cause, such as `circuit_open` or `dead_letter`.", examples=["budget"])
    subject: str = Field(description="`session:agent`, as far as known; empty for the fleet.")
    at: datetime = Field(description="Time of the alert.")


class ProblemView(View):
    """Something that needs a person."""

    kind: ProblemKind = Field(description="What it is about.", examples=["budget"])
    text: str = Field(description="What it is, and what to do.")
    subject: str = Field(description="Agent, provider or bank; empty for the fleet.", examples=["support-bot"])
    figure: float | None = Field(description="How much it is.", examples=[408000])
    limit: float | None = Field(description="Limit of the figure, if it has one.", examples=[400000])
    unit: str = Field(description="What the figure counts.", examples=["tokens"])
    since: datetime | None = Field(description="Since when, if that is known.")
    act: str = Field(description="The act that helps, in words.", examples=["Raise it"])
    page: str = Field(description="Page of the dashboard where the act is.", examples=["/agents/support-bot"])


class OverviewView(View):
    """The fleet at a glance. A day is in UTC."""

    asleep: int = Field(description="Agents asleep.")
    awake: int = Field(description="Agents awake.")
    pulsing: int = Field(description="Agents with a pulse under way.")
    held: int = Field(description="Calls held, at all servers.")
    passes: int = Field(description="Passes that run or wait.")
    dead_letters: int = Field(description="Dead letters of all agents; list them with `GET /messages`.")
    usage_today: list[GroupUsage] = Field(description="Model calls of today, by tier: `hot` and `sleep`.")
    wakes_today: dict[Decision, int] = Field(description="Wake requests that were decided today, by decision.")
    served_today: int = Field(description="Calls answered from a ready answer today.")
    hints_today: int = Field(description="Calls that received a hint today.")
    misses_today: int = Field(description="Questions without a ready answer today.")
    saved_tokens_today: int = Field(description="Input tokens that sleep-time work spared hot calls today.")
    saved_usd_today: float = Field(description="Their price, where it is known.")
    saved_seconds_today: float = Field(description="Time that hot calls did not take today, where it is known.")
    alerts: list[AlertView] = Field(description="Alerts of the last 24 hours, newest first, up to 20.")
    problems: list[str] = Field(description="What is not well now, each with what to do; empty if all is well.")
    attention: list[ProblemView] = Field(description="The same, each with its figure, limit, time and act.")


class DaySavings(View):
    """An estimate of what a UTC day saved, in US dollars at list prices."""

    day: date = Field(description="The day.")
    held_seconds: float = Field(
        description="Time for which calls were held until their agents woke; of calls that have ended."
    )
    sleeping_usd: float = Field(
        description="Price of the calls that those agents would have made if they polled: one every `poll_seconds`, at "
        "the mean price of that day's calls of the same model."
    )
    memory_usd: float = Field(description="Price of the input that memory and ready answers spared.")
    dreaming_usd: float = Field(description="Cost of sleep-time work.")
    saved_usd: float = Field(description="`sleeping_usd` and `memory_usd`, less `dreaming_usd`.")


class SavingsReport(View):
    """An estimate of what sleeping and dreaming saved."""

    poll_seconds: int = Field(description="How often an agent that does not sleep is taken to ask.")
    days: list[DaySavings] = Field(description="Oldest first; the last one is today, so far.")
    mean_usd: float | None = Field(description="Mean of `saved_usd` over the days before today; null without any.")
    month_usd: float = Field(description="What 30 days such as today, so far, would save.")


ROLE: Final = "An `operator` may do everything; a `viewer` sees everything and changes nothing."


class AccessTokenView(View):
    """A token of a person, without the secret."""

    name: str = Field(description="The person who has it.", examples=["ann"])
    role: AccessRole = Field(description=ROLE)
    created_at: datetime = Field(description="Time of creation.")
    created_by: str = Field(description="Creator.", examples=["operator"])


class AccessTokenCreated(AccessTokenView):
    """A new token; no other answer has its secret."""

    token: str = Field(description="The secret, which is stored only as a hash.")


class AccessTokenList(View):
    """The tokens of people."""

    tokens: list[AccessTokenView] = Field(description="By name.")


class PrincipalLink(View):
    """A link that signs its caller in to the dashboard, once."""

    path: str = Field(description="Path at this server; it works once, within a minute.", examples=["/ui/enter?code=…"])


class PrincipalView(View):
    """The owner of the request's token."""

    name: str = Field(description="Name in events and rows.", examples=["operator/ann"])
    role: str = Field(description="`operator`, `viewer` or `agent`.", examples=["operator"])
