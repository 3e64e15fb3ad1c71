"""What waits for a person: how much of each kind, proposals of all banks, and the history of alerts (UI-19)."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Query

from circadia.agents.access import require_operator
from circadia.api.changes import MAX_WITH_TEXTS, change_views
from circadia.api.context import Context, Limit, Who, fetch_page, noun_router
from circadia.errors import InvalidRequest, NotFound
from circadia.ids import AlertId, BankId, PassId
from circadia.records.alert import AlertRecord
from circadia.records.change import Change
from circadia.records.event import AlertChange, EventType
from circadia.schemas.fleet import AlertPage, AlertRecordView, WaitingCountView
from circadia.schemas.passes import ChangeView, WaitingChangeList, WaitingChangeView
from circadia.stores.base import Tx

MAX_COUNTED: Final = 1_000
"""Larger counts are not told apart."""

router = noun_router("for-you")


@router.get("/for-you")
async def count_for_you(who: Who, context: Context) -> WaitingCountView:
    """Count what waits for a person: approvals, proposals, dreams, dead letters, alerts. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        approvals, _ = await tx.approvals.count_pending(limit=MAX_COUNTED)
        return WaitingCountView(
            approvals=approvals,
            proposals=await tx.passes.count_staged(limit=MAX_COUNTED),
            dreams=await tx.dream_jobs.count_waiting(),
            dead_letters=min(MAX_COUNTED, await tx.overviews.count_dead_letters()),
            alerts=await tx.alert_history.count_open(limit=MAX_COUNTED),
        )


@router.get("/proposals")
async def list_proposals(
    who: Who,
    context: Context,
    bank: Annotated[str | None, Query(description="Only of this bank.")] = None,
    after: Annotated[str | None, Query(description="Value of `after` from the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_WITH_TEXTS, description="Maximum number of rows.")] = 50,
) -> WaitingChangeList:
    """List the changes of passes that wait for a person, with the texts that they concern and rest on.

    Operator only.
    """
    require_operator(who)
    first = None if after is None else _parse_cursor(after)
    async with context.store.begin_read() as tx:
        bank_id = None if bank is None else (await context.memory.banks.get(tx, bank)).id
        rows, more = await fetch_page(
            lambda last, most: tx.passes.find_staged(
                bank_id=bank_id, after=first if last is None else (last[1].pass_id, last[1].number), limit=most
            ),
            limit,
        )
        views = await _proposal_views(tx, rows)
    last = f"{rows[-1][1].pass_id}:{rows[-1][1].number}" if more else None
    return WaitingChangeList(proposals=views, after=last)


async def _proposal_views(tx: Tx, rows: Sequence[tuple[BankId, Change]]) -> list[WaitingChangeView]:
    names = await tx.banks.find_names({bank_id for bank_id, _ in rows})
    views: dict[tuple[str, int], ChangeView] = {}
    for bank_id in names:
        for view in await change_views(tx, bank_id, [change for owner, change in rows if owner == bank_id]):
            views[view.pass_id, view.number] = view
    return [
        WaitingChangeView.of(views[change.pass_id, change.number], bank=names[bank_id])
        for bank_id, change in rows
        if bank_id in names
    ]


_MAX_DIGITS: Final = 18


def _parse_cursor(after: str) -> tuple[PassId, int]:
    pass_id, _, number = after.rpartition(":")
    if not (pass_id and number.isdecimal() and len(number) <= _MAX_DIGITS):
        raise InvalidRequest(f"`after` is that of the page before, not {after!r}")
    return PassId(pass_id), int(number)


alert_router = noun_router("alerts")


@alert_router.get("/alerts")
async def list_alerts(
    who: Who,
    context: Context,
    cause: Annotated[str | None, Query(description="Only of this cause.")] = None,
    open: Annotated[bool, Query(description="Only those that nobody has acknowledged.")] = False,
    before: Annotated[str | None, Query(description="Id of the last alert on the previous page.")] = None,
    limit: Limit = 100,
) -> AlertPage:
    """List the alerts that were raised, newest first, as long as events are kept. Operator only."""
    require_operator(who)
    first = None if before is None else AlertId(before)
    async with context.store.begin_read() as tx:
        alerts, more = await fetch_page(
            lambda last, most: tx.alert_history.find_all(
                cause=cause, is_open=open, before=first if last is None else last.id, limit=most
            ),
            limit,
        )
    return AlertPage(alerts=[AlertRecordView.of(alert) for alert in alerts], before=alerts[-1].id if more else None)


@alert_router.get("/alerts/{alert}")
async def show_alert(alert: str, who: Who, context: Context) -> AlertRecordView:
    """Show an alert. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        return AlertRecordView.of(await _get_alert(tx, alert))


@alert_router.post("/alerts/{alert}/acknowledge")
async def acknowledge_alert(alert: str, who: Who, context: Context) -> AlertRecordView:
    """Say that a person takes care of an alert. A second time changes nothing. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        row = await _get_alert(tx, alert)
        if await tx.alert_history.acknowledge(row.id, context.clock.now(), who.name):
            data = AlertChange(alert=row.id, cause=row.cause, by=who.name)
            await context.memory.events.record(
                tx, EventType.ALERT_ACKNOWLEDGED, data, session=row.session, agent=row.agent
            )
        return AlertRecordView.of(await _get_alert(tx, alert))


async def _get_alert(tx: Tx, alert_id: str) -> AlertRecord:
    alert = await tx.alert_history.get(AlertId(alert_id))
    if alert is None:
        raise NotFound(f"no alert {alert_id!r}; `GET /alerts` lists them")
    return alert
