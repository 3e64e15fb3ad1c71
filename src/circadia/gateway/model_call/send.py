"""Sends a prepared call: its turn, a connection, the gate's decision and the write.

`wire/pool.py` takes the connection and asks `RelayedCall.clear_to_send` in the step in which it writes the first byte.
If the agent sleeps again, `AsleepAgain` ends the attempt, and nothing was sent.
"""

import logging
from dataclasses import replace
from functools import partial
from typing import Final

from circadia.gateway.calls.headers import to_upstream
from circadia.gateway.calls.upstream import ModelCall
from circadia.gateway.dialects.base import Dialect, Plain
from circadia.gateway.dialects.errors import is_too_long, refuses_system_prompt
from circadia.gateway.dialects.meters import Meter
from circadia.gateway.hold.bodies import CallBody, run_off_loop
from circadia.gateway.hold.reply import Headers, Reply
from circadia.gateway.memory.conversations import NO_FOLLOW_UP
from circadia.gateway.model_call.hold import Gate, GateCall
from circadia.gateway.payload.options import add_usage_option, refuses_usage_option
from circadia.gateway.wire.connection import ProviderResponse

_logger = logging.getLogger(__name__)

_UNSENT_METER: Final[Meter] = Plain().meter(streamed=False, take_usage_out=False, chain=())


class RelayedCall:
    """A model call on its way to its provider, and its answer on the way back. It is its own `Clearance`."""

    __slots__ = (
        "_gate", "_gate_call", "adds_usage", "call", "error_start", "first_byte_at", "follow_up", "has_memory",
        "is_free", "is_ready", "is_sent", "is_too_long", "kept_bytes", "meter", "notice", "reply", "request_start",
        "sends", "status",
    )  # fmt: skip

    def __init__(self, call: ModelCall, reply: Reply, gate: Gate, gate_call: GateCall | None = None) -> None:
        """`gate_call` is None for a call that generates nothing, which no gate stops."""
        self.call = call
        self.reply = reply
        self._gate_call = gate_call
        self.follow_up = NO_FOLLOW_UP
        self.notice = ""
        """What it tells its model of the wake; empty if it was not held, or needs none."""
        self.has_memory = False
        """Whether memory, or what earlier calls told of wakes, was added to its body."""
        self.meter = _UNSENT_METER
        self.status: int | None = None
        self.first_byte_at: float | None = None
        self.adds_usage = False
        """Whether it requests usage that its caller did not request."""
        self.is_sent = False
        """Whether it may have reached the provider, or was answered without it."""
        self.is_ready = False
        """Whether it got a ready answer and never went to the provider."""
        self.is_too_long = False
        """Whether the provider refused it as longer than the model's context."""
        self.is_free = False
        """Whether the provider certainly did no work for it."""
        self.sends = 0
        """How often it was written."""
        self.kept_bytes = 0
        """How much of its request and answer is kept; 0 keeps nothing."""
        self.request_start = b""
        self.error_start = b""
        """The beginning of the provider's error."""
        self._gate = gate

    async def wait_for_turn(self) -> None:
        if self._gate_call is not None:
            await self._gate.wait_for_turn(self._gate_call)

    async def wait_to_send(self) -> None:
        if self._gate_call is not None:
            await self._gate.wait_to_send(self._gate_call)

    def clear_to_send(self) -> None:
        """Raise AsleepAgain if its agent is asleep: then nothing counts as sent. Else from now on the call does."""
        if self._gate_call is not None:
            self.is_sent = False
            self._gate.clear_to_send(self._gate_call)
        self.is_sent = True
        self.sends += 1

    async def clear_without_sending(self) -> None:
        """Wait as a call that is sent, for one that the gateway answers itself. Raises AsleepAgain."""
        await self.wait_for_turn()
        await self.wait_to_send()
        self.clear_to_send()

    def start_meter(self, *, streamed: bool) -> Meter:
        self.meter = self.call.dialect.meter(
            streamed=streamed,
            take_usage_out=self.adds_usage,
            chain=self.call.request.chain,
            words=self.follow_up.pending_turn is not None or self.kept_bytes > 0,
        )
        return self.meter

    @property
    def answer_headers(self) -> Headers:
        return () if self.follow_up.lookup is None else self.follow_up.lookup.headers

    @property
    def did_nothing(self) -> bool:
        """Whether its provider certainly did no work for it."""
        return self.is_free or (self.status is not None and self.status >= 400)

    @property
    def needed_approval(self) -> bool:
        return self._gate_call is not None and self._gate_call.approval is not None

    def give_approval_back(self) -> None:
        """Let a repeat have the approval that this call needed, if it needed one."""
        if self._gate_call is not None and self._gate_call.approval is not None:
            self._gate_call.approval.give_back()

    @property
    def was_read(self) -> bool:
        """Whether its provider has begun to answer it."""
        return self.status is not None and self.status < 400

    @property
    def is_answered(self) -> bool:
        return self.was_read and self.meter.complete


async def send_call(relayed: RelayedCall, body: CallBody) -> tuple[ProviderResponse, bytes | None]:
    """Send the body with what was added; without memory if that is too long for its model, or makes it refuse the call.

    Return the answer, with its whole body unless it streams. Raises as `Upstream.send`.
    """
    answer, whole = await _send(relayed, body.with_additions or body.content)
    if not relayed.has_memory or whole is None:
        return answer, whole
    relayed.is_too_long = is_too_long(answer.status, whole)
    if relayed.is_too_long or refuses_system_prompt(answer.status, whole):
        call, why = relayed.call, "too long for its model" if relayed.is_too_long else "refused for its system prompt"
        _logger.warning("a call of %r is %s with memory, and goes without", call.agent.reference, why)
        relayed.follow_up = replace(relayed.follow_up, uses=(), lookup=None, additions="", memory="")
        answer.close()
        plain = await run_off_loop(body.content, partial(_with_notice, call.dialect, body.content, relayed.notice))
        answer, whole = await _send(relayed, plain)
    return answer, whole


async def _send(relayed: RelayedCall, body: bytes) -> tuple[ProviderResponse, bytes | None]:
    """Send the body; once more without the request for usage if the provider does not know that."""
    answer, whole = await _send_once(relayed, body)
    upstream = relayed.call.provider.upstream
    if relayed.adds_usage and whole is not None and refuses_usage_option(answer.status, whole):
        answer.close()
        upstream.takes_usage_option = False
        answer, whole = await _send_once(relayed, body)
        upstream.takes_usage_option = answer.status >= 400  # then that was not the reason
    return answer, whole


async def _send_once(relayed: RelayedCall, body: bytes) -> tuple[ProviderResponse, bytes | None]:
    call, upstream, missing = relayed.call, relayed.call.provider.upstream, relayed.call.request.missing_usage
    relayed.adds_usage = missing is not None and call.agent.policy.include_usage and upstream.takes_usage_option
    if missing is not None and relayed.adds_usage:
        body = await run_off_loop(body, partial(add_usage_option, body, missing))
    return await upstream.send(
        call.method,
        call.target,
        to_upstream(call.headers),
        body,
        again=call.route.dialect != "plain" or call.method == "GET",
        once=relayed.needed_approval,
        streamed=call.request.streamed,
        clearance=relayed,
    )


def _with_notice(dialect: Dialect, body: bytes, notice: str) -> bytes:
    prompt = dialect.prompt(body) if notice else None
    return body if prompt is None else prompt.with_line(notice)
