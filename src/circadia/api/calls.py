"""Model calls one by one: the lines of the usage ledger, and the calls that this server holds (UI-17)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from fastapi import Query

from circadia.agents.access import require_operator
from circadia.agents.directory import require_names
from circadia.api.bodies import Instant
from circadia.api.context import Context, Limit, NextPage, SessionFilter, Who, noun_router
from circadia.errors import InvalidRequest, NotFound
from circadia.gateway.memory.line_keys import LineKind, decode_memory
from circadia.gateway.model_call.hold import HoldView
from circadia.ids import BankId, CallId, HoldId, call_of_hold
from circadia.records.call import Call, CallFilter, CallStatus
from circadia.records.session import build_reference
from circadia.schemas.calls import CallDetail, CallList, CallMemoryRow, CallState, CallView
from circadia.stores.base import Tx

router = noun_router("calls")

_HELD: Final = "held"
_NANO: Final = 10**9


@router.get("/calls")
async def list_calls(
    who: Who,
    context: Context,
    session: SessionFilter = None,
    agent: Annotated[
        str | None, Query(description="Only of agents with this name; with tier `sleep`, of this bank.")
    ] = None,
    model: Annotated[str | None, Query(description="Only of this model.")] = None,
    tier: Annotated[str | None, Query(description="Only of this tier: `hot`, `ready` or `sleep`.")] = None,
    status: Annotated[
        CallState | None, Query(description="Only in this state; `held` are those of this server.")
    ] = None,
    upstream: Annotated[str | None, Query(description="Only to this provider.")] = None,
    end_user: Annotated[str | None, Query(description="Only for this end user.")] = None,
    conversation: Annotated[str | None, Query(description="Only of this conversation.")] = None,
    since: Annotated[Instant, Query(description="At or after this date or time.")] = None,
    until: Annotated[Instant, Query(description="Before this date or time.")] = None,
    order: Annotated[
        Literal["newest", "cost"], Query(description="`cost`: the dearest of the 5,000 calls that a page looks at.")
    ] = "newest",
    after: NextPage = None,
    limit: Limit = 100,
) -> CallList:
    """List model calls, newest first, or those that this server holds. Operator only.

    A page looks at up to 5,000 calls. If few of them meet the filter, it is short and has a `next` all the same. By
    `cost`, each page has the dearest of the next 5,000.
    """
    require_operator(who)
    async with context.store.begin_read() as tx:
        await require_names(tx, who, session, None if tier == "sleep" else agent)
        if status == _HELD:
            if any((model, tier, upstream, end_user, conversation, since, until, after, order == "cost")):
                raise InvalidRequest("held calls are filtered by `session` and `agent` only; leave out the rest")
            holds, _ = context.holds.list_holds(session=session, agent=agent, limit=limit)
            return CallList(calls=[_view_hold(hold) for hold in holds], next=None)
        wanted = CallFilter(
            session=session, agent=agent, model=model, tier=tier, status=None if status is None else CallStatus(status),
            upstream=upstream, end_user=end_user, conversation=conversation, since=since, until=until,
        )  # fmt: skip
        page = await tx.calls.find_page(wanted, limit=limit, after=after, by_cost=order == "cost")
    return CallList(calls=[_view_call(call) for call in page.calls], next=page.next)


@router.get("/calls/{call}")
async def show_call(call: str, who: Who, context: Context) -> CallDetail:
    """Show a model call, or one that this server holds or has held, by the id of its hold. Operator only."""
    require_operator(who)
    are_kept = context.settings.calls.keep_texts
    hold = context.holds.find_hold(HoldId(call))
    if hold is not None:
        return CallDetail.of(_view_hold(hold), memory=[], request=None, response=None, texts_are_kept=are_kept)
    async with context.store.begin_read() as tx:
        found = await tx.calls.get(call_of_hold(HoldId(call)) if call.startswith("hold_") else CallId(call))
        if found is None:
            raise NotFound(f"no call {call!r}; the ledger keeps calls for `retention.calls_days`")
        text = await tx.calls.get_text(found.id)
        memory = await _find_memory(tx, found)
    return CallDetail.of(
        _view_call(found), memory=memory, request=text and text.request, response=text and text.response,
        texts_are_kept=are_kept,
    )  # fmt: skip


def _view_call(call: Call) -> CallView:
    return CallView.of(
        call,
        reference=build_reference(call.session, call.agent) if call.session else call.agent,
        cost_usd=None if call.cost_nanousd is None else call.cost_nanousd / _NANO,
        answer=call.answer_id,
    )


def _view_hold(hold: HoldView) -> CallView:
    unknown = (
        "http_status", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd",
        "first_token_seconds", "total_seconds", "stop_reason", "lookup", "answer", "conversation", "end_user",
    )  # fmt: skip
    return CallView(
        id=hold.id, at=hold.since, agent=hold.agent, session=hold.session, tier="hot", status=_HELD,
        reference=build_reference(hold.session, hold.agent), upstream=hold.to, endpoint=hold.what, model=hold.model,
        streamed=hold.streamed, held_seconds=hold.waited_seconds, retries=0, turn=hold.turn,
        **dict.fromkeys(unknown),
    )  # fmt: skip


async def _find_memory(tx: Tx, call: Call) -> Sequence[CallMemoryRow]:
    """Return the rows of memory that the call has shown, with their ids where they are still there."""
    kept = list(decode_memory(call.memory))
    ids: dict[tuple[str, LineKind, str | int], str] = {}
    banks: dict[str, str] = {}
    numbers: defaultdict[str, dict[LineKind, list[int]]] = defaultdict(lambda: defaultdict(list))
    for bank_id, kind, key, _ in kept:
        numbers[bank_id][kind] += [key] if isinstance(key, int) else []
    for bank_id, of_bank in numbers.items():
        bank = await tx.banks.get(BankId(bank_id))
        banks[bank_id] = "" if bank is None else bank.name
        rows: Mapping[LineKind, Mapping[int, object]] = {
            LineKind.NOTE: await tx.notes.get_by_numbers(BankId(bank_id), of_bank.get(LineKind.NOTE, ())),
            LineKind.EPISODE: await tx.episodes.get_by_numbers(BankId(bank_id), of_bank.get(LineKind.EPISODE, ())),
        }
        ids |= {(bank_id, kind, n): str(row.id) for kind, found in rows.items() for n, row in found.items()}
    return [
        CallMemoryRow(
            bank=banks[bank_id], kind=_KINDS[kind], version=version or None,
            id=key if isinstance(key, str) else ids.get((bank_id, kind, key)),
        )
        for bank_id, kind, key, version in kept
    ]  # fmt: skip


_KINDS: Final[Mapping[LineKind, Literal["block", "note", "episode"]]] = {
    LineKind.BLOCK: "block", LineKind.NOTE: "note", LineKind.EPISODE: "episode",
}  # fmt: skip
