"""Signals between processes: what both carriers, PostgreSQL's NOTIFY and Redis, have in common."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import orjson

from circadia.clock import Clock
from circadia.errors import StorageUnavailable
from circadia.stores.signals.base import CONNECTION, LOCAL_TOPICS
from circadia.stores.signals.local import Listener, LocalSignals

_logger = logging.getLogger(__name__)

CHANNEL: Final = "circadia"
MAX_PAYLOAD_BYTES: Final = 7_900
"""PostgreSQL refuses payloads of 8,000 bytes and more."""
MAX_WAITING: Final = 100_000
"""Signals that wait for a lost connection; the oldest go first, since sweeps find what they would have told."""
RETRY_SECONDS: Final = 1.0


def build_channel(process: str | None = None) -> str:
    """Return the channel to which all processes listen, or the one to which only this process does."""
    return CHANNEL if process is None else f"{CHANNEL}_{process}"


class SignalCarrier(Protocol):
    """A connection that carries payloads to all processes of the installation, or to one of them."""

    async def connect(self, receive: Callable[[bytes], None]) -> None:
        """Connect, and call `receive` with each payload that another process sends. Raises StorageUnavailable."""
        ...

    async def send(self, payloads: Sequence[tuple[str, bytes]]) -> None:
        """Send payloads in order, each to its channel. Raises StorageUnavailable: some may be lost."""
        ...

    async def wait_closed(self) -> None:
        """Return when the connection is lost."""
        ...

    async def close(self) -> None: ...


class RemoteSignals:
    """Local signals that other processes hear too, sent in batches: one per turn of the event loop at most."""

    def __init__(self, clock: Clock, carrier: SignalCarrier) -> None:
        self._clock = clock
        self._carrier = carrier
        self._every = LocalSignals()
        self._own = LocalSignals()
        self._waiting: dict[tuple[str, str, str, bytes], None] = {}
        """Channels and encoded signals to be sent; equal ones once."""
        self._bell = asyncio.Event()
        self.is_connected = asyncio.Event()

    def publish(self, topic: str, key: str, data: Mapping[str, object] | None = None) -> None:
        self._own.publish(topic, key, data)
        self._every.publish(topic, key, data)
        if topic not in LOCAL_TOPICS:
            self._queue(build_channel(), topic, key, data or {})

    def send(self, process: str, topic: str, key: str, data: Mapping[str, object]) -> None:
        self._queue(build_channel(process), topic, key, data)

    def _queue(self, channel: str, topic: str, key: str, data: Mapping[str, object]) -> None:
        signal = channel, topic, key, orjson.dumps(data)
        self._waiting.pop(signal, None)  # the last of equal ones counts
        self._waiting[signal] = None
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._bell.set()

    def listen(self, topic: str, listener: Listener, *, own: bool = False) -> Callable[[], None]:
        return (self._own if own else self._every).listen(topic, listener)

    async def run(self) -> None:
        """Carry signals until cancelled; a lost connection is opened again, and sweeps find what was missed."""
        try:
            while True:
                try:
                    await self._carrier.connect(self._receive)
                    self._set_connected(True)
                    await self._carry()
                except StorageUnavailable as error:
                    _logger.warning("signals to other servers wait: %s", error.message)
                self._set_connected(False)
                await self._clock.sleep(RETRY_SECONDS)
        finally:
            await self._carrier.close()

    def _set_connected(self, is_connected: bool) -> None:
        (self.is_connected.set if is_connected else self.is_connected.clear)()
        self._every.publish(CONNECTION, "", {"is_connected": is_connected})

    async def _carry(self) -> None:
        """Send what waits until the connection is lost; what a lost one may not have sent is sent again."""
        closed = asyncio.ensure_future(self._carrier.wait_closed())
        try:
            while not closed.done():
                rung = asyncio.ensure_future(self._bell.wait())
                await asyncio.wait((closed, rung), return_when=asyncio.FIRST_COMPLETED)
                rung.cancel()
                self._bell.clear()
                if self._waiting and not closed.done():
                    waiting, self._waiting = self._waiting, {}
                    try:
                        await self._carrier.send(_pack(list(waiting)))
                    except StorageUnavailable:
                        self._waiting = {**waiting, **self._waiting}
                        raise
        finally:
            closed.cancel()

    def _receive(self, payload: bytes) -> None:
        """Tell the listeners of this process what another one has sent."""
        try:
            signals = [(str(topic), str(key), dict(data)) for topic, key, data in orjson.loads(payload)]
        except (ValueError, TypeError):
            _logger.warning("a signal that is none was received; only Circadia may send on its channel")
            return
        for topic, key, data in signals:
            self._every.publish(topic, key, data)


def _pack(signals: Sequence[tuple[str, str, str, bytes]]) -> Sequence[tuple[str, bytes]]:
    """Encode the signals of each channel as JSON lists that are small enough for each carrier."""
    by_channel: dict[str, list[tuple[str, str, bytes]]] = {}
    for channel, topic, key, data in signals:
        by_channel.setdefault(channel, []).append((topic, key, data))
    return [(channel, payload) for channel, of_channel in by_channel.items() for payload in _pack_lists(of_channel)]


def _pack_lists(signals: Sequence[tuple[str, str, bytes]]) -> Sequence[bytes]:
    payloads: list[bytes] = []
    parts: list[bytes] = []
    size = 2
    for topic, key, data in signals:
        part = b"[%s,%s,%s]" % (orjson.dumps(topic), orjson.dumps(key), data)
        if len(part) + 2 > MAX_PAYLOAD_BYTES:
            part = b"[%s,%s,{}]" % (orjson.dumps(topic), orjson.dumps(key))
        if parts and size + len(part) + 1 > MAX_PAYLOAD_BYTES:
            payloads.append(b"[%s]" % b",".join(parts))
            parts, size = [], 2
        parts.append(part)
        size += len(part) + 1
    if parts:
        payloads.append(b"[%s]" % b",".join(parts))
    return payloads
