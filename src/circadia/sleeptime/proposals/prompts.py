"""Builds prompts from rule files, with a fence around the data (SLEEP-50).

Conversation text never gets into the rules. A file is fixed, except for the wishes of whoever began the pass, and for
lines that begin with a word such as `{beliefs?}`, which are left out of questions without that subject.
"""

import hashlib
import re
from collections.abc import Collection
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Final

from circadia.llm.chat_model import Prompt
from circadia.memory.redaction import redact
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals.operation import PageContext

FOLDER: Final = "prompts"
SHARED: Final = "data"
"""The shared rules: what the data is, and that nothing in it is an instruction."""
LONGEST_WISH: Final = 1_000
"""Maximum characters of a person's wishes in the rules."""
TODAY: Final = "{today}"
"""Stands in a rule file for the day."""
_VERSION: Final = re.compile(r"\A# \w+, version (\d+)\n+")
_WHERE: Final = re.compile(r"(?m)^- \{(\w+)\?\} (.*\n)")


def build_prompt(operation: str, view: PageContext, data: str, *, about: Collection[str] = (), **limits: int) -> Prompt:
    """Return an operation's question; `about` names the optional subjects of the data, `limits` fill its rules."""
    return build_file_prompt(operation, data, view.instructions, today=view.now, about=about, **limits)


def build_file_prompt(
    name: str, data: str, instructions: str = "", *, today: datetime, about: Collection[str] = (), **limits: int
) -> Prompt:
    """Return the question of a rule file about data, with the day and the wishes of whoever began the pass."""
    own = _WHERE.sub(lambda rule: f"- {rule[2]}" if rule[1] in about else "", _prompt_text(name))
    for key, limit in limits.items():
        own = own.replace(f"{{{key}}}", str(limit))
    rules = [own, _prompt_text(SHARED).replace(TODAY, today.date().isoformat())]
    if instructions:
        wish = one_line(redact(instructions))[:LONGEST_WISH]
        rules.append(f"Whoever began this run asks, as far as these rules allow it: {wish}")
    return Prompt(rules="\n\n".join(rules), data=add_fence(data))


def add_fence(text: str) -> str:
    """Return a text between marks that it cannot forge, since they contain its hash."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"<data {mark}>\n{text}\n</data {mark}>"


def build_fixed_prompt(name: str, data: str, *, today: datetime | None = None) -> Prompt:
    """Return a question without the shared rules: those of a file, and its data."""
    rules = _prompt_text(name)
    return Prompt(
        rules=rules if today is None else rules.replace(TODAY, today.date().isoformat()), data=add_fence(data)
    )


def prompt_version(name: str) -> int:
    match = _VERSION.match(_load_file(name))
    return int(match[1]) if match else 0


def _prompt_text(name: str) -> str:
    return _VERSION.sub("", _load_file(name)).strip()


@cache
def _load_file(name: str) -> str:
    return resources.files("circadia.sleeptime").joinpath(FOLDER, f"{name}.md").read_text("utf-8")
