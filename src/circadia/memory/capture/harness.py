"""Remove what agent programs add to a user turn: nobody said it, and it is not part of the question.

Coding agents and editors add reminders, the time, open files and command output, each in a named element. The names
are those of Claude Code, Codex, Gemini CLI, Cline, Roo Code, Cursor, Copilot and OpenClaw; no specification lists them.
Frameworks also write whole turns, to report a malformed answer or to summarise the conversation; their first words
identify them. What programs ask for themselves is in `program_marks`.
"""

import re
from typing import Final

from circadia.memory.capture.program_marks import find_lead_mark, find_turn_mark

_ADDED: Final = (
    # Claude Code
    "system-reminder", "command-name", "command-message", "command-args", "local-command-stdout",
    "local-command-stderr", "local-command-caveat", "bash-input", "bash-stdout", "bash-stderr", "task-notification",
    "ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics", "user-prompt-submit-hook",
    "session-start-hook", "user-memory-input",
    # Codex
    "environment_context", "turn_aborted", "user_shell_command", "subagent_notification", "user_instructions",
    "hook_prompt", "goal_context",
    # Gemini CLI
    "session_context", "hook_context",
    # Cline, Roo Code
    "environment_details", "workspace_diagnostics",
    # Cursor
    "system_reminder", "project_layout", "open_and_recently_viewed_files",
    # Copilot
    "environment_info", "workspace_info", "reminderInstructions", "editorContext",
    # Memory of OpenClaw and its plugins, Supermemory, Hindsight, OpenViking, claude-mem
    "active_memory_plugin", "relevant-memories", "supermemory-context", "supermemory-containers",
    "hindsight_memories", "openviking-context", "claude-mem-context",
    # The prompt with which Circadia asks a coding agent for a dream
    "circadia-dream",
)  # fmt: skip
"""Elements whose content a program wrote; people's own prompts use none of these names."""
_LAST: Final = ("user_query", "userRequest")
"""Elements with all that the person said, if one begins a line and ends the turn: Cursor, Copilot."""
_AROUND: Final = (*_LAST, "user_message", "task", "feedback")
"""Elements with all that the person said, if one holds the whole turn."""
_OPEN: Final = re.compile(
    r"# AGENTS\.md instructions for [^\n<>]{1,500}\n\s{0,9}<(INSTRUCTIONS)>"
    rf"|<({'|'.join(_ADDED)}|(?:file|folder)_content(?= path=)|skill(?=>\s{{0,9}}<name>))(?: [^<>]{{0,500}})?>"
)
"""Start of such an element; common names count only with the text next to them."""
_ITS_OWN: Final = re.compile(
    # Pydantic AI
    r"\s{0,9}(?:Your previous response failed the application's validation \(this is automated feedback"
    r"|Validation feedback:\n(?=[\s\S]{0,100000}\n\nFix the errors and try again\.\s{0,9}\Z)"
    # Instructor
    r"|Correct your JSON ONLY RESPONSE, based on the following errors:"
    r"|Validation Error found:\n(?=[\s\S]{0,100000}\bRecall the function correctly, fix the errors)"
    # CrewAI
    r"|Analyze the tool result\. If requirements are met, provide the Final Answer\."
    r"|Now it's time you MUST give your absolute best final answer\."
    r"|<summary>[\s\S]{0,100000}</summary>\s{0,9}Continue the task from where the conversation left off\."
    # Claude Code, Codex, LangChain: what was said before, in a model's words
    r"|This session is being continued from a previous conversation that ran out of context"
    r"|Another language model started to solve this problem and produced a summary of its thinking process"
    r"|Here is a summary of the conversation to date:\n)"
)
"""First words of texts that programs write as the user: a complaint about an answer, or a summary."""
_STOPPED: Final = re.compile(r"\[Request interrupted by user[^\[\]]{0,20}\]")


def strip_harness_text(text: str) -> str:
    """Return what a person said in a user turn, without what programs added; unchanged if they added nothing."""
    if "<" not in text and "[Request" not in text:
        return text
    kept_texts: list[str] = []
    at = 0
    endless: set[str] = set()
    """Names without another closing tag, so that the text is not searched for them again."""
    for head in _OPEN.finditer(text):
        name = head[1] or head[2]
        if head.start() < at or name in endless:
            continue
        end = text.find(f"</{name}>", head.end())
        if end < 0:
            endless.add(name)
            continue
        kept_texts.append(text[at : head.start()])
        at = end + len(name) + 3
    person_text = _STOPPED.sub("", "".join((*kept_texts, text[at:]))) if kept_texts or "[Request" in text else text
    person_text = _unwrap(person_text)
    return text if person_text == text else person_text.strip()


def own_words(text: str) -> str:
    """Return a text of a user turn, or an empty one if a program wrote it as the user."""
    return "" if _ITS_OWN.match(text) else text


def _unwrap(said: str) -> str:
    whole = said.strip()
    for name in _AROUND:
        begin, end = f"<{name}>", f"</{name}>"
        if whole.endswith(end) and whole.count(end) == 1:
            at = whole.rfind(begin)
            if at == 0 or (at > 0 and name in _LAST and whole[at - 1] == "\n"):
                return whole[at + len(begin) : -len(end)]
    return said


def find_chore(lead: str, said: str) -> str:
    """Return why a program, not a person, makes this request, such as `title` or `heartbeat`; empty for a person.

    `lead` is the system prompt and `said` the last user turn.
    """
    return find_lead_mark(lead) or find_turn_mark(said)
