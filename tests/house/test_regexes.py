"""No pattern takes long over any text: what others write goes through many of them, and one that reads on from each
character to the end keeps the whole server waiting."""

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

import circadia

LENGTHS = (300, 6_000)
"""Characters: first a few, since a pattern that is worse than quadratic would not end with many."""
LIMIT_SECONDS = 0.06
"""Of processor time. A pattern that looks at each character a few times takes a tenth of it, one that reads on from
each to the end twice as much, on a machine of usual speed; on a slow one, the yardstick tells."""
YARDSTICK = re.compile(r"[\w.]+@")
"""It reads on from each character to the end, through what stands below, in four times the limit."""
YARD = "a." * 3_000
PIECES = (
    " ", "\n", "a", "A", "é", "日", "a ", "A ", "a'", "a’", "a.", "a-", "a_", "a@", "a/", "a:", "a=", "A.", "1", "1 ",
    "1.", "1,", "1-", "1/", "1:", ".", ",", "-", "_", "'", '"', "`", "*", "#", "/", "\\", "=", "(", "[", "{", "<", ">",
    "|", "<a ", "<<<", "://", "{\"", "\n- ", "- ", "ed ", "not ", "the ", "is ", "key=",
)  # fmt: skip
ELSEWHERE = {
    "circadia.gateway.calls.paths._RULE": "lines of the configuration",
    "circadia.settings.launchers._FUNCTION": "a name in the configuration",
    "circadia.gateway.payload.splice._COMMA": "matched at one place of a text",
    "circadia.sleeptime.grounding.source_check._BEGINS": "searched in the 60 characters before a word",
    "circadia.sleeptime.grounding.wording._FILE": "matched with the whole of an address",
    "circadia.testing.rule_based_model._SAID": "reads what the scripted model is given in tests",
}
"""Patterns that search no text of others, with what they are for."""


def _patterns() -> Mapping[str, re.Pattern[str]]:
    """Return all patterns for text that modules keep, by name; those of one text once."""
    found: dict[str, re.Pattern[str]] = {}
    seen: set[tuple[str, int]] = set()
    for module in pkgutil.walk_packages(circadia.__path__, "circadia."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                for key, pattern in _within(name, value):
                    if isinstance(pattern.pattern, str) and (pattern.pattern, pattern.flags) not in seen:
                        seen.add((pattern.pattern, pattern.flags))
                        found[f"{module.name}.{key}"] = pattern
    return found


def _within(name: str, value: object) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield name, cast("re.Pattern[Any]", value)
    elif isinstance(value, Mapping):
        for key, each in cast("Mapping[object, object]", value).items():
            yield from _within(f"{name}[{key!r}]", each)
    elif isinstance(value, (tuple, list)):
        for at, each in enumerate(cast("tuple[object, ...]", value)):
            yield from _within(f"{name}[{at}]", each)


PATTERNS = _patterns()


def seconds(pattern: re.Pattern[str], text: str) -> float:
    """Return the processor time of a search through the whole text."""
    began = time.thread_time()
    for _found in pattern.finditer(text):
        pass
    return time.thread_time() - began


def takes_long(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether it takes more than a few looks at each character; twice, if so the first time."""
    return all((taken := seconds(pattern, text)) > LIMIT_SECONDS and taken > seconds(YARDSTICK, YARD) / 4 for _ in "ab")


def test_the_patterns_are_found_and_none_is_left_out_that_there_is_not() -> None:
    assert len(PATTERNS) > 100
    assert set(PATTERNS) >= set(ELSEWHERE)


def test_one_that_reads_on_from_each_character_is_seen() -> None:
    assert takes_long(re.compile(r"[\w.]+#"), "a." * 6_000)


@pytest.mark.parametrize("name", sorted(set(PATTERNS) - set(ELSEWHERE)))
def test_a_pattern_takes_a_few_looks_at_each_character(name: str) -> None:
    for piece in PIECES:
        for length in LENGTHS:
            text = piece * (length // len(piece)) + "!"  # what is looked for behind them is not there
            assert not takes_long(PATTERNS[name], text), f"{length} characters of {piece!r}"
