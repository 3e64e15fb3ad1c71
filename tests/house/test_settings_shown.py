"""Each key of the configuration has a test that shows its effect on a whole server.

A test says so with `@pytest.mark.setting("limits.max_holds")`; `tests/settings_effects` holds those that have no other
subject.
"""

import ast
import re
from functools import cache

from tests.house.tree import TESTS, python_files, shown, syntax
from tests.settings_effects.keys import keys


@cache
def marked() -> dict[str, str]:
    """Return the keys that marks name, each with the place of one of them."""
    found: dict[str, str] = {}
    for path in python_files("tests"):
        if "mark.setting(" not in path.read_text("utf-8"):
            continue
        for node in ast.walk(syntax(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.setting":
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), f"{shown(path)}:{node.lineno} computes a key"
                    found[str(argument.value)] = f"{shown(path)}:{node.lineno}"
    return found


def test_each_key_is_shown_by_a_test() -> None:
    assert not sorted(set(keys()) - set(marked()))


def test_each_key_that_a_mark_names_exists_and_stands_in_the_configuration_of_that_file() -> None:
    assert not {place for key, place in marked().items() if key not in keys()}
    for key, place in marked().items():
        text = (TESTS.parent / place.partition(":")[0]).read_text("utf-8")
        without_marks = text.replace(f'"{key}"', "")
        assert re.search(rf"\b{key.rpartition('.')[2]}\b", without_marks), f"{place}: {key}"
