"""`circadia approvals`: calls that wait for a person."""

from typing import Annotated

import typer
from rich.text import Text

from circadia.cli.arguments import Limit, Session, full_reference
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    Output,
    display_text,
    dollars,
    list_output,
    local_time,
    note,
    shorten,
    time_since,
)
from circadia.clock import SystemClock
from circadia.records.approval import ApprovalStatus
from circadia.schemas.approvals import ApprovalView

app = typer.Typer(cls=NounGroup)

_LETTERS = 60
_COLOURS = {"pending": "yellow", "approved": "green", "used": "green", "refused": "red", "expired": "red"}

Approval = Annotated[str, typer.Argument(metavar="APPROVAL", help="Approval ID.")]


@app.callback(epilog="Example: circadia approvals --agent writer")
def approvals(
    server: RemoteServer,
    status: Annotated[ApprovalStatus | None, typer.Option("--status", help="Only with this status.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also those that are decided; else pending ones only.")] = False,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Only calls of this agent.")] = None,
    limit: Limit = 50,
    session: Session = None,
) -> Output:
    """List the calls that wait for a person's approval, newest first."""
    target = None if agent is None else full_reference(agent, session)
    wanted = status.value if status is not None else None if every else ApprovalStatus.PENDING.value
    page = server.list_pages(
        lambda client, place, count: client.list_approvals(status=wanted, agent=target, before=place, limit=count),
        "approvals",
        limit=limit,
    )
    columns = ("approval", "age", "agent", "for", "call", "rule", "max usd", "status", "expires", "preview")
    nothing = "no call waits for approval" if wanted == ApprovalStatus.PENDING.value else "no approval"
    return list_output(page, page.approvals, columns, _row, nothing=nothing, more=page.before is not None)


@app.command(epilog="Example: circadia approvals show apr_0cwd4f7k2m")
def show(server: RemoteServer, approval: Approval) -> Output:
    """Show a call that needs approval: its arguments or question, without secrets."""
    return Output(server.ask(lambda client: client.show_approval(approval)), _show)


@app.command(epilog="Example: circadia approvals approve apr_0cwd4f7k2m")
def approve(
    server: RemoteServer,
    approval: Approval,
    reason: Annotated[str, typer.Option("--reason", metavar="WHY", help="Reason, for the record.")] = "",
) -> Output:
    """Let a call pass, once."""
    decided = server.ask(lambda client: client.approve_call(approval, reason))
    return Output(decided, f"approved {decided.what} of {decided.reference}")


@app.command(epilog="Example: circadia approvals refuse apr_0cwd4f7k2m --reason 'after the release'")
def refuse(
    server: RemoteServer,
    approval: Approval,
    reason: Annotated[str, typer.Option("--reason", metavar="WHY", help="Reason, which the agent gets.")],
) -> Output:
    """Refuse a call. Its agent gets the reason as an error."""
    decided = server.ask(lambda client: client.refuse_call(approval, reason))
    return Output(decided, f"refused {decided.what} of {decided.reference}")


def _row(approval: ApprovalView) -> tuple[object, ...]:
    return (
        approval.id,
        time_since(approval.requested_at, SystemClock().now()),
        approval.reference,
        approval.target,
        approval.what,
        approval.rule,
        "" if approval.max_usd is None else dollars(approval.max_usd),
        Text(approval.status, _COLOURS.get(approval.status, "")),
        local_time(approval.expires_at),
        shorten(approval.preview, _LETTERS),
    )


def _show(approval: ApprovalView) -> None:
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    typer.echo(display_text(f"{approval.reference}: {approval.what} at {approval.target} ({approval.rule})"))
    note(f"{approval.status}{by}; asked {local_time(approval.requested_at)}, until {local_time(approval.expires_at)}")
    if approval.reason:
        note(f"reason: {display_text(approval.reason)}")
    note(f"digest {approval.digest}")
    typer.echo(display_text(approval.preview) + (" …" if approval.cut else ""))
