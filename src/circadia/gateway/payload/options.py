"""Requests usage in an OpenAI stream if the call does not mention it."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import orjson

from circadia.gateway.payload import splice
from circadia.gateway.payload.fields import as_list, as_object, as_text

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


_OF_PYDANTIC_AI: Final = "final_result"
"""Prefix of Pydantic AI's output tools."""


def output_tools(request: Mapping[str, object]) -> frozenset[str]:
    """Return the tools whose call is the answer: the only tool, if the request forces it, and those with a known name.

    Instructor, LangChain and LlamaIndex use the first form; a tool that only has to be called first is one of several.
    """
    tools = as_list(request.get("tools"))
    if not tools:
        return frozenset()
    names = [name for name in map(_name, map(as_object, tools)) if name is not None]
    only = names if len(tools) == 1 and _name(as_object(request.get("tool_choice"))) in names else []
    return frozenset((*only, *(name for name in names if name.startswith(_OF_PYDANTIC_AI))))


def count_schema_fields(request: Mapping[str, object]) -> int | None:
    """Return the number of fields of the JSON schema that the answer must fit; None without one.

    It stands in `response_format` (OpenAI's chats), `text.format` (responses) or `output_config.format` (Anthropic).
    """
    wanted = request.get("response_format") or request.get("text") or request.get("output_config")
    if wanted is None:
        return None
    form = as_object(as_object(wanted).get("format", wanted))
    schema = as_object(as_object(form.get("json_schema", form)).get("schema"))
    return len(as_object(schema["properties"])) if "properties" in schema else None


def answer_arguments(calls: Sequence[str], tools: frozenset[str]) -> str:
    """Return the arguments of the calls, each `name(arguments)`, if all call such tools; else an empty string."""
    parts = [call.partition("(") for call in calls]
    if not tools or any(name not in tools for name, _, _ in parts):
        return ""
    return "\n".join(arguments[:-1] for _, _, arguments in parts)


def _name(tool: Mapping[str, object]) -> str | None:
    return as_text(as_object(tool.get("function")).get("name") or tool.get("name"))
