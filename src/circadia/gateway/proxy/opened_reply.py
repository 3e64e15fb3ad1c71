"""Fits an answer into a reply that was opened before it came: a 200, with the content type that was asked for."""

import orjson

from circadia.errors import UpstreamFailed
from circadia.gateway.calls.model_call import ModelCall
from circadia.gateway.calls.upstream import is_stream
from circadia.gateway.wire.base import ConnectionBroken, ConnectionStalled
from circadia.gateway.wire.connection import ProviderResponse

_LONGEST_ERROR = 65_536
"""Bytes that are read of an error which an upstream sends as a stream."""


async def gather_answer(call: ModelCall, answer: ProviderResponse, whole: bytes | None) -> bytes | None:
    """Return all of an answer, unless it is a stream that can go on as it comes.

    Raises:
        UpstreamFailed: it broke off; or it is a stream that cannot.
    """
    upstream = call.provider.upstream
    if whole is None and not is_stream(answer):
        try:
            return await upstream.read_whole(answer)
        except ConnectionBroken as error:
            raise UpstreamFailed(f"upstream {upstream.name!r} broke off in its answer") from error
    if whole is None:
        if answer.status >= 300:
            raise _refusal_error(call, answer.status, await _read_error_start(answer))
        _require_unpacked(call, answer)
        if not call.request.streamed:
            raise UpstreamFailed(f"upstream {upstream.name!r} sent a stream, although none was asked for")
    return whole


def fit_to_request(call: ModelCall, answer: ProviderResponse, whole: bytes) -> bytes:
    """Return a whole answer, or a provider's error, in the shape that was asked for.

    Raises:
        UpstreamFailed: it cannot have that shape.
    """
    name = call.provider.upstream.name
    if answer.status >= 300:
        event = call.dialect.event_of_error(whole) if call.request.streamed else None
        if event is None or answer.status < 400:
            raise _refusal_error(call, answer.status, whole)
        return event
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
        raise UpstreamFailed(f"upstream {name!r} compressed its answer ({coding}), although it was asked not to")


def _refusal_error(call: ModelCall, status: int, body: bytes) -> UpstreamFailed:
    upstream = call.provider.upstream
    return UpstreamFailed(f"upstream {upstream.name!r} answered {status}{_error_message(upstream.without_key(body))}")


async def _read_error_start(answer: ProviderResponse) -> bytes:
    """Return what comes first of an error that is sent as a stream; it need not end."""
    try:
        return (await anext(answer, b""))[:_LONGEST_ERROR]
    except (ConnectionBroken, ConnectionStalled):
        return b""


def _error_message(body: bytes) -> str:
    """Return what a provider's error body says, shortened."""
    try:
        error = orjson.loads(body)["error"]
        return f": {str(error['message'])[:300]}"
    except (ValueError, TypeError, KeyError):
        return ""
