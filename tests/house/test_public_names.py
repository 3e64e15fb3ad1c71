"""What `circadia` offers to programs is what its page names."""

import importlib
import re

import circadia
from tests.house.tree import REFERENCE, Part, parts


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
