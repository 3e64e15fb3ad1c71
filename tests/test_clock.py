"""Work that is done at most once in some seconds."""

from circadia.clock import Every
from circadia.testing.clock import ManualClock


def test_work_is_due_at_first_and_again_after_its_pause() -> None:
    clock = ManualClock()
    every = Every(clock, 30.0)
    assert every.take()
    assert not every.take()
    clock.advance(29.0)
    assert not every.is_due
    clock.advance(1.0)
    assert every.take()


def test_work_that_failed_stays_due_until_its_pause_is_started() -> None:
    clock = ManualClock()
    every = Every(clock, 30.0)
    assert every.is_due
    assert every.is_due, "a look starts no pause"
    every.restart()
    assert not every.is_due
    every.end_pause()
    assert every.is_due
