"""Recognise what agent programs write: additions to a user turn, and requests that they make for themselves (GATE-97).

Coding agents and editors add reminders, the time, open files and command output, each in a named element. The names
are those of Claude Code, Codex, Gemini CLI, Cline, Roo Code, Cursor, Copilot and OpenClaw; no specification lists them.
Frameworks also write whole turns, to report a malformed answer or to summarise the conversation; their first words
identify them.

Programs also ask for titles, summaries and memories beside a conversation, and prompt an agent when nobody says
anything. The gateway, imports and dreams share this table of their exact strings. An entry is a program's own string,
not a wording for a purpose: what a person writes about the same thing is kept, whatever its language.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

_LEADS: Final[Mapping[str, tuple[str, ...]]] = {
    "title": (
        # Claude Code, Qwen Code
        "Generate a concise, sentence-case title (3-7 words) that captures the main topic or goal of this coding",
        # Codex
        "Generate a concise, single-line task title of at most",
        # opencode
        "You are a title generator. You output ONLY a thread title.",
        # Copilot
        "You are an expert in crafting pithy titles for chatbot conversations.",
        "You are an expert in crafting ultra-compact titles for chatbot conversations.",
        # Crush, Vercel's chat
        "you will generate a short title based on the first message a user begins a conversation with",
        "- you will generate a short title based on the first message a user begins a conversation with",
    ),
    "summary": (
        # Claude Code, opencode, Roo Code
        "You are a helpful AI assistant tasked with summarizing conversations.",
        "You are an anchored context summarization assistant for coding sessions.",
        # Gemini CLI, Qwen Code
        "You are the component that summarizes internal chat history into a given structure.",
        # aider
        "*Briefly* summarize this partial conversation about programming.",
    ),
    "memory": (
        # Qwen Code
        "You are now acting as the managed memory extraction subagent for an AI coding assistant.",
        "You are performing a managed memory dream",
        "You are selecting memories that will be useful to an AI coding assistant as it processes a user's query.",
        "You are reviewing this conversation to extract reusable skills.",
        # Claude Code
        "You are selecting memories that will be useful to Claude Code as it processes a user's query.",
        # Codex
        "You are a Memory Writing Agent.",
        # OpenClaw
        "Pre-compaction memory flush turn.",
    ),
    # Codex
    "review": ("You are judging one planned coding-agent action.",),
    # Gemini CLI
    "routing": ("You are a specialized Task Routing AI.",),
    # aider
    "commit": (
        "You are an expert software engineer that generates concise, one-line Git commit messages based on the",
    ),
}
"""First words of a line near the beginning of a system prompt."""
_TURNS: Final[Mapping[str, tuple[str, ...]]] = {
    "title": (
        # LibreChat
        "Provide a concise, 5-word-or-less title for the conversation, using",
        # Open WebUI
        "### Task: Generate a concise, 3-5 word title with an emoji summarizing the chat history.",
        "### Task: Generate 1-3 broad tags categorizing the main themes of the chat history",
        # Claude Code
        "You are coming up with a succinct title and git branch name for a coding session based on the provided",
        # OpenClaw
        "Based on this conversation, generate a short 1-2 word filename slug (lowercase, hyphen-separated,",
    ),
    "suggestion": (
        # Open WebUI
        "### Task: Suggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next",
        "### Task: Analyze the chat history to determine the necessity of generating search queries",
        "### Task: You are an autocompletion system.",
        # Claude Code
        "[SUGGESTION MODE: Suggest what the user might naturally type next",
    ),
    # Claude Code
    "summary": ("The user stepped away and is coming back. Recap in under 40 words",),
    "memory": (
        # Claude Code
        "You are now acting as the memory extraction subagent. Analyze the most recent",
        "# Dream: Memory Consolidation",
        # OpenClaw
        "Pre-compaction memory flush.",
    ),
    # Gemini CLI, Qwen Code
    "review": ("Analyze *only* the content and structure of your immediately preceding response (your last turn",),
    # OpenClaw
    "heartbeat": (
        "Read HEARTBEAT.md if it exists",
        "Follow the heartbeat monitor scratch context when provided.",
        "[OpenClaw heartbeat poll]",
        "[OpenClaw exec completion]",
        "[OpenClaw session event]",
        "[OpenClaw cron wake]",
    ),
    "boot": (
        "You are running a boot check. Follow BOOT.md instructions exactly.",
        "A new session was started via /new or /reset.",
    ),
    "schedule": ("[cron:…", "A scheduled reminder has been triggered. The reminder content is:"),
    "subagent": ("[Subagent Context]", "[Subagent Task]"),
}
"""First words of a user turn, after the time that OpenClaw puts before it."""
_ORDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "summary": (
        # Claude Code, Roo Code, Cline
        "Your task is to create a detailed summary of the conversation so far",
        "Your task is to create a detailed summary of this conversation. This summary will be placed at the start",
        "Your task is to create a comprehensive detailed summary of the conversation so far",
        "Now, your urgent task is to create a comprehensive detailed summary of the conversation so far",
        # Codex
        "You are performing a CONTEXT CHECKPOINT COMPACTION",
        # LangChain, LangMem
        "Your sole objective in this task is to extract the highest quality/most relevant context from the",
        "Create a summary of the conversation above:",
        "Extend this summary by taking into account the new messages above:",
        # CrewAI
        "Analyze the following conversation and create a structured summary that preserves",
        # LlamaIndex
        "Write a concise summary about the contents of this conversation",
    ),
    "memory": (
        # mem0
        "You are a Personal Information Organizer, specialized in accurately storing facts",
        "You are a smart memory manager which controls the memory of a system",
    ),
}
"""First words of a sentence near the beginning of a user turn or of a system prompt: something may precede them."""
PROMPTS: Final = frozenset({"schedule", "subagent"})
"""Reasons for which somebody else prompts an agent; in a transcript, what it then says is its work."""
SILENCE: Final = frozenset({"NO_REPLY", "HEARTBEAT_OK"})
"""Answers with which an agent says that it has nothing to say: OpenClaw."""
SENT_AT: Final = re.compile(r"\s{0,9}\[[A-Z][a-z]{2} \d{4}-\d{2}-\d{2} \d{2}:\d{2}[^\]\n]{0,40}\] ?")
"""The time that OpenClaw puts before a user turn."""
_EARLY: Final = 1_500
"""Characters within which such a line or sentence stands."""


_SENTENCE_ENDS: Final = (".", "!", ">")
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


def _join(texts: Iterable[str]) -> str:
    """Return a pattern of these texts, in which any blank fits another and `…` is a character of an id."""
    escaped = (r"\s{1,9}".join(map(re.escape, text.split())).replace(re.escape("…"), r"\S") for text in texts)
    return "|".join(escaped)


_TURN: Final = re.compile(
    rf"(?:{SENT_AT.pattern})?\s{{0,9}}(?:{'|'.join(f'(?P<{why}>{_join(texts)})' for why, texts in _TURNS.items())})"
)


def find_lead_mark(lead: str) -> str:
    """Return why a program sends a request with this system prompt; empty if it has no mark."""
    return _find_early(lead, _LEADS, ()) or _find_early(lead, _ORDERS, _SENTENCE_ENDS)


def find_turn_mark(text: str) -> str:
    """Return why a program wrote this user turn; empty if it has no mark."""
    match = _TURN.match(text)
    return _find_early(text, _ORDERS, _SENTENCE_ENDS) if match is None else match.lastgroup or ""


def _find_early(text: str, marks: Mapping[str, tuple[str, ...]], ends: tuple[str, ...]) -> str:
    """Return the reason of the mark that begins a line near the beginning, or follows one of `ends`."""
    head = text[:_EARLY]
    for why, texts in marks.items():
        for mark in texts:
            at = head.find(mark)
            if at < 0:
                continue
            before = head[:at].rstrip()
            if not before or "\n" in head[len(before) : at] or before.endswith(ends):
                return why
    return ""


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
