"""What programs around agents write into a user turn beside what the person said: it is nobody's word, and no question.

Coding agents and editors put reminders, the time, open files and outputs of commands there, each in an element with a
name of its own. The names are those that Claude Code, Codex, Cline, Roo Code, Cursor and Copilot use; none has a
specification.
"""

import re
from collections.abc import Sequence
from typing import Final

_ADDED: Final = (
    # Claude Code
    "system-reminder", "command-name", "command-message", "command-args", "local-command-stdout",
    "local-command-stderr", "local-command-caveat", "bash-input", "bash-stdout", "bash-stderr", "task-notification",
    "ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics", "user-prompt-submit-hook",
    "session-start-hook", "user-memory-input",
    # Codex
    "environment_context", "turn_aborted", "user_shell_command", "subagent_notification",
    # Cline, Roo Code
    "environment_details", "workspace_diagnostics",
    # Cursor
    "system_reminder", "project_layout", "open_and_recently_viewed_files",
    # Copilot
    "environment_info", "workspace_info", "reminderInstructions", "editorContext",
)  # fmt: skip
"""Elements whose content is the program's: none that people's own prompts have."""
_LAST: Final = ("user_query", "userRequest")
"""Elements whose content is all that the person said, if one begins a line and ends the turn: Cursor, Copilot."""
_AROUND: Final = (*_LAST, "user_message", "task", "feedback")
"""Elements whose content is all that the person said, if one holds the whole turn."""
_OPEN: Final = re.compile(
    r"# AGENTS\.md instructions for [^\n<>]{1,500}\n\s{0,9}<(INSTRUCTIONS)>"
    rf"|<({'|'.join(_ADDED)}|(?:file|folder)_content(?= path=))(?: [^<>]{{0,500}})?>"
)
"""Where such an element begins; some names are everybody's, and the program's only with what stands beside them."""
_ITSELF: Final = (
    r"[^.\n]{0,90}\b(?:an?|the|this|following) (?:chat )?(?:conversation|chat|thread|discussion|dialogue|exchange)\b"
    r"(?=[^\w ]|$| (?:history|log|transcript|above|below|that|which|so|based|using|by|as|with|from|in|later|and)\b)"
)
_LED: Final = re.compile(
    rf"(?:\A|[.!\n])\s{{0,9}}(?:generate|create|write|provide) [^.\n]{{0,60}}\btitle\b{_ITSELF}", re.I
)
"""Of a leading prompt: it orders a title, and it does so at once, not among other things that an agent is to do."""
_ASKED: Final = re.compile(
    r"\s{0,9}(?:#{1,3} ?task:\s{1,9})?(?:please )?(?:generate|create|write|provide|suggest) "
    rf"[^.\n]{{0,60}}\b(?:title|tags|follow-up questions)\b{_ITSELF}",
    re.I,
)
"""Of a user turn: it begins with such an order."""
_LEAD: Final = 300
"""Characters of a leading prompt that say what it is for."""
_STOPPED: Final = re.compile(r"\[Request interrupted by user[^\[\]]{0,20}\]")


def spoken(text: str) -> str:
    """Return what a person said in a user turn: the text without what programs added; as it is if they did not."""
    if "<" not in text and "[Request" not in text:
        return text
    kept: list[str] = []
    at = 0
    endless: set[str] = set()
    """Names that no element ends with any more, so that no text is searched for each of them again."""
    for head in _OPEN.finditer(text):
        name = head[1] or head[2]
        if head.start() < at or name in endless:
            continue
        end = text.find(f"</{name}>", head.end())
        if end < 0:
            endless.add(name)
            continue
        kept.append(text[at : head.start()])
        at = end + len(name) + 3
    said = _STOPPED.sub("", "".join((*kept, text[at:]))) if kept or "[Request" in text else text
    said = _unwrapped(said)
    return text if said == text else said.strip()


def _unwrapped(said: str) -> str:
    """Return what the person's element holds, if there is one."""
    whole = said.strip()
    for name in _AROUND:
        begin, end = f"<{name}>", f"</{name}>"
        if whole.endswith(end) and whole.count(end) == 1:
            at = whole.rfind(begin)
            if at == 0 or (at > 0 and name in _LAST and whole[at - 1] == "\n"):
                return whole[at + len(begin) : -len(end)]
    return said


def is_chore(lead: str, said: Sequence[str], *, continues: bool) -> bool:
    """Return whether a call asks for something about its conversation, such as a title, which no person has asked for.

    `lead` is the prompt that leads it, `said` what is new in its user turns; `continues` tells whether the model has
    spoken before. Clients with a list of conversations make such a call beside the first turn, and repeat its words.
    """
    led = not continues and _LED.search(lead, 0, _LEAD) is not None
    return led or any(_ASKED.match(each) for each in said)
