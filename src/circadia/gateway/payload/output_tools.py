"""Answers in the form of a tool's call: what programs want as data, many ask for as the arguments of a tool."""

from collections.abc import Mapping, Sequence
from typing import Final

from circadia.gateway.payload.fields import as_list, as_object, as_text

_OF_PYDANTIC_AI: Final = "final_result"
"""How the names of Pydantic AI's output tools begin."""


def output_tools(request: Mapping[str, object]) -> frozenset[str]:
    """Return the tools whose call is the answer: the only one, if the request names it as its choice, and such by name.

    Instructor, LangChain and LlamaIndex ask like that; a tool that only has to be called first is one of several.
    """
    given = as_list(request.get("tools"))
    if not given:
        return frozenset()
    names = [name for name in map(_name, map(as_object, given)) if name is not None]
    only = names if len(given) == 1 and _name(as_object(request.get("tool_choice"))) in names else []
    return frozenset((*only, *(name for name in names if name.startswith(_OF_PYDANTIC_AI))))


def answer_arguments(calls: Sequence[str], tools: frozenset[str]) -> str:
    """Return the arguments of the calls, each `name(arguments)`, if all are of such tools; empty if they are not."""
    parts = [call.partition("(") for call in calls]
    if not tools or any(name not in tools for name, _, _ in parts):
        return ""
    return "\n".join(arguments[:-1] for _, _, arguments in parts)


def _name(tool: Mapping[str, object]) -> str | None:
    return as_text(as_object(tool.get("function")).get("name") or tool.get("name"))
