"""Requests usage in an OpenAI stream if the call does not mention it."""

from typing import cast

import orjson

from circadia.gateway.payload import splice
from circadia.gateway.payload.fields import as_object

_KEY = "stream_options"
_INCLUDE = {"include_usage": True}


def wants_usage(request: dict[str, object]) -> bool:
    return as_object(request.get(_KEY)).get("include_usage") is True


def refuses_usage_option(status: int, body: bytes) -> bool:
    """Return whether an error names the option, as servers do that do not know it."""
    return status in (400, 422) and (_KEY.encode() in body or b"include_usage" in body)


def lacks_usage(request: dict[str, object]) -> bool:
    """Return whether the request streams and has no stream options."""
    return request.get("stream") is True and _KEY not in request


def add_usage_option(body: bytes) -> bytes:
    """Return the body of a request that `lacks_usage` with stream options."""
    at = len(body.rstrip()) - 1
    return b'%b,"stream_options":{"include_usage":true}%b' % (body[:at], body[at:])


def with_include_usage(body: bytes) -> bytes | None:
    """Return the body with `stream_options.include_usage`, every other byte unchanged.

    None if it does not stream, contains `include_usage` with any value, or `stream_options` is not an object.
    """
    try:
        request = as_object(orjson.loads(body))
    except orjson.JSONDecodeError:
        return None
    if request.get("stream") is not True:
        return None
    if _KEY not in request:
        return add_usage_option(body)
    options = request[_KEY]
    if options is not None and (not isinstance(options, dict) or "include_usage" in cast("dict[str, object]", options)):
        return None
    try:
        return _set(body.decode()).encode()
    except ValueError:
        return None


def _set(text: str) -> str:
    place = splice.member(text, splice.root_value(text).start, _KEY)
    if place is None:
        return text
    if place.value is None:
        return splice.replace(text, place, _INCLUDE)
    return splice.insert_member(text, place, "include_usage", True)
