"""The tools, a file per noun."""

from typing import Final

from circadia.mcp_server.tools.agents import AGENT_TOOLS
from circadia.mcp_server.tools.inbox import INBOX_TOOLS
from circadia.mcp_server.tools.memory import MEMORY_TOOLS
from circadia.mcp_server.tools.messages import MESSAGE_TOOLS
from circadia.mcp_server.tools.rethink import RETHINK_TOOLS
from circadia.mcp_server.tools.sleep import SLEEP_TOOLS
from circadia.mcp_server.tools.threads import THREAD_TOOLS
from circadia.mcp_server.tools.tool import Tool
from circadia.mcp_server.tools.waits import WAIT_TOOLS
from circadia.mcp_server.tools.wakes import WAKE_TOOLS

TOOLS: Final[tuple[Tool, ...]] = (
    *AGENT_TOOLS,
    *THREAD_TOOLS,
    *MESSAGE_TOOLS,
    *WAIT_TOOLS,
    *WAKE_TOOLS,
    *INBOX_TOOLS,
    *MEMORY_TOOLS,
    *SLEEP_TOOLS,
)
"""The tools of every agent, in the order of `tools/list`; sleep-time agents have `RETHINK_TOOLS` too."""

__all__ = ["RETHINK_TOOLS", "TOOLS", "Tool"]
