"""What `circadia` offers to programs is what its page names."""

import importlib
import inspect
import re
import textwrap

import circadia
from circadia.client.calls import Client
from tests.house.tree import REFERENCE, Part, coded, parts


def documented() -> set[str]:
    """Return the names that have a heading such as "## `circadia.Client`"."""
    headings: list[Part] = parts(REFERENCE / "python.md")
    return {match[1] for part in headings if (match := re.fullmatch(r"`circadia\.([A-Z]\w*)`", part.heading))}


def test_the_exported_names_are_the_documented_ones() -> None:
    assert set(circadia.__all__) == documented()


def test_each_exported_name_can_be_imported_and_says_what_it_is() -> None:
    for name in circadia.__all__:
        assert getattr(circadia, name).__doc__, name


def test_the_shipped_fakes_export_what_the_page_names() -> None:
    testing = importlib.import_module("circadia.testing")
    headings = parts(REFERENCE / "python.md")
    named = {m[1] for part in headings if (m := re.fullmatch(r"`circadia\.testing\.([A-Z]\w*)`", part.heading))}
    assert set(testing.__all__) == named


def list_calls() -> str:
    """Return each method of the client with its arguments, in the lines of the page."""
    lines: list[str] = []
    for name, method in inspect.getmembers(Client, inspect.isroutine):
        if name.startswith("_"):
            continue
        signature = inspect.signature(method)
        plain = [each.replace(annotation=inspect.Parameter.empty) for each in list(signature.parameters.values())[1:]]
        call = f"{name}{signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)}"
        lines += textwrap.wrap(call, 110, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def test_the_page_has_the_arguments_of_each_method() -> None:
    text = (REFERENCE / "python.md").read_text("utf-8")
    stated = text.partition("### Arguments")[2].partition("```text\n")[2].partition("\n```")[0]
    assert stated == list_calls()


def test_the_page_names_each_method_of_the_client_and_no_other() -> None:
    text = (REFERENCE / "python.md").read_text("utf-8")
    table = text.partition("### Methods by noun")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in coded(line.split("|")[2] if line.count("|") > 2 else "")}
    methods = {name for name, _ in inspect.getmembers(Client, inspect.isroutine) if not name.startswith("_")}
    assert named == methods
