"""Lines of calls: one agent's calls to one provider or MCP server, in order of arrival."""

import asyncio
from collections import OrderedDict
from operator import attrgetter
from typing import Final, Protocol

from circadia.ids import AgentId

ORDER_SECONDS: Final = 2.0
"""Maximum time that nothing may move in a line before the calls in it pass the first one."""


class InLine(Protocol):
    line: tuple[AgentId, str]
    """Its agent, and where it goes."""
    number: int
    """Its place in order of arrival."""
    turn: asyncio.Future[None] | None
    """Done when the calls before it have left, while it waits for that."""


class Lines:
    def __init__(self) -> None:
        self._lines: dict[tuple[AgentId, str], OrderedDict[InLine, None]] = {}

    def has(self, call: InLine) -> bool:
        """Return whether there is a line that the call would have to join."""
        return call.line in self._lines

    def join(self, call: InLine) -> None:
        """Put a call into its line; one that was in it before comes back to its place."""
        line = self._lines.setdefault(call.line, OrderedDict())
        if call in line:
            return
        is_last = not line or next(reversed(line)).number < call.number
        line[call] = None
        if not is_last:
            for each in sorted(line, key=attrgetter("number")):
                line.move_to_end(each)

    def leave(self, call: InLine) -> None:
        """Remove a call from its line and let the next one go."""
        line = self._lines.get(call.line)
        if line is None or call not in line:
            return
        del line[call]
        if not line:
            del self._lines[call.line]
            return
        turn = next(iter(line)).turn
        if turn is not None and not turn.done():
            turn.set_result(None)

    async def wait(self, call: InLine) -> None:
        """Wait until the calls before it have left, or nothing has moved in the line for `ORDER_SECONDS`."""
        line = self._lines.get(call.line)
        if line is None or call not in line:
            return
        has_moved = True
        while has_moved and (first := next(iter(line))) is not call:
            call.turn = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(ORDER_SECONDS):
                    await call.turn
            except TimeoutError:
                has_moved = next(iter(line)) is not first
            finally:
                call.turn = None
