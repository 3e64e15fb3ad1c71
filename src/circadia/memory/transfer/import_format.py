"""The formats of files that can be imported, apart from their readers, which take long to load."""

from enum import StrEnum
from typing import Final

CHROMA_FILE: Final = "chroma.sqlite3"
"""Name of the database in a folder of Chroma."""


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
    OPENMEMORY = "openmemory"
    """The backup of mem0's OpenMemory: its zip file, or the `memories.json` in it."""
    LETTA = "letta"
    """Letta's agent file."""
    CHROMA = "chroma"
    """A folder of Chroma's persistent client."""
