"""Passes answers to the caller as they come; errors and keep-alives in the shape that the provider's SDK accepts.

A reply that was opened before its answer arrived, as a 200 of the requested content type, gets what fits into it.
"""

import asyncio

from circadia.agents.presence import Presence, PresenceCell
from circadia.errors import (
    HTTP_STATUS,
    ApprovalRefused,
    CallDropped,
    CircadiaError,
    InvalidRequest,
    LimitReached,
    RetryLater,
    StillAsleep,
    UpstreamFailed,
    UpstreamTimedOut,
)
from circadia.gateway.accounting.id_owners import Owners
from circadia.gateway.calls.upstream import ModelCall, is_json, is_stream
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.errors import error_reason
from circadia.gateway.hold.reply import OPENED_JSON, OPENED_STREAM, Phase, method_headers
from circadia.gateway.model_call.send import RelayedCall
from circadia.gateway.payload.server_sent_events import WholeEvents, event_data
from circadia.gateway.wire.base import ConnectionBroken, ConnectionStalled
from circadia.gateway.wire.connection import ProviderResponse

_LONGEST_ERROR = 65_536
"""Maximum number of bytes read of an error that an upstream sends as a stream."""


LONGEST_RETRY_AFTER = 60.0
"""Seconds; openai-python ignores a longer `Retry-After` and uses its own."""


class ModelReplyFormat:
    """Errors in the provider's shape, and keep-alives that the provider's SDK accepts."""

    def __init__(self, dialect: Dialect, *, streamed: bool, counts_events: bool = False) -> None:
        """`counts_events` tells that the caller takes nothing else for a sign of life."""
        self._dialect = dialect
        self._streamed = streamed
        self._keep_alive = (
            (dialect.keep_alive_event if counts_events else dialect.keep_alive_bytes) if streamed else b" "
        )
        self.opening = OPENED_STREAM if streamed else OPENED_JSON

    def build_keep_alive(self) -> bytes:
        """Return bytes that an SSE parser drops, an event that its reader drops, or a space before the JSON."""
        return self._keep_alive

    def error_response(self, error: CircadiaError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return the error in the provider's shape, with the retry headers that its SDKs read."""
        status = 400 if isinstance(error, InvalidRequest) else HTTP_STATUS[type(error)]
        headers = [(b"content-type", b"application/json"), (b"x-circadia-error", error.code.encode())]
        headers += method_headers(error)
        after = error.retry_after_seconds
        if isinstance(error, RetryLater | LimitReached):
            passes_soon = isinstance(error, RetryLater) or (after is not None and after <= LONGEST_RETRY_AFTER)
            headers.append((b"x-should-retry", b"true" if passes_soon else b"false"))
            seconds = min(after if after is not None else 5.0, LONGEST_RETRY_AFTER) if passes_soon else after or 60.0
            headers.append((b"retry-after", b"%d" % max(1, round(seconds))))
        elif isinstance(error, CallDropped | ApprovalRefused):
            headers.append((b"x-should-retry", b"false"))
        return status, headers, self._dialect.errors.body(status, error.code, error.message)

    def in_band_error(self, error: CircadiaError) -> bytes | None:
        """Return the provider's error event; None for a buffered answer, unless a broken one would be sent again."""
        build = self._dialect.errors.event if self._streamed else self._dialect.errors.body
        if not self._streamed and not isinstance(error, CallDropped):
            return None
        return build(HTTP_STATUS[type(error)], error.code, error.message)


class AnswerWriter:
    def __init__(self, presence: Presence, owners: Owners) -> None:
        self._presence = presence
        self._owners = owners

    async def write_ready_answer(self, relayed: RelayedCall, ready: bytes) -> None:
        """Write a ready answer; everything else happens as if it came from the upstream."""
        reply, streamed = relayed.reply, relayed.call.request.streamed
        relayed.start_meter(streamed=streamed)
        await self._feed_whole(relayed, ready)
        relayed.is_ready, relayed.status = True, 200
        if not streamed:
            await reply.send_whole(200, [(b"content-type", b"application/json"), *relayed.answer_headers], ready)
            return
        await reply.start(200, [*OPENED_STREAM, *relayed.answer_headers])
        await reply.finish(ready)

    async def write_answer(self, relayed: RelayedCall, answer: ProviderResponse, whole: bytes | None) -> None:
        """Write the provider's answer, of which `whole` is the body unless it streams."""
        if relayed.reply.phase is Phase.OPENED:
            whole = await _gather_answer(relayed.call, answer, whole)
        relayed.start_meter(streamed=_is_read_as_stream(relayed.call, answer))
        if whole is None:
            await self._write_stream(relayed, answer)
        else:
            await self._write_whole(relayed, answer, whole)

    async def _write_whole(self, relayed: RelayedCall, answer: ProviderResponse, whole: bytes) -> None:
        reply, upstream = relayed.reply, relayed.call.provider.upstream
        if answer.status < 300:
            await self._feed_whole(relayed, whole)
        whole = upstream.without_key(whole)
        if reply.phase is Phase.OPENED:
            await reply.send_whole(200, (), _fit_to_request(relayed.call, answer, whole))
        else:
            await reply.send_whole(answer.status, [*upstream.headers_back(answer), *relayed.answer_headers], whole)

    async def _feed_whole(self, relayed: RelayedCall, whole: bytes) -> None:
        relayed.meter.feed(whole)
        relayed.meter.end()
        await self._record_ids(relayed, relayed.meter.ids)

    async def _write_stream(self, relayed: RelayedCall, answer: ProviderResponse) -> None:
        call, reply, meter, upstream = relayed.call, relayed.reply, relayed.meter, relayed.call.provider.upstream
        owned = 0
        last = b""
        events = WholeEvents() if is_stream(answer) else None
        if events is None:  # an error cannot be sent in band
            reply.reply_format = ModelReplyFormat(call.dialect, streamed=False)
        cell = self._presence.synced_cell(call.agent.id) if call.agent.policy.abort_streams else None
        cut = None if cell is None else _cut_on_sleep(cell, answer)
        try:
            await reply.start(answer.status, [*upstream.headers_back(answer), *relayed.answer_headers])
            async for chunk in answer:
                passed = meter.feed(chunk)
                if events is not None:
                    passed = events.feed(passed)
                passed = upstream.without_key(passed)
                if answer.status >= 400:
                    relayed.error_start = (relayed.error_start + upstream.without_key(chunk))[: relayed.kept_bytes]
                if len(meter.ids) > owned:
                    await self._record_ids(relayed, meter.ids[owned:])
                    owned = len(meter.ids)
                if answer.at_end:
                    last += passed  # goes out with the end; more may have arrived while an id was recorded
                else:
                    await reply.write(passed)
        except (ConnectionBroken, ConnectionStalled) as error:
            if events is not None:
                await reply.write(events.break_off())
            if isinstance(error, ConnectionStalled):
                raise UpstreamTimedOut(f"upstream {upstream.name!r} stopped in its stream") from error
            if cut is not None and cut.done():
                raise StillAsleep("the agent was put to sleep and its stream cut") from error
            raise UpstreamFailed(f"upstream {upstream.name!r} broke off in its stream") from error
        finally:
            if cell is not None and cut is not None:
                cell.streams.discard(cut)
        await reply.finish(last + (b"" if events is None else events.end()) + meter.end())

    async def _record_ids(self, relayed: RelayedCall, ids: list[str]) -> None:
        await self._owners.record(relayed.call.agent, relayed.call.provider.upstream.name, ids)


def _is_read_as_stream(call: ModelCall, answer: ProviderResponse) -> bool:
    """Return whether an answer is parsed as events, also if a stored one has no type but a stream was requested."""
    return is_stream(answer) or (not is_json(answer) and _asks_for_stream(call))


def _asks_for_stream(call: ModelCall) -> bool:
    query = call.target.partition("?")[2]
    return call.route.dialect == "stored_response" and "stream=true" in query.lower().split("&")


def _cut_on_sleep(cell: PresenceCell, answer: ProviderResponse) -> asyncio.Future[None]:
    """Close the stream when its agent falls asleep (GATE-45); the returned future is then done."""
    cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cut.add_done_callback(lambda _: answer.close())
    cell.streams.add(cut)
    if cell.asleep:  # it fell asleep before the first byte
        cut.set_result(None)
    return cut


async def _gather_answer(call: ModelCall, answer: ProviderResponse, whole: bytes | None) -> bytes | None:
    """Read the whole answer; None for a stream to pass on. Raises UpstreamFailed if neither is possible."""
    upstream = call.provider.upstream
    if whole is None and not is_stream(answer):
        try:
            return await upstream.read_whole(answer)
        except ConnectionBroken as error:
            raise UpstreamFailed(f"upstream {upstream.name!r} broke off in its answer") from error
    if whole is None:
        if answer.status >= 300:
            begun = await _read_error_start(answer)
            return event_data(begun) or begun
        _require_unpacked(call, answer)
        if not call.request.streamed:
            raise UpstreamFailed(f"upstream {upstream.name!r} sent a stream that the call did not request")
    return whole


def _fit_to_request(call: ModelCall, answer: ProviderResponse, whole: bytes) -> bytes:
    """Convert an answer or error to the requested shape. Raises UpstreamFailed if it cannot have that shape."""
    name = call.provider.upstream.name
    if answer.status >= 300:
        reason = error_reason(whole)
        message = f"upstream {name!r} answered {answer.status}{reason and ': '}{reason}"
        if not call.request.streamed or answer.status < 400:
            raise UpstreamFailed(message)
        return call.dialect.errors.event_of(answer.status, whole, message)
    _require_unpacked(call, answer)
    if not call.request.streamed:
        if not whole.lstrip().startswith((b"{", b"[")):
            raise UpstreamFailed(f"upstream {name!r} answered with something that is not JSON")
        return whole
    events = call.dialect.as_stream(whole, usage=call.request.wants_usage)
    if events is None:
        raise UpstreamFailed(f"upstream {name!r} answered with neither a stream nor an answer that can be one")
    return events


def _require_unpacked(call: ModelCall, answer: ProviderResponse) -> None:
    name, coding = call.provider.upstream.name, answer.header(b"content-encoding") or "identity"
    if coding.lower() != "identity":
        raise UpstreamFailed(f"upstream {name!r} compressed its answer ({coding}), although the gateway requested none")


async def _read_error_start(answer: ProviderResponse) -> bytes:
    """Read the beginning of a streamed error, which may never end."""
    try:
        return (await anext(answer, b""))[:_LONGEST_ERROR]
    except (ConnectionBroken, ConnectionStalled):
        return b""
