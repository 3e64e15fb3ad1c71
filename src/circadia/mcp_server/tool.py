"""A tool: its arguments and answer, its description for the model, its function, and messages for wrong arguments."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from reprlib import Repr
from typing import Any, ClassVar, Final, TypeVar

import orjson
from mcp_types import Tool as Listed
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, ValidationError

from circadia.errors import InvalidRequest
from circadia.llm.schemas import answer_schema
from circadia.mcp_server.caller import Caller
from circadia.stores.nul_check import NUL, holds_nul
from circadia.suggestions import closest

T = TypeVar("T")

ANSWER_CHARACTERS: Final = 100_000
"""Maximum length of the content of an answer, except for its first item; the next call returns the rest."""


MAX_REPORTED_ERRORS: Final = 10
"""Maximum number of mistakes in an error message."""
_SHOWN: Final = Repr()
"""Formats shortened values: formatting a large value would take longer than rejecting it."""
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80


class Arguments(BaseModel):
    """Arguments of a tool, without unknown keys or type conversions."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class ToolResult(BaseModel):
    """The answer of a tool."""

    model_config = ConfigDict(frozen=True)

    def structured(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)

    def text(self) -> str:
        """Return the text for the model."""
        return orjson.dumps(self.structured()).decode()


def fence_text(head: str, text: str, name: str) -> str:
    """Return a text by others between marks with its id; no line of it looks like a mark, of its own or of another."""
    shown = "".join(map(_hide_mark, text.splitlines(keepends=True)))
    return f"--- {head} ---\n{shown}\n--- end of {name} ---"


def _hide_mark(line: str) -> str:
    bare = line.strip()
    is_mark = bare.startswith("---") and bare.endswith("---") and any(map(str.isalnum, bare))
    return line.replace("---", "- - -", 1) if is_mark else line


def take_fitting(found: Sequence[T], text: Callable[[T], str]) -> Sequence[T]:
    """Return the first items whose text fits into an answer, and at least one."""
    length = count = 0
    for item in found:
        length += len(text(item))
        if count and length > ANSWER_CHARACTERS:
            break
        count += 1
    return found[:count]


class NoArguments(Arguments):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def read_arguments(
    tool: str, model: type[ArgumentsT], sent: Mapping[str, object] | None, *, zone: str = "UTC"
) -> ArgumentsT:
    """Validate arguments; null counts as missing for an optional one, since many models send all arguments.

    A time without an offset is of the clock of `zone`, an IANA time zone.

    Raises:
        InvalidRequest: an argument is missing, unknown, of the wrong type or out of range (the message names each), or
            holds a NUL.
    """
    fields = model.model_fields
    optional = {name for name, field in fields.items() if not field.is_required()}
    stated = {name: value for name, value in (sent or {}).items() if value is not None or name not in optional}
    unlisted = [name for name in stated if name not in fields][MAX_REPORTED_ERRORS:]
    for name in unlisted:
        del stated[name]
    try:
        arguments = model.model_validate(stated, context={"zone": zone})
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        message = "; ".join(_describe_mistake(line, model) for line in mistakes[:MAX_REPORTED_ERRORS])
        more = len(mistakes) + len(unlisted) - MAX_REPORTED_ERRORS
        message += f"; and {more} more" if more > 0 else ""
        raise InvalidRequest(f"{tool}: {message}") from error
    if holds_nul(stated):
        raise InvalidRequest(f"{tool}: an argument {NUL}")
    return arguments


def _describe_mistake(line: Any, model: type[Arguments]) -> str:
    name = ".".join(str(part) for part in line["loc"]) or "arguments"
    if line["type"] == "missing":
        return f"argument {name!r} is missing"
    if line["type"] == "extra_forbidden":
        near = closest(name, model.model_fields, count=1)
        known = ", ".join(map(repr, model.model_fields)) or "none"
        return f"there is no argument {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"it takes {known}")
    message = str(line["msg"]).removeprefix("Value error, ")
    return f"argument {name!r}: {message} (got {_SHOWN.repr(line['input'])})"


_IMPLIED: Final = ("additionalProperties", "maxLength", "maxItems", "minLength", "minItems", "exclusiveMinimum")
"""Keys that an argument's schema lacks: a refusal says it."""
_IMPLIED_VALUES: Final[Sequence[tuple[str, object]]] = (
    ("minimum", 0), ("minimum", 1), ("maximum", 30 * 86_400.0), ("format", "date-time"), ("default", []),
)  # fmt: skip


def input_schema(model: type[Arguments]) -> dict[str, Any]:
    """Return a short JSON Schema of a tool's arguments, since each agent pays for it with each call.

    It omits null, which means the same as a missing argument.
    """
    schema = answer_schema(model)
    del schema["additionalProperties"]  # a refusal names an argument that there is not
    for name, part in schema["properties"].items():
        kinds = [option for option in part.get("anyOf", ()) if option != {"type": "null"}]
        if len(kinds) == 1:
            rest = {key: value for key, value in part.items() if key != "anyOf" and (key, value) != ("default", None)}
            schema["properties"][name] = {**kinds[0], **rest}
        if (meaning := model.model_fields[name].description) is not None:  # lost where it is an object
            schema["properties"][name]["description"] = meaning
        for key in _IMPLIED:
            schema["properties"][name].pop(key, None)
        for key, value in _IMPLIED_VALUES:
            if schema["properties"][name].get(key) == value:
                del schema["properties"][name][key]
    return schema


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool of the server."""

    name: str
    description: str
    """When to use it, for the model."""
    arguments: type[Any]
    """A subclass of `Arguments`."""
    run: Callable[[Caller, Any], Awaitable[ToolResult]]
    """Raises CircadiaError for what the caller can correct."""
    reads_only: bool = False
    destructive: bool = False

    def as_listed_tool(self) -> Listed:
        """Return the entry for `tools/list`, without an answer schema, which no model needs."""
        reads = ToolAnnotations(read_only_hint=True)
        return Listed(
            name=self.name,
            description=self.description,
            input_schema=input_schema(self.arguments),
            annotations=reads if self.reads_only else ToolAnnotations(destructive_hint=self.destructive),
        )


def tool(
    name: str, description: str, *, reads_only: bool = False, destructive: bool = False
) -> Callable[[Callable[[Caller, Any], Awaitable[ToolResult]]], Tool]:
    """Make a function a tool; its annotations name the model of its arguments."""

    def build_tool(run: Callable[[Caller, Any], Awaitable[ToolResult]]) -> Tool:
        _, arguments, _ = get_annotations(run).values()
        return Tool(
            name=name, description=description, arguments=arguments, run=run, reads_only=reads_only,
            destructive=destructive,
        )  # fmt: skip

    return build_tool
