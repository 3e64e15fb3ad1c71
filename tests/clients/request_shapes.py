"""The shapes of real programs' requests: their fields, roles, types and sizes, with texts of our own.

A fixture holds no word of a program. `{{3:2048}}` stands for its third text of 2,048 characters, and `{{title}}` for
the words by which the server recognises a call for a title; `restore` writes texts of ours in their places.
"""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any, cast

from circadia.memory.capture.harness import find_chore

_KEPT = frozenset({
    "type", "role", "name", "model", "status", "effort", "verbosity", "tool_choice", "ttl", "format", "originator",
    "responseMimeType", "thinkingLevel", "keep", "include", "context", "summary", "request_kind", "required", "syntax",
})  # fmt: skip
"""Fields whose values are words of an API or names of tools."""
_SCHEMAS = frozenset({"parameters", "input_schema", "parametersJsonSchema"})
"""Fields with the arguments of a tool, which no gateway reads."""
_SYSTEM = frozenset({"system", "systemInstruction", "instructions"})
_WORD = re.compile(r"[\w.$/:-]{1,80}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OURS = re.compile(r"[a-z]+_mock\d+")
_ELEMENT = re.compile(r"<([A-Za-z_-]{3,40})>[\s\S]*?</\1>")
_PLACE = re.compile(r"\{\{(?:(\d+):(\d+)|([a-z]+))\}\}")
_SENT_ANEW = frozenset({"host", "connection", "content-length", "accept-encoding"})
_KEYS = frozenset({"authorization", "x-api-key", "x-goog-api-key"})
_NAMES = re.compile(r"(session|thread|window|request|user|conversation|affinity).*", re.IGNORECASE)


class ShapeWriter:
    """Replaces a program's texts and ids: the same one by the same, in all its requests. `ours` stay as they are."""

    def __init__(self, ours: Iterable[str]) -> None:
        self._ours = re.compile("|".join(map(re.escape, sorted(ours, key=len, reverse=True))))
        self._texts: dict[str, int] = {}
        self._ids: dict[str, int] = {}

    def headers(self, sent: Iterable[tuple[str, str]]) -> dict[str, str | None]:
        """Return the headers that a program chose; None for the one with the agent's token."""
        named = {name.lower(): value for name, value in sent}
        return {
            name: None if name in _KEYS else self._header(name, value)
            for name, value in named.items()
            if name not in _SENT_ANEW
        }

    def body(self, value: Any, key: str = "", role: str = "") -> Any:
        """Return a body, or a part of it, without the program's texts."""
        role = "system" if key in _SYSTEM else role
        if isinstance(value, dict):
            parts = cast("dict[str, Any]", value)
            role = role if role == "system" else parts.get("role") or role
            empty: dict[str, Any] = {"type": "object", "properties": {}}
            return {
                name: empty if name in _SCHEMAS and "properties" in str(part) else self.body(part, name, role)
                for name, part in parts.items()
            }
        if isinstance(value, list):
            return [self.body(part, key, role) for part in cast("list[Any]", value)]
        return self._string(value, key, role) if isinstance(value, str) else value

    def _string(self, text: str, key: str, role: str) -> str:
        if key in _KEPT and _WORD.fullmatch(text):
            return text
        if key.lower().endswith(("id", "cache_key")) and " " not in text and not text.startswith("{"):
            return self._id(text)
        if text.startswith("{") and (parsed := _parse(text)) is not None:
            return json.dumps(self.body(parsed), separators=(",", ":"))
        system = role in ("system", "developer")
        return self._text(text, find_chore(text, "") if system else find_chore("", text), elements=role == "user")

    def _header(self, name: str, value: str) -> str:
        parsed = _parse(value) if value.startswith("{") else None
        if parsed is not None:
            return json.dumps(self.body(parsed), separators=(",", ":"))
        if _NAMES.search(name) and name != "user-agent":
            return self._id(value)
        return re.sub(r"linux \d[\w.-]+", "linux 6.1", value)

    def _id(self, text: str) -> str:
        if _OURS.fullmatch(text):
            return text
        if _UUID.search(text):
            return _UUID.sub(lambda found: f"00000000-0000-4000-8000-{self._number(found[0]):012}", text)
        if re.fullmatch("[0-9a-f]{64}", text):
            return f"{self._number(text):064x}"
        return f"{re.match('[a-z]*_?', text)[0]}{self._number(text)}"  # pyright: ignore[reportOptionalSubscript]

    def _number(self, name: str) -> int:
        return self._ids.setdefault(name, len(self._ids) + 1)

    def _text(self, text: str, mark: str = "", *, elements: bool = False) -> str:
        pieces: list[str] = []
        at = 0
        for found in self._ours.finditer(text):
            pieces += self._foreign(text[at : found.start()], elements), found[0]
            at = found.end()
        pieces.append(self._foreign(text[at:], elements))
        return "".join((f"{{{{{mark}}}}} " if mark else "", *pieces))

    def _foreign(self, text: str, elements: bool) -> str:
        if not re.search(r"\w", text):
            return text
        element = _ELEMENT.search(text) if elements else None
        if element is not None:
            name = element[1]
            inside = self._foreign(element[0][len(name) + 2 : -len(name) - 3], False)
            around = [self._foreign(part, True) for part in (text[: element.start()], text[element.end() :])]
            return f"{around[0]}<{name}>{inside}</{name}>{around[1]}"
        number = self._texts.setdefault(text, len(self._texts) + 1)
        return f"{{{{{number}:{len(text)}}}}}"


def restore(value: Any, marks: Mapping[str, str]) -> Any:
    """Return a stored body with texts of ours in the places of the program's."""
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return {name: restore(part, marks) for name, part in parts.items()}
    if isinstance(value, list):
        return [restore(part, marks) for part in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    return _PLACE.sub(lambda found: marks[found[3]] if found[3] else _fill(int(found[1]), int(found[2])), value)


def _fill(number: int, length: int) -> str:
    words = (f"{word}{number}" for word in cycle(("amber", "birch", "cedar", "delta", "ember", "fjord")))
    text = next(words)
    while len(text) < length:
        text += f" {next(words)}"
    return text[: max(length, len(str(number)) + 5)]


def _parse(text: str) -> dict[str, Any] | None:
    try:
        return json.loads(text)
    except ValueError:
        return None
