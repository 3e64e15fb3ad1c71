"""A class is a noun phrase, a function a verb phrase, and a class name means one thing in the whole package."""

import ast
from collections import Counter

from tests.house.tree import python_files, shown, syntax

BARE_PARTICIPLES = frozenset(
    """
    told said asked given made found known seen kept meant shown wanted heard noted used taken looked weighed fitted
    grown watched spent prepared answered framed expected foreseen rewritten remembered written worded spoken named
    counted judged chosen drawn held left lost moved ended opened closed read begun worked settled filled bound
    bounded cut fetched sent received served checked explained listed joined drafted proposed planned published
    accepted refused credited marked carried merged dated spelled turned swapped posed opposed apart dreamt reached
    unreached unposted unusable gathered stuck started stopped added removed changed stored waited
    """.split()  # noqa: SIM905
)
HOUSE_WORDS = ("Mind", "Parcel", "Shelf", "Shelves", "Footing", "Looking", "Happenings")
MOST_FUNCTIONS = 20


def test_no_class_is_named_by_a_bare_participle_and_at_most_twenty_functions_are() -> None:
    classes, functions = list[str](), list[str]()
    for path in python_files("src"):
        for node in ast.walk(syntax(path)):
            named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if named and node.name.strip("_").lower() in BARE_PARTICIPLES:
                (classes if isinstance(node, ast.ClassDef) else functions).append(f"{shown(path)} {node.name}")
    assert not classes, "say which noun it is"
    assert len(functions) <= MOST_FUNCTIONS, functions


def test_no_two_public_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for path in python_files("src")
        for node in syntax(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, count in names.items() if count > 1]


def test_no_class_has_a_word_of_the_house_where_the_field_has_one() -> None:
    found = [
        f"{shown(path)} {node.name}"
        for path in python_files("src")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ClassDef) and any(word in node.name for word in HOUSE_WORDS)
    ]
    assert not found
