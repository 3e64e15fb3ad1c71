"""Takes an admitted model call to its upstream and the answer back, and writes down what it used."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import aiohttp
import orjson

from circadia.agents.presence import Presence
from circadia.clock import Clock
from circadia.errors import CircadiaError, StillAsleep, UpstreamFailed, UpstreamTimedOut
from circadia.gateway import headers as crossing
from circadia.gateway.budget import Budget, budgeted
from circadia.gateway.dialects.base import Meter
from circadia.gateway.dialects.plain import Plain
from circadia.gateway.gate import Passage
from circadia.gateway.journal import Journal
from circadia.gateway.ledger import Outcome, answered, reserved, settled
from circadia.gateway.model_call import ModelCall
from circadia.gateway.notice import notice
from circadia.gateway.owners import Owners
from circadia.gateway.reply import Phase, Reply
from circadia.gateway.stream import WholeEvents
from circadia.gateway.turns import SleepTier, Turn, Turns
from circadia.ids import AgentId, CallId, IdSource
from circadia.records.agent import Agent, OnWake
from circadia.records.event import EventType
from circadia.stores.base import Store

_LONGEST_ERROR = 65_536
"""Bytes that are read of an error which an upstream sends as a stream."""


_COUNTS_KEPT: Final = 10_000
"""Agents whose count of unread messages at their last wake is kept."""
_UNREAD: Final[Meter] = Plain("openai").meter(streamed=False, take_usage_out=False, chain=())
"""Stands for the meter of a call that was not sent."""


class Relay:
    """What happens to a model call behind the gate."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        store: Store,
        presence: Presence,
        journal: Journal,
        owners: Owners,
        budget: Budget,
        turns: Turns,
        tier: SleepTier,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._store = store
        self._presence = presence
        self._journal = journal
        self._owners = owners
        self._budget = budget
        self._turns = turns
        self._tier = tier
        self._counts: dict[AgentId, tuple[int, asyncio.Future[int]]] = {}

    async def plain(self, call: ModelCall, body: bytes, reply: Reply) -> None:
        """Pass on a call that generates nothing: no hold, no usage."""
        meter = call.dialect.meter(streamed=call.request.streamed, take_usage_out=False, chain=())
        with self._told(call):
            await self._pass_on(call, body, reply, meter, None)

    async def generate(self, call: ModelCall, body: bytes, passage: Passage, reply: Reply) -> None:
        """Send the call, changed as declared, and pass the answer on; write down its usage whatever happens."""
        policy = call.agent.policy
        if passage.held and policy.on_wake is OnWake.REFRESH and reply.phase is Phase.SILENT:
            raise StillAsleep("the agent slept since this was written; send it again, made anew", retry_after_seconds=1)
        turn = await self._turns.begin(call.agent, call.request, call.headers)
        meter = _UNREAD
        outcome = Outcome(CallId(self._ids.new("call")), self._clock.now(), self._clock.monotonic())
        try:
            if budgeted(policy):
                outcome.at = (await self._budget.reserve(call.agent, reserved(call, turn, passage, outcome))).at
            body = await self._tier.before(turn, body)
            if passage.held and policy.on_wake is not OnWake.FORWARD:
                body = call.dialect.with_line(body, notice(passage, await self._unread(call.agent, passage)))
            asking = call.dialect.with_usage(body) if policy.include_usage and call.request.streamed else None
            meter = call.dialect.meter(
                streamed=call.request.streamed, take_usage_out=asking is not None, chain=call.request.chain
            )
            outcome.sent = True
            with self._told(call):
                await self._pass_on(call, body if asking is None else asking, reply, meter, outcome)
        except UpstreamFailed as error:
            outcome.free = isinstance(error.__cause__, aiohttp.ClientConnectorError)
            raise
        finally:
            self._write_down(call, turn, passage, meter, outcome)

    async def _pass_on(self, call: ModelCall, body: bytes, reply: Reply, meter: Meter, outcome: Outcome | None) -> None:
        headers = crossing.to_upstream(call.headers)
        again = call.route.dialect != "plain" or call.method == "GET"
        async with call.provider.upstream.send(call.method, call.target, headers, body, again=again) as (
            response,
            whole,
        ):
            if outcome is not None:
                outcome.status = response.status
                outcome.first = self._clock.monotonic()
            if response.status >= 400:
                self._error_event(call, response.status, "answered with an error")
            if reply.phase is Phase.OPENED:
                await _require_fitting(call, response, whole)
            if whole is None:
                await self._pass_stream(call, response, reply, meter)
            else:
                await self._pass_whole(call, response, whole, reply, meter)

    async def _pass_whole(
        self, call: ModelCall, response: aiohttp.ClientResponse, whole: bytes, reply: Reply, meter: Meter
    ) -> None:
        if response.status < 300:
            meter.feed(whole)
            meter.end()
            await self._owners.record(call.agent, call.provider.upstream.name, meter.ids)
        else:
            whole = call.provider.upstream.without_key(whole)
        opened = reply.phase is Phase.OPENED
        headers = [] if opened else crossing.to_caller(response.raw_headers, length=False)
        await reply.whole(response.status, headers, whole)

    async def _pass_stream(self, call: ModelCall, response: aiohttp.ClientResponse, reply: Reply, meter: Meter) -> None:
        owned = 0
        events = WholeEvents()
        with self._cut_by_sleep(call, response) as cut:
            try:
                await reply.start(response.status, crossing.to_caller(response.raw_headers, length=False))
                async for chunk in response.content.iter_any():
                    passed = meter.feed(chunk)
                    if len(meter.ids) > owned:
                        await self._owners.record(call.agent, call.provider.upstream.name, meter.ids[owned:])
                        owned = len(meter.ids)
                    await reply.write(events.feed(passed))
            except (aiohttp.SocketTimeoutError, TimeoutError) as error:
                raise UpstreamTimedOut(f"upstream {call.provider.upstream.name!r} stopped in its stream") from error
            except (aiohttp.ClientError, OSError) as error:
                if cut.done():
                    raise StillAsleep("the agent was put to sleep and its stream cut") from error
                raise UpstreamFailed(f"upstream {call.provider.upstream.name!r} broke off in its stream") from error
        await reply.finish(events.end() + meter.end())

    @contextmanager
    def _cut_by_sleep(self, call: ModelCall, response: aiohttp.ClientResponse) -> Generator[asyncio.Future[None]]:
        """Close the stream when the agent falls asleep, if its policy says so (GATE-45)."""
        cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cell = self._presence.known(call.agent.id)
        if not call.agent.policy.abort_streams or cell is None:
            yield cut
            return

        def close(_: asyncio.Future[None]) -> None:
            response.close()
            response.content.set_exception(aiohttp.ClientPayloadError("cut by sleep"))

        cut.add_done_callback(close)
        cell.streams.add(cut)
        if cell.asleep:  # since before the first byte
            cut.set_result(None)
        try:
            yield cut
        finally:
            cell.streams.discard(cut)
            cut.remove_done_callback(close)

    @contextmanager
    def _told(self, call: ModelCall) -> Generator[None]:
        """Record an upstream's failure as an event."""
        try:
            yield
        except CircadiaError as error:
            if isinstance(error, UpstreamFailed):
                self._error_event(call, None, error.message)
            raise

    def _error_event(self, call: ModelCall, status: int | None, message: str) -> None:
        self._journal.event(
            EventType.UPSTREAM_ERROR,
            call.agent.session,
            call.agent.name,
            upstream=call.provider.upstream.name,
            endpoint=call.dialect.endpoint,
            status=status,
            message=message,
        )

    async def _unread(self, agent: Agent, passage: Passage) -> int:
        """Return how many messages wait for the agent; asked once for all calls that one wake admits."""
        known = self._counts.get(agent.id)
        if known is None or known[0] != passage.generation:
            if len(self._counts) >= _COUNTS_KEPT:
                self._counts.clear()
            known = self._counts[agent.id] = (passage.generation, asyncio.ensure_future(self._count(agent)))
        return await asyncio.shield(known[1])

    async def _count(self, agent: Agent) -> int:
        async with self._store.read() as tx:
            return await tx.deliveries.count_unread(agent.id)

    def _write_down(self, call: ModelCall, turn: Turn, passage: Passage, meter: Meter, outcome: Outcome) -> None:
        if not outcome.sent:
            if budgeted(call.agent.policy):  # its caller went while the budget was asked: the place is free again
                self._budget.release(outcome.id)
            return
        seconds = self._clock.monotonic() - outcome.began
        self._journal.put(settled(call, turn, passage, outcome, meter, seconds))
        whole = answered(meter, outcome)
        self._turns.end(turn, call.request, answer=meter.answer_hashes, handle=meter.handle, answered=whole)
        self._tier.after(turn, answered=whole)


async def _require_fitting(call: ModelCall, response: aiohttp.ClientResponse, whole: bytes | None) -> None:
    """Raise UpstreamFailed unless the answer fits the 200 that its caller was told already."""
    name = call.provider.upstream.name
    if response.status >= 300:
        told = await response.content.read(_LONGEST_ERROR) if whole is None else whole
        detail = _message(call.provider.upstream.without_key(told))
        raise UpstreamFailed(f"upstream {name!r} answered {response.status}{detail}")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise UpstreamFailed(f"upstream {name!r} compressed its answer, although it was asked not to")
    if call.request.streamed != (whole is None):
        wanted = "a stream" if call.request.streamed else "one answer"
        raise UpstreamFailed(f"upstream {name!r} did not send {wanted}, as was asked")
    if whole is not None and not whole.lstrip().startswith((b"{", b"[")):
        raise UpstreamFailed(f"upstream {name!r} answered with something that is not JSON")


def _message(body: bytes) -> str:
    """Return what a provider's error body says, shortened."""
    try:
        error = orjson.loads(body)["error"]
        return f": {str(error['message'])[:300]}"
    except (ValueError, TypeError, KeyError):
        return ""
