"""The tools, one file per noun."""

from collections.abc import Mapping
from typing import Final

from circadia.mcp_server.tool import Tool
from circadia.mcp_server.tools.corrections import CORRECTION_TOOLS
from circadia.mcp_server.tools.dreams import DREAM_TOOLS, list_folders
from circadia.mcp_server.tools.inbox import INBOX_TOOLS
from circadia.mcp_server.tools.memory import MEMORY_TOOLS, RETHINK_TOOLS
from circadia.mcp_server.tools.messages import MESSAGE_TOOLS, WAIT_TOOLS
from circadia.mcp_server.tools.sleep import ROUTINE_TOOLS, SLEEP_TOOLS
from circadia.mcp_server.tools.threads import THREAD_TOOLS
from circadia.mcp_server.tools.wakes import WAKE_TOOLS

GROUPS: Final[Mapping[str, tuple[Tool, ...]]] = {
    "threads": (*THREAD_TOOLS, *MESSAGE_TOOLS),
    "waits": WAIT_TOOLS,
    "inbox": (*WAKE_TOOLS, *INBOX_TOOLS),
    "memory": (*MEMORY_TOOLS, *CORRECTION_TOOLS),
    "sleep": SLEEP_TOOLS,
}
"""The tools by the groups of a policy's `tools`, in the order of `tools/list`."""
TOOLS: Final[tuple[Tool, ...]] = tuple(tool for group in GROUPS.values() for tool in group)
"""All tools except those of some agents: `RETHINK_TOOLS`, `ROUTINE_TOOLS` and `DREAM_TOOLS`."""

__all__ = [
    "CORRECTION_TOOLS", "DREAM_TOOLS", "GROUPS", "RETHINK_TOOLS", "ROUTINE_TOOLS", "TOOLS", "Tool", "list_folders",
]  # fmt: skip
