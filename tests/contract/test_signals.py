"""What every implementation of signals promises."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from circadia.clock import SystemClock
from circadia.stores.signals.base import Signals
from circadia.stores.signals.local import LocalSignals
from circadia.stores.signals.postgres import NotifyCarrier
from circadia.stores.signals.redis import RedisCarrier
from circadia.stores.signals.remote import RemoteSignals, SignalCarrier
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.redis import RedisServer, connect_redis


@dataclass(frozen=True, kw_only=True)
class Network:
    """What carries signals between processes, and how a test cuts it."""

    build_carrier: Callable[[str], SignalCarrier]
    """Returns the carrier of one process, by its name."""
    cut: Callable[[], Awaitable[None]]
    """Cuts the connections of all processes."""


def build_network(request: pytest.FixtureRequest, name: str) -> Network:
    """Return NOTIFY on a database of the test's own, or Redis."""
    if name == "redis":
        redis: RedisServer = request.getfixturevalue("redis_server")

        async def cut_redis() -> None:
            async with connect_redis(redis) as client:
                await client.client_kill_filter(_type="pubsub")

        return Network(build_carrier=lambda process: RedisCarrier(redis.url, process), cut=cut_redis)
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    url: str = request.getfixturevalue("postgres_url")

    async def cut_postgres() -> None:
        await postgres.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'circadia signals'"
        )

    return Network(build_carrier=lambda process: NotifyCarrier(url, process), cut=cut_postgres)


@pytest.fixture(params=["notify", "redis"])
def network(request: pytest.FixtureRequest) -> Network:
    """Each network in turn."""
    return build_network(request, request.param)


@pytest.fixture(params=["local", "notify", "redis"])
def network_or_none(request: pytest.FixtureRequest) -> Network | None:
    """Each network in turn, and none."""
    return None if request.param == "local" else build_network(request, request.param)


@pytest.fixture
async def signals(network_or_none: Network | None) -> AsyncIterator[Signals]:
    """Signals that nobody listens to."""
    if network_or_none is None:
        yield LocalSignals()
        return
    async with carried(network_or_none.build_carrier("one")) as signals:
        yield signals


@asynccontextmanager
async def carried(carrier: SignalCarrier) -> AsyncGenerator[RemoteSignals]:
    """Signals of a process of its own."""
    signals = RemoteSignals(SystemClock(), carrier)
    running = asyncio.create_task(signals.run())
    try:
        async with asyncio.timeout(30):
            await signals.is_connected.wait()
        yield signals
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class RecordingListener:
    """A listener that keeps what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, object]]] = []

    def __call__(self, key: str, data: Mapping[str, object]) -> None:
        self.heard.append((key, dict(data)))


async def test_a_signal_reaches_all_who_listen_to_its_topic_in_order(signals: Signals) -> None:
    one, two, other = RecordingListener(), RecordingListener(), RecordingListener()
    signals.listen("agent", one)
    signals.listen("agent", two)
    signals.listen("thread", other)
    signals.publish("agent", "a1")
    signals.publish("agent", "a2", {"asleep": True})
    assert one.heard == two.heard == [("a1", {}), ("a2", {"asleep": True})]
    assert other.heard == []


async def test_a_signal_nobody_listens_to_is_nothing(signals: Signals) -> None:
    signals.publish("agent", "a1")
    late = RecordingListener()
    signals.listen("agent", late)
    assert late.heard == []


async def test_who_ended_listening_hears_nothing_more_and_the_others_do(signals: Signals) -> None:
    one, two = RecordingListener(), RecordingListener()
    end = signals.listen("agent", one)
    signals.listen("agent", two)
    end()
    signals.publish("agent", "a1")
    assert one.heard == []
    assert two.heard == [("a1", {})]


async def test_a_listener_that_raises_is_logged_and_hinders_no_other(
    signals: Signals, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(key: str, data: Mapping[str, object]) -> None:
        raise ValueError("a listener's own mistake")

    after = RecordingListener()
    signals.listen("agent", fail)
    signals.listen("agent", after)
    signals.publish("agent", "a1")
    assert after.heard == [("a1", {})]
    assert "a listener's own mistake" in caplog.text


async def test_a_listener_may_end_itself_while_it_is_called(signals: Signals) -> None:
    heard: list[str] = []

    def once(key: str, data: Mapping[str, object]) -> None:
        heard.append(key)
        end()

    end = signals.listen("agent", once)
    other = RecordingListener()
    signals.listen("agent", other)
    signals.publish("agent", "a1")
    signals.publish("agent", "a2")
    assert heard == ["a1"]
    assert [key for key, _ in other.heard] == ["a1", "a2"]


@pytest.fixture
async def processes(network: Network) -> AsyncIterator[tuple[RemoteSignals, RemoteSignals]]:
    """Signals of two processes."""
    async with carried(network.build_carrier("one")) as one, carried(network.build_carrier("other")) as other:
        yield one, other


async def until(heard: Callable[[], bool]) -> None:
    """Return when it is so."""
    async with asyncio.timeout(30):
        while not heard():
            await asyncio.sleep(0)


@pytest.mark.spec("CLU-13")
async def test_another_process_hears_each_signal_once_and_in_order(
    processes: tuple[RemoteSignals, RemoteSignals],
) -> None:
    one, other = processes
    here, there, own = RecordingListener(), RecordingListener(), RecordingListener()
    one.listen("agent", here)
    other.listen("agent", there)
    other.listen("agent", own, own=True)
    sent = [(f"a{number}", {"asleep": bool(number % 2), "name": "Zoë"}) for number in range(2_000)]
    for key, data in sent:
        one.publish("agent", key, data)
    other.publish("agent", "last")
    await until(lambda: len(there.heard) == 2_001 and len(here.heard) == 2_001)
    assert [signal for signal in there.heard if signal[0] != "last"] == sent
    assert [signal for signal in here.heard if signal[0] != "last"] == sent
    assert own.heard == [("last", {})]


@pytest.mark.spec("CLU-13")
async def test_data_that_is_too_long_is_left_out_and_its_signal_is_not(
    processes: tuple[RemoteSignals, RemoteSignals],
) -> None:
    one, other = processes
    there = RecordingListener()
    other.listen("agent", there)
    one.publish("agent", "a1", {"text": "x" * 9_000})
    one.publish("agent", "a2", {"text": "y" * 7_000})
    await until(lambda: len(there.heard) == 2)
    assert there.heard == [("a1", {}), ("a2", {"text": "y" * 7_000})]


@pytest.mark.spec("CLU-13")
async def test_a_signal_to_one_process_is_heard_there_only(network: Network) -> None:
    names = ("one", "other", "third")
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(carried(network.build_carrier(name))) for name in names]
        listeners = [RecordingListener() for _ in processes]
        for process, listener in zip(processes, listeners, strict=True):
            process.listen("agent", listener)
        processes[0].send("other", "agent", "a1", {"asleep": True})
        processes[0].send("one", "agent", "a2", {})
        processes[0].publish("agent", "last")
        await until(lambda: all(listener.heard[-1:] == [("last", {})] for listener in listeners))
        assert [listener.heard[:-1] for listener in listeners] == [[], [("a1", {"asleep": True})], []]


async def test_what_a_process_counts_for_itself_stays_there(processes: tuple[RemoteSignals, RemoteSignals]) -> None:
    one, other = processes
    there = RecordingListener()
    for topic in ("wake", "turn", "agent"):
        other.listen(topic, there)
    for topic in ("wake", "turn", "agent"):
        one.publish(topic, topic)
    await until(lambda: bool(there.heard))
    assert there.heard == [("agent", {})]


@pytest.mark.spec("CLU-13")
async def test_a_connection_that_is_cut_is_opened_again(
    processes: tuple[RemoteSignals, RemoteSignals], network: Network
) -> None:
    one, other = processes
    there = RecordingListener()
    other.listen("agent", there)
    one.publish("agent", "before")
    await until(lambda: bool(there.heard))
    await network.cut()
    await until(lambda: not one.is_connected.is_set() and not other.is_connected.is_set())
    one.publish("agent", "meanwhile")
    await until(lambda: one.is_connected.is_set() and other.is_connected.is_set())
    one.publish("agent", "after")
    await until(lambda: there.heard[-1][0] == "after")
