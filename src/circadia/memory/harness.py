"""What programs around agents write into a user turn beside what the person said: it is nobody's word, and no question.

Coding agents and editors put reminders, the time, open files and outputs of commands there, each in an element with a
name of its own. The names are those that Claude Code, Codex, Cline, Roo Code, Cursor and Copilot use; none has a
specification.
"""

import re
from typing import Final

_ADDED: Final = (
    # Claude Code
    "system-reminder", "command-name", "command-message", "command-args", "local-command-stdout",
    "local-command-stderr", "local-command-caveat", "bash-input", "bash-stdout", "bash-stderr", "task-notification",
    "ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics", "user-prompt-submit-hook",
    "session-start-hook", "user-memory-input",
    # Codex
    "environment_context", "user_instructions", "INSTRUCTIONS", "turn_aborted", "user_shell_command",
    "subagent_notification",
    # Cline, Roo Code
    "environment_details", "file_content", "folder_content", "workspace_diagnostics",
    # Cursor
    "user_info", "system_reminder", "additional_data", "project_layout", "open_and_recently_viewed_files",
    # Copilot
    "environment_info", "workspace_info", "reminderInstructions", "editorContext",
)  # fmt: skip
"""Elements whose content is the program's."""
_AROUND: Final = ("user_query", "userRequest", "user_message", "task", "feedback")
"""Elements whose content is all that the person said."""
_OPEN: Final = re.compile(
    rf"(?:\# AGENTS\.md instructions for [^\n<>]{{1,500}}\n\s{{0,9}})?<({'|'.join(_ADDED)})(?: [^<>]{{0,500}})?>"
)
_WRAPPED: Final = re.compile(rf"<({'|'.join(_AROUND)})>(.*)</\1>", re.DOTALL)
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
        name = head[1]
        if head.start() < at or name in endless:
            continue
        end = text.find(f"</{name}>", head.end())
        if end < 0:
            endless.add(name)
            continue
        kept.append(text[at : head.start()])
        at = end + len(name) + 3
    said = _STOPPED.sub("", "".join((*kept, text[at:]))) if kept or "[Request" in text else text
    wrapped = _WRAPPED.fullmatch(said.strip())
    said = wrapped[2] if wrapped and f"</{wrapped[1]}>" not in wrapped[2] else said
    return text if said == text else said.strip()
