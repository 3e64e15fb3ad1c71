"""Arguments and answers of tools: strict models, their JSON Schema, and sentences for what does not fit."""

from collections.abc import Callable, Mapping, Sequence
from reprlib import Repr
from typing import Any, ClassVar, Final, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from circadia.errors import InvalidRequest
from circadia.llm.schemas import answer_schema, strip_schema
from circadia.stores.nul_check import NUL, holds_nul
from circadia.suggestions import closest

T = TypeVar("T")

ANSWER_CHARACTERS: Final = 100_000
"""Content that one answer carries at most, the first message or find aside; the next call has what is over."""


TOLD_AT_ONCE: Final = 10
"""Mistakes that one answer names."""
_SHOWN: Final = Repr()
"""Shows what was given, shortened: to write out a large value takes longer than to refuse it."""
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80


class Arguments(BaseModel):
    """What a tool takes: no key that is not named, no value of another type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class ToolResult(BaseModel):
    """What a tool returns."""

    model_config = ConfigDict(frozen=True)

    def structured(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    def text(self) -> str:
        """Return what a model reads."""
        return orjson.dumps(self.structured()).decode()


def take_fitting(found: Sequence[T], text: Callable[[T], str]) -> Sequence[T]:
    """Return the first ones whose text fits into an answer; always one."""
    length = kept = 0
    for each in found:
        length += len(text(each))
        if kept and length > ANSWER_CHARACTERS:
            break
        kept += 1
    return found[:kept]


class NoArguments(Arguments):
    """A tool that takes nothing."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def read_arguments(tool: str, model: type[ArgumentsT], given: Mapping[str, object] | None) -> ArgumentsT:
    """Return the arguments; null for one that may be left out is as if it were, since many models write all of them.

    Raises:
        InvalidRequest: one is missing, unknown, of the wrong type or out of range; the message names each. Or one holds
        a NUL.
    """
    fields = model.model_fields
    optional = {name for name, field in fields.items() if not field.is_required()}
    stated = {name: value for name, value in (given or {}).items() if value is not None or name not in optional}
    strange = [name for name in stated if name not in fields][TOLD_AT_ONCE:]
    for name in strange:
        del stated[name]
    try:
        arguments = model.model_validate(stated)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        told = "; ".join(_describe_mistake(line, model) for line in mistakes[:TOLD_AT_ONCE])
        more = len(mistakes) + len(strange) - TOLD_AT_ONCE
        told += f"; and {more} more" if more > 0 else ""
        raise InvalidRequest(f"{tool}: {told}") from error
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
    return f"argument {name!r}: {line['msg']} (got {_SHOWN.repr(line['input'])})"


def input_schema(model: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, as short as it can be: each agent pays for it with each call.

    Null stands for what is left out, and is not spoken of.
    """
    schema = answer_schema(model)
    for name, part in schema["properties"].items():
        kinds = [each for each in part.get("anyOf", ()) if each != {"type": "null"}]
        if len(kinds) == 1:
            rest = {key: value for key, value in part.items() if key != "anyOf" and (key, value) != ("default", None)}
            schema["properties"][name] = {**kinds[0], **rest}
    return schema


def output_schema(model: type[ToolResult]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's structured answer."""
    return strip_schema(model.model_json_schema(by_alias=True, mode="serialization"))
