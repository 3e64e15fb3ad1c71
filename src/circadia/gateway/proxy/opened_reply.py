"""Fits an answer into a reply opened before it arrived: a 200 with the requested content type."""

import orjson

from circadia.errors import UpstreamFailed
from circadia.gateway.calls.model_call import ModelCall
from circadia.gateway.calls.upstream import is_stream
from circadia.gateway.wire.base import ConnectionBroken, ConnectionStalled
from circadia.gateway.wire.connection import ProviderResponse

_LONGEST_ERROR = 65_536
"""Maximum number of bytes read of an error that an upstream sends as a stream."""


async def gather_answer(call: ModelCall, answer: ProviderResponse, whole: bytes | None) -> bytes | None:
    """Read the whole answer; None for a stream to pass on. Raises UpstreamFailed if neither is possible."""
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
            raise UpstreamFailed(f"upstream {upstream.name!r} sent a stream that the call did not request")
    return whole


def fit_to_request(call: ModelCall, answer: ProviderResponse, whole: bytes) -> bytes:
    """Convert an answer or error to the requested shape. Raises UpstreamFailed if it cannot have that shape."""
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
        raise UpstreamFailed(f"upstream {name!r} compressed its answer ({coding}), although the gateway requested none")


def _refusal_error(call: ModelCall, status: int, body: bytes) -> UpstreamFailed:
    upstream = call.provider.upstream
    return UpstreamFailed(f"upstream {upstream.name!r} answered {status}{_error_message(upstream.without_key(body))}")


async def _read_error_start(answer: ProviderResponse) -> bytes:
    """Read the beginning of a streamed error, which may never end."""
    try:
        return (await anext(answer, b""))[:_LONGEST_ERROR]
    except (ConnectionBroken, ConnectionStalled):
        return b""


def _error_message(body: bytes) -> str:
    try:
        error = orjson.loads(body)["error"]
        return f": {str(error['message'])[:300]}"
    except (ValueError, TypeError, KeyError):
        return ""
