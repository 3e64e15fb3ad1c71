"""The model of the example teams: it follows the agents' descriptions in examples/frameworks/team.json."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from circadia.testing.upstream_script import ScriptedToolCall
from tests.house.tree import ROOT

TEAM_FILE: Final = ROOT / "examples" / "frameworks" / "team.json"
TASK: Final = "Write the notes of 7.1."
RESULT: Final = "Approved: In 7.1, idle agents sleep."
CALLS: Final = {"lead": 6, "writer": 3, "reviewer": 3}
"""The model calls that the task takes each agent."""

_THREAD: Final = {"thread": "release notes"}
_WAIT: Final = {"timeout_seconds": 20}
_STEPS: Final[Mapping[str, tuple[tuple[str, Mapping[str, Any]] | str, ...]]] = {
    "lead": (
        ("wait_for_message", _WAIT),
        ("create_thread", {"name": "release notes", "participants": ["writer", "reviewer"]}),
        ("send_message", {**_THREAD, "content": TASK, "mentions": ["writer"]}),
        ("wait_for_mention", _WAIT),
        ("close_thread", {**_THREAD, "summary": "Done."}),
        RESULT,
    ),
    "writer": (
        ("wait_for_mention", _WAIT),
        ("send_message", {**_THREAD, "content": "In 7.1, idle agents sleep.", "mentions": ["reviewer"]}),
        "Written.",
    ),
    "reviewer": (
        ("wait_for_mention", _WAIT),
        ("send_message", {**_THREAD, "content": RESULT, "mentions": ["lead"]}),
        "Reviewed.",
    ),
}
_HEARD: Final = {"lead": {1: TASK, 4: RESULT}, "writer": {1: TASK}, "reviewer": {1: "In 7.1, idle agents sleep."}}
"""What an agent's prompt must contain at a step: the message that a tool of Circadia has brought."""


class TeamModel:
    """Answers each agent's next call with its next step, once the prompt has what the steps before have brought."""

    def __init__(self) -> None:
        team = json.loads(TEAM_FILE.read_text("utf-8"))["agents"]
        self._names = {agent["description"]: agent["name"] for agent in team}
        self.calls = dict.fromkeys(CALLS, 0)
        self.problems: list[str] = []
        """Prompts without the message that should have arrived, and calls that are no step."""

    def reply(self, asked: dict[str, Any]) -> str | ScriptedToolCall:
        texts = list(_strings(asked))
        name = next((name for words, name in self._names.items() if any(words in text for text in texts)), None)
        tools = list(_tool_names(asked))
        if name is None or not tools:
            return "Fine."  # programs also ask for titles and the like
        step = self.calls[name]
        self.calls[name] += 1
        if step >= len(_STEPS[name]):
            self.problems.append(f"call {step + 1} of {name}")
            return "Done."
        heard = _HEARD[name].get(step, "")
        if not any(heard in text for text in texts):
            self.problems.append(f"{name} has not heard {heard!r} at step {step}")
        action = _STEPS[name][step]
        if isinstance(action, str):
            ends = "final_answer" in tools
            return ScriptedToolCall(name="final_answer", arguments={"answer": action}) if ends else action
        tool, arguments = action
        return ScriptedToolCall(name=_full_name(tool, tools), arguments=arguments)


def _full_name(tool: str, tools: list[str]) -> str:
    """Return the framework's name of a tool of Circadia: some put the server's name before it."""
    return next(name for name in tools if re.search(rf"(^|[^a-z]|circadia_){tool}$", name))


def _tool_names(asked: Mapping[str, Any]) -> Iterator[str]:
    for tool in asked.get("tools") or ():
        yield tool.get("name") or tool["function"]["name"]


def _strings(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping | list):
        for part in node.values() if isinstance(node, Mapping) else node:  # pyright: ignore[reportUnknownVariableType]
            yield from _strings(part)  # pyright: ignore[reportUnknownArgumentType]
