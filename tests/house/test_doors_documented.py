"""Each command, path and tool has its place in the reference, and the reference names no other."""

import re
from collections.abc import Iterator
from typing import Any, Protocol, cast

import typer.main

from circadia.api.app import OPENAPI_PATH
from circadia.cli.app import app
from circadia.mcp_server.tools import TOOLS
from tests.fixtures.documented import served_operations
from tests.house.tree import REFERENCE, ROOT, coded, parts


class Parameter(Protocol):
    """What of an argument or option is looked at."""

    opts: list[str]
    hidden: bool
    default: object


class Command(Protocol):
    """What of a command or group is looked at."""

    params: list[Parameter]
    hidden: bool
    help: str | None
    epilog: str | None


def commands() -> Iterator[tuple[str, Command]]:
    """Yield each command that is not hidden, by its whole name."""

    def below(name: str, command: Command) -> Iterator[tuple[str, Command]]:
        inner = cast("dict[str, Command]", getattr(command, "commands", {}))
        if not inner or getattr(command, "invoke_without_command", False):
            yield name, command
        for word, child in inner.items():
            if not child.hidden:
                yield from below(f"{name} {word}", child)

    root = cast("Any", typer.main.get_command(app))
    for name in root.commands:
        yield from below(f"circadia {name}", root.load_command(name))


def command_parts() -> dict[str, str]:
    """Return the text below each heading of the CLI page such as "## `circadia sessions add`"."""
    found: dict[str, str] = {}
    for part in parts(REFERENCE / "cli.md"):
        for name in coded(part.heading):
            found[name] = part.text
    return found


def test_the_page_has_a_heading_for_each_command_and_no_other() -> None:
    headings = {name for name in command_parts() if name.startswith("circadia ")}
    groups = {name.rsplit(" ", 1)[0] for name, _ in commands()}
    assert {name for name, _ in commands()} <= headings
    assert headings <= {name for name, _ in commands()} | groups


def test_each_option_is_named_below_its_command() -> None:
    found = command_parts()
    missing: list[str] = []
    for name, command in commands():
        for parameter in command.params:
            long = [word for word in parameter.opts if word.startswith("--")]
            words = re.findall(r"--[a-z][a-z-]*", found.get(name, ""))
            if long and "--help" not in long and not getattr(parameter, "hidden", False):
                missing += [f"{name} {word}" for word in long if word not in words]
    assert not missing


def rows_of(text: str) -> dict[str, str]:
    """Return the default that the table of a command's part tells of each option and argument."""
    own = re.split(r"^### ", text, flags=re.M)[0] if text.startswith("## ") else text
    cells = re.findall(r"^\| (.+?) \| (.*?) \| .* \|$", own, re.M)
    return {word: told.strip("`") for names, told in cells for word in coded(names)}


def test_each_default_on_the_page_is_the_codes() -> None:
    found = command_parts()
    wrong: list[str] = []
    for name, command in commands():
        rows = rows_of(found[name])
        for parameter in command.params:
            value: object = parameter.default() if callable(parameter.default) else parameter.default
            value = getattr(value, "value", value)
            code = "" if not value else f"{value:g}" if isinstance(value, float) else str(value)
            wrong += [
                f"{name} {word}: {rows[word]!r} is {code!r}" for word in parameter.opts if rows.get(word, code) != code
            ]
    assert not wrong


def test_each_command_says_in_its_help_what_it_does() -> None:
    assert not [name for name, command in commands() if not command.help]


def shape(path: str) -> str:
    """Return the path without the common prefix and without the names of its parameters."""
    return re.sub(r"\{[^}]*\}", "{}", path.removeprefix("/api/v1")).rstrip("/") or "/"


def rest_codes() -> list[str]:
    """Return what stands in backticks on the REST page; in a table a bar is written with a backslash."""
    return [text.replace("\\|", "|") for text in coded((REFERENCE / "rest.md").read_text("utf-8"))]


def documented_operations() -> set[tuple[str, str]]:
    """Return what the REST page names as `METHOD /path` or `METHOD|METHOD /path`."""
    found: set[tuple[str, str]] = set()
    for text in rest_codes():
        if match := re.fullmatch(r"([A-Z]+(?:\|[A-Z]+)*) (/\S*)", text):
            found |= {(method.lower(), shape(match[2].split("?")[0])) for method in match[1].split("|")}
    return found


def served_shapes() -> set[tuple[str, str]]:
    """Return what is served, whether it is in the OpenAPI document or is only another path of the same."""
    return {(method.lower(), shape(path)) for method, path in served_operations(but=[OPENAPI_PATH])}


def test_each_rest_operation_is_on_the_page() -> None:
    assert not sorted(served_shapes() - documented_operations())


def test_the_rest_page_names_no_operation_of_the_api_that_is_not_served() -> None:
    named = [match for part in rest_codes() if (match := re.fullmatch(r"([A-Z]+(?:\|[A-Z]+)*) (/api/v1/\S*)", part))]
    operations = {(method.lower(), shape(m[2].split("?")[0])) for m in named for method in m[1].split("|")}
    assert not sorted(operations - served_shapes())


def test_each_mcp_tool_and_resource_is_on_the_page() -> None:
    named = set(coded((REFERENCE / "mcp.md").read_text("utf-8")))
    assert {tool.name for tool in TOOLS} <= named
    assert {"circadia://instruction", "circadia://state", "circadia://context"} <= named


def test_each_mcp_tool_says_what_it_does() -> None:
    assert not [tool.name for tool in TOOLS if not tool.description]


def test_the_dashboard_without_javascript_names_a_command_that_there_is() -> None:
    page = (ROOT / "dashboard" / "index.html").read_text("utf-8")
    (command,) = re.findall(r"`circadia ([^`]+)`", page)
    assert f"\n## `circadia {command}`\n" in (REFERENCE / "cli.md").read_text("utf-8")
