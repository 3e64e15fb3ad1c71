"""The rules that operations ask with, each in a file of its own, and the fence around what they ask about (SLEEP-50).

Nothing of a conversation goes into rules: a file is fixed, but for what whoever began the pass wants of it, and for
lines that begin with a word such as `{beliefs?}`: each is left out where a question has nothing that it is about.
"""

import hashlib
import re
from collections.abc import Collection
from functools import cache
from importlib import resources
from typing import Final

from circadia.llm.chat_model import Prompt
from circadia.memory.redaction import redact
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals.operation import PageContext

FOLDER: Final = "prompts"
SHARED: Final = "data"
"""The rules that all operations share: what the data is, and that nothing in it is an instruction."""
LONGEST_WISH: Final = 1_000
"""Characters of what a person wants of a pass that are taken into the rules."""
_VERSION: Final = re.compile(r"\A# \w+, version (\d+)\n+")
_WHERE: Final = re.compile(r"(?m)^- \{(\w+)\?\} (.*\n)")


def build_prompt(operation: str, view: PageContext, data: str, *, about: Collection[str] = (), **limits: int) -> Prompt:
    """Return an operation's question about data of this view; its rules may state limits, by name.

    `about` names what the data has of what only some questions are about.
    """
    return build_file_prompt(operation, data, view.instructions, about=about, **limits)


def build_file_prompt(
    name: str, data: str, instructions: str = "", *, about: Collection[str] = (), **limits: int
) -> Prompt:
    """Return the question of a file about data, with what whoever began the pass wants of it."""
    own = _WHERE.sub(lambda rule: f"- {rule[2]}" if rule[1] in about else "", _prompt_text(name))
    for key, limit in limits.items():
        own = own.replace(f"{{{key}}}", str(limit))
    rules = [own, _prompt_text(SHARED)]
    if instructions:
        wish = one_line(redact(instructions))[:LONGEST_WISH]
        rules.append(f"Whoever began this run asks, as far as these rules allow it: {wish}")
    return Prompt(rules="\n\n".join(rules), data=add_fence(data))


def add_fence(text: str) -> str:
    """Return a text between marks that it cannot forge: they hold its own hash."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"<data {mark}>\n{text}\n</data {mark}>"


def build_fixed_prompt(name: str, data: str) -> Prompt:
    """Return a question that no pass asks: the rules of a file, and what they are about."""
    return Prompt(rules=_prompt_text(name), data=add_fence(data))


def prompt_version(name: str) -> int:
    """Return the version of a file of rules."""
    found = _VERSION.match(_load_file(name))
    return int(found[1]) if found else 0


def _prompt_text(name: str) -> str:
    return _VERSION.sub("", _load_file(name)).strip()


@cache
def _load_file(name: str) -> str:
    return resources.files("circadia.sleeptime").joinpath(FOLDER, f"{name}.md").read_text("utf-8")
