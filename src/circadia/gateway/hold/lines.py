"""Lines of calls: one agent's calls to one provider or MCP server, in order of arrival."""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from circadia.caches import BoundedDict
from circadia.ids import AgentId, HoldId

ORDER_SECONDS: Final = 2.0
"""Maximum time that nothing may move in a line before the calls in it pass the first one."""
RETRY_SECONDS: Final = 60.0
"""How long a held call whose caller has gone keeps its place for a retry."""
_MARKS_KEPT: Final = 10_000
"""Maximum number of different calls with a mark."""


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


class Retriable(InLine, Protocol):
    retry_key: Hashable
    """Equal for a call and its retries in the same line; None if they cannot be known."""
    arrived: float
    id: HoldId
    since: datetime
    began: float
    continues: HoldId | None


class _Mark(NamedTuple):
    number: int
    since: datetime
    began: float
    hold: HoldId
    left_at: float


class Marks:
    """Gives a call that is asked again the place and the time of the one whose caller has gone (GATE-93)."""

    def __init__(self) -> None:
        self._marks: BoundedDict[Hashable, list[_Mark]] = BoundedDict(_MARKS_KEPT)

    def leave(self, call: Retriable, now: float) -> None:
        if call.retry_key is not None:
            key = call.line, call.retry_key
            self._marks[key] = [*self._marks.get(key, ()), _Mark(call.number, call.since, call.began, call.id, now)]

    def take(self, call: Retriable) -> None:
        """Let the call continue the first hold that one like it has left; the next retry gets the next one."""
        if not self._marks or call.retry_key is None:
            return
        key = call.line, call.retry_key
        marks = sorted(mark for mark in self._marks.pop(key, ()) if mark.left_at > call.arrived - RETRY_SECONDS)
        if len(marks) > 1:
            self._marks[key] = marks[1:]
        if marks:
            call.number, call.since, call.began, call.continues, _ = marks[0]
