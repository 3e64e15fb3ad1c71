"""Streamed answers that go on, and are kept for a while, when their caller's connection breaks (WAKE-85).

Only for agents whose policy has `resume_seconds`. Such a call runs in a task of its own and its events are kept in
memory, so that a repeat of the connection costs no second call of the model.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from starlette.types import Message, Send

from circadia.clock import Clock, wait_for_event
from circadia.errors import Forbidden, NotFound, UpstreamFailed
from circadia.gateway.hold.reply import Alarm, Phase, Reply, Ticker, send_error
from circadia.gateway.payload.server_sent_events import EventSplitter, event_data
from circadia.ids import AgentId, CallId, IdSource, PulseId
from circadia.records.agent import Agent
from circadia.records.event import AnswerResume
from circadia.records.principal import Principal

_logger = logging.getLogger(__name__)
Owner = tuple[AgentId, PulseId | None]
"""Whose token made the call: an agent's own, or that of one of its pulses."""
CALL_HEADER: Final = b"x-circadia-call"
_KEEP_ALIVE: Final = b": keep-alive\n\n"
_EVENTS: Final = b"text/event-stream"
_ELSEWHERE: Final = (
    "this server keeps no answer of call {!r}: it was never resumable, its time is over, it became too large, or "
    "another server has it; ask the server that took the call, or make the call again"
)


class ResumableAnswer:
    """One streamed answer: what was sent of it, and those who read it."""

    def __init__(self, answers: "ResumableAnswers", call_id: CallId, agent: Agent, owner: Owner, reply: Reply) -> None:
        self.id = call_id
        self.agent = agent
        self.owner = owner
        self.bytes = 0
        self.is_done = False
        self.is_broken = False
        """Whether it ended in the middle of its protocol."""
        self._answers = answers
        self._reply = reply
        self._send: Send | None = reply.replace_send(self._pass_on)
        """The first caller; None once its connection is broken."""
        self._splitter = EventSplitter()
        self._events: list[bytes] = []
        self._counts: list[int] = []
        """How many events with an SDK's data there are up to each."""
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._readers = 0
        self._is_stream = False
        self._is_kept = False
        self.alarm = Alarm(self._end)

    @property
    def has_reader(self) -> bool:
        return self._send is not None or self._readers > 0

    async def relay(self, work: Awaitable[None]) -> None:
        """Do the work of the call; if the caller leaves in the middle of its stream, it goes on without."""
        task = self._task = asyncio.ensure_future(self._run(work))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            self._send = None
            if not self._is_kept or self._answers.is_stopping:
                task.cancel()
                await asyncio.wait((task,))
            raise
        finally:
            self._send = None
            if self._is_kept:
                self._wait_for_reader()

    async def read(self, after: int, keep_alive_seconds: float) -> AsyncGenerator[bytes]:
        """Yield the events behind the first `after` ones, as they come. Raises UpstreamFailed if they broke off."""
        self._readers += 1
        self._answers.ticker.drop(self.alarm)
        place = 0
        try:
            while True:
                self._news.clear()
                while place < len(self._events):
                    place += 1
                    if self._counts[place - 1] > after:
                        yield self._events[place - 1]
                if self.is_done:
                    break
                await wait_for_event(self._answers.clock, self._news, keep_alive_seconds)
                if not self._news.is_set():
                    yield _KEEP_ALIVE
            if self.is_broken:
                raise UpstreamFailed(f"the answer of call {self.id!r} broke off")
        finally:
            self._readers -= 1
            if self._is_kept and not self.has_reader:
                self._wait_for_reader()

    def drop(self) -> None:
        """Keep it no more; a call that nobody reads ends."""
        self._is_kept = False
        self._answers.forget(self)
        self._events, self._counts, self.bytes = [], [], 0
        self.is_done = self.is_broken = True
        self._news.set()
        if self._send is None and self._task is not None:
            self._task.cancel()

    async def _run(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - as at the boundary of the door, also for those who read the rest
            try:
                await send_error(self._reply, error)
            except Exception:
                if self._send is not None:
                    raise
        finally:
            self.is_broken |= self._reply.phase is not Phase.DONE
            self.is_done = True
            self._news.set()

    async def _pass_on(self, message: Message) -> None:
        """Send a message of the reply to the caller, and keep it if it is a part of the streamed answer."""
        if self._reply.phase >= Phase.ANSWERING:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (CALL_HEADER, self.id.encode())]}
                kind = next((value for name, value in message["headers"] if name.lower() == b"content-type"), b"")
                self._is_stream = kind.startswith(_EVENTS) and message["status"] == 200
            elif self._is_stream:
                self._add(message.get("body", b""), is_last=not message.get("more_body", False))
        elif message["type"] == "http.response.start":  # a stream that is opened before its answer is there
            self._is_stream = True
        if self._send is not None:
            await self._send(message)

    def _add(self, body: bytes, *, is_last: bool) -> None:
        if not self._is_kept:
            if self.is_done:  # it was dropped
                return
            self._is_kept = True
            self._answers.add(self)
        events = [*self._splitter.feed(body)]
        if is_last:
            events += [rest] if (rest := self._splitter.drain()) else []
        for event in events:
            self._events.append(event)
            self._counts.append((self._counts[-1] if self._counts else 0) + _is_counted(event))
        size = sum(map(len, events))
        self.bytes += size
        self._answers.grow(self, size)
        self._news.set()

    def _wait_for_reader(self) -> None:
        seconds = self.agent.policy.resume_seconds or 0.0
        self._answers.ticker.add(self.alarm, self._answers.clock.monotonic() + seconds)

    def _end(self) -> None:
        if not self.has_reader:
            self.drop()


class ResumableAnswers:
    """The answers that this gateway keeps, oldest first, within a number of bytes."""

    def __init__(
        self, clock: Clock, ids: IdSource, ticker: Ticker, max_bytes: int,
        on_resumed: Callable[[Agent, AnswerResume], None],
    ) -> None:  # fmt: skip
        self.clock: Final = clock
        self.ticker: Final = ticker
        self._ids = ids
        self._on_resumed = on_resumed
        self._max_bytes = max_bytes
        self._answers = OrderedDict[str, ResumableAnswer]()
        """Ordered for its first member, which a dict finds by passing over all that were removed before it."""
        self.bytes = 0
        self.is_stopping = False

    @property
    def count(self) -> int:
        return len(self._answers)

    def open(self, agent: Agent, pulse_id: PulseId | None, reply: Reply) -> ResumableAnswer:
        """Return what keeps the answer that this reply sends, once it is a stream."""
        call_id = CallId(self._ids.new("call"))
        opening = reply.reply_format.opening
        reply.reply_format.opening = [*opening, (CALL_HEADER, call_id.encode())]
        return ResumableAnswer(self, call_id, agent, (agent.id, pulse_id), reply)

    def find(self, principal: Principal, call_id: str, after: int) -> ResumableAnswer:
        """Return an answer for the one whose call it is, and record that.

        Raises:
            NotFound: it is not kept here. Forbidden: another token made the call.
        """
        if principal.agent is None:
            raise Forbidden("an answer is resumed with the token that made the call, which is an agent's")
        answer = self._answers.get(call_id)
        if answer is None:
            raise NotFound(_ELSEWHERE.format(call_id))
        if answer.owner != (principal.agent.id, principal.pulse_id):
            raise Forbidden(f"{principal.name!r} did not make call {call_id!r} with this token")
        self._on_resumed(answer.agent, AnswerResume(call=call_id, after=after))
        return answer

    def add(self, answer: ResumableAnswer) -> None:
        self._answers[answer.id] = answer

    def grow(self, answer: ResumableAnswer, size: int) -> None:
        """Make room for bytes of an answer: ended ones that nobody reads go first, then itself."""
        self.bytes += size
        while self.bytes > self._max_bytes:
            ended = (each for each in self._answers.values() if each.is_done and not each.has_reader)
            oldest = next(ended, answer)
            oldest.drop()
            if oldest is answer:
                _logger.warning("call %s of %r is resumable no more: the kept answers would be over %d bytes",
                                answer.id, answer.agent.reference, self._max_bytes)  # fmt: skip
                return

    def forget(self, answer: ResumableAnswer) -> None:
        if self._answers.pop(answer.id, None) is not None:
            self.bytes -= answer.bytes
            self.ticker.drop(answer.alarm)

    def stop(self) -> None:
        """End what nobody reads."""
        self.is_stopping = True
        for answer in [each for each in self._answers.values() if not each.has_reader]:
            answer.drop()


def _is_counted(event: bytes) -> bool:
    """Return whether SDKs hand on the event: they skip comments and pings."""
    return bool(event_data(event).strip()) and not event.startswith(b"event: ping")
