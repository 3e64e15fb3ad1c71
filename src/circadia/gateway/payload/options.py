"""What a request asks for beside its prompt: usage in its stream, and an answer in a declared form."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from circadia.gateway.payload import splice
from circadia.gateway.payload.fields import as_list, as_object, as_text

_KEY: Final = "stream_options"
MissingUsage = Literal["member", "value"]
"""Whether a request has no stream options at all, or some without `include_usage`."""


def wants_usage(request: dict[str, object]) -> bool:
    return as_object(request.get(_KEY)).get("include_usage") is True


def refuses_usage_option(status: int, body: bytes) -> bool:
    """Return whether an error names the option, as servers do that do not know it."""
    return status in (400, 422) and (_KEY.encode() in body or b"include_usage" in body)


def find_missing_usage(request: dict[str, object]) -> MissingUsage | None:
    """Return what a streamed request lacks to get usage; None if it does not stream or has set the option itself."""
    if request.get("stream") is not True:
        return None
    if _KEY not in request:
        return "member"
    options = request[_KEY]
    is_open = options is None or (
        isinstance(options, dict) and "include_usage" not in as_object(cast("object", options))
    )
    return "value" if is_open else None


def add_usage_option(body: bytes, missing: MissingUsage) -> bytes:
    """Return the body of a request with `stream_options.include_usage`, every other byte unchanged."""
    if missing == "member":
        at = len(body.rstrip()) - 1
        return b'%b,"stream_options":{"include_usage":true}%b' % (body[:at], body[at:])
    try:
        text = body.decode()
        place = splice.member(text, splice.value_start(text), _KEY)
    except ValueError:  # nested too deeply
        return body
    return body if place is None else splice.insert_member(text, place, "include_usage", True).encode()


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
