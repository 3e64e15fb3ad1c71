"""What every implementation of signals promises."""

from collections.abc import Mapping

import pytest

from circadia.stores.signals.base import Signals
from circadia.stores.signals.local import LocalSignals


@pytest.fixture(params=[LocalSignals], ids=["local"])
def signals(request: pytest.FixtureRequest) -> Signals:
    """Signals that nobody listens to."""
    return request.param()


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
