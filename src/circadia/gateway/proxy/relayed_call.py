"""A model call on its way to its provider, and its answer on the way back."""

from dataclasses import replace
from typing import Final

from circadia.gateway.calls.upstream import ModelCall
from circadia.gateway.dialects.base import Meter
from circadia.gateway.dialects.plain import Plain
from circadia.gateway.hold.gate import GateCall
from circadia.gateway.hold.reply import Headers, Reply
from circadia.gateway.memory.conversations import NO_FOLLOW_UP

_UNSENT_METER: Final[Meter] = Plain().meter(streamed=False, take_usage_out=False, chain=())


class RelayedCall:
    """It is the clearance of its own connection to the provider."""

    __slots__ = (
        "_gate_call", "adds_usage", "call", "first_byte_at", "follow_up", "is_free", "is_ready", "is_sent",
        "is_too_long", "meter", "reply", "status",
    )  # fmt: skip

    def __init__(self, call: ModelCall, reply: Reply, gate_call: GateCall | None = None) -> None:
        self.call = call
        self.reply = reply
        self.follow_up = NO_FOLLOW_UP
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
        self._gate_call = gate_call

    async def wait_for_turn(self) -> None:
        if self._gate_call is not None:
            await self._gate_call.wait_for_turn()

    async def wait_to_send(self) -> None:
        if self._gate_call is not None:
            await self._gate_call.wait_to_send()

    def clear_to_send(self) -> None:
        """Raise AsleepAgain if its agent is asleep: then nothing counts as sent. Else from now on the call does."""
        if self._gate_call is not None:
            self.is_sent = False
            self._gate_call.clear_to_send()
        self.is_sent = True

    def start_meter(self, *, streamed: bool) -> Meter:
        self.meter = self.call.dialect.meter(
            streamed=streamed,
            take_usage_out=self.adds_usage,
            chain=self.call.request.chain,
            words=self.follow_up.pending_turn is not None,
        )
        return self.meter

    def drop_memory(self) -> None:
        """Record that the body without memory is sent, because the other was too long."""
        self.is_too_long = True
        self.follow_up = replace(self.follow_up, used=None, lookup=None, additions="")

    @property
    def answer_headers(self) -> Headers:
        return () if self.follow_up.lookup is None else self.follow_up.lookup.headers

    @property
    def was_read(self) -> bool:
        """Whether its provider has begun to answer it."""
        return self.status is not None and self.status < 400

    @property
    def is_answered(self) -> bool:
        return self.was_read and self.meter.complete
