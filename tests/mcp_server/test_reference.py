"""The reference describes each tool as it is."""

import json
import re
from inspect import get_annotations

import jsonschema
import pytest

from circadia.mcp_server.tools import TOOLS, Tool
from tests.house.tree import REFERENCE, Part, coded, parts

PAGE = REFERENCE / "mcp.md"


def part_of(name: str) -> Part:
    return next(part for part in parts(PAGE) if coded(part.heading) == [name])


def group_of(name: str) -> Part:
    """Return the part of the second level in which the tool is described."""
    text = part_of(name).text
    return next(part for part in parts(PAGE) if part.text.startswith("## ") and text in part.text)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_each_argument_of_a_tool_is_named_where_the_tool_is_described(tool: Tool) -> None:
    told = set(coded(group_of(tool.name).text))
    assert set(tool.as_listed_tool().input_schema["properties"]) <= told


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_answer_that_the_page_shows_for_a_tool_is_one_that_it_can_give(tool: Tool) -> None:
    text = part_of(tool.name).text
    if "{" not in text:
        text = group_of(tool.name).text
    shown = re.search(r"```json\n(.*?)```", text, re.S) or re.search(r"`(\{.*\})`", text)
    assert shown is not None
    answer = json.loads(shown[1])
    schema = get_annotations(tool.run)["return"].model_json_schema(by_alias=True, mode="serialization")
    jsonschema.validate(answer, schema)
    assert set(answer) == set(schema["properties"])


def test_the_tools_that_take_something_away_say_so_and_no_others_do() -> None:
    hints = {tool.name: tool.as_listed_tool().annotations for tool in TOOLS}
    assert {name for name, hint in hints.items() if hint is not None and hint.destructive_hint} == {
        "memory_replace", "memory_forget",
    }  # fmt: skip
