"""An MCP server that keeps sessions and resumes streams, made with the official SDK."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage
from pydantic import BaseModel

from tests.fixtures.listening import listening


class ListedEvents(EventStore):
    """All events of all streams; an event's id is its place."""

    def __init__(self) -> None:
        self._events: list[tuple[StreamId, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep an event and return its id."""
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send what came later in the event's stream, and return the stream."""
        place = int(last_event_id)
        stream = self._events[place][0]
        for number, (of, message) in enumerate(self._events[place + 1 :], place + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Confirmation(BaseModel):
    sure: bool


def _build() -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("resumable", version="1", log_level="WARNING")

    @server.tool()
    async def interrupted(context: Context) -> str:
        """Close the stream of this call before its answer; the client must resume it."""
        await context.close_sse_stream()
        return "resumed"

    @server.tool()
    async def announce(context: Context) -> str:
        """Announce new resources on the session's stream of notifications."""
        await context.session.send_resource_list_changed()
        return "announced"

    @server.tool()
    async def confirm(context: Context) -> str:
        """Ask the client a question, and return what its user chose."""
        answer = await context.elicit("Sure?", Confirmation)
        return answer.action

    @server.tool()
    async def session(context: Context) -> str:
        """Return the id of the session."""
        assert context.request_context.request is not None
        return context.request_context.request.headers["mcp-session-id"]

    return server


@asynccontextmanager
async def resumable_server() -> AsyncGenerator[str]:
    """Serve it on a free port and yield its address."""
    app = _build().streamable_http_app(event_store=ListedEvents(), retry_interval=10)
    async with app.router.lifespan_context(app), listening(app) as url:
        yield f"{url}/mcp"
