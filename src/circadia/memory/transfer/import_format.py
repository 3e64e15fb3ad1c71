"""The formats of files that can be imported, apart from their readers, which take long to load."""

from enum import StrEnum


class ImportFormat(StrEnum):
    JSONL = "jsonl"
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    """Rollouts of Codex."""
    OPENCLAW = "openclaw"
    """Transcripts and daily notes of OpenClaw."""
    PLAIN = "plain"
    """JSON Lines with `speaker` and `text`, optionally `at` and `session`."""
    CHATGPT = "chatgpt"
    """`conversations.json` of ChatGPT's data export."""
    CLAUDE_AI = "claude-ai"
    """`conversations.json` of claude.ai's data export."""
    MEM0 = "mem0"
    """The result of mem0's `get_all`."""
    LANGMEM = "langmem"
    """Items of a LangGraph store, as LangMem writes them."""
