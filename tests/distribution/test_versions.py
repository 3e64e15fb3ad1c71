"""The declared versions of Python, and the lowest ones of packages."""

import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement

from deploy.lowest_versions import list_lowest
from tests.house.tree import ROOT

pytestmark = pytest.mark.spec("SHIP-14")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_each_python_is_declared_and_checked() -> None:
    declared = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if each.startswith("Programming Language")]
    assert declared == ["Only", "3.11", "3.12", "3.13", "3.14"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "foreach minor,12 13 14," in makefile
    assert "for minor in 12 13 14; do" in makefile


def test_the_lowest_versions_are_those_of_the_bounds_and_allowed_by_them() -> None:
    lowest = {each.name: each for each in map(Requirement, list_lowest())}
    for wanted in map(Requirement, PROJECT["dependencies"]):
        [pin] = lowest[wanted.name].specifier
        assert wanted.specifier.contains(pin.version.replace("*", "9")), wanted
        assert wanted.marker == lowest[wanted.name].marker
    assert str(lowest["aiohttp"].specifier) == "==3.14.5"
    assert str(lowest["uvicorn"].specifier) == "==0.54.*"
