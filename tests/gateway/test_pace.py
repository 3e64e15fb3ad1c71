"""A crowd goes on a few at a time, and others get their turns in between."""

import asyncio

import pytest

from circadia.gateway.hold.places import Pace

CROWD = 800


class Crowd:
    """Many that need a few turns of the event loop each to get ready."""

    def __init__(self, pace: Pace, turns: int = 5) -> None:
        self.begun: list[int] = []
        self.ready = 0
        self._pace = pace
        self._turns = turns

    async def one(self, number: int) -> None:
        slot = await self._pace.slot()
        try:
            self.begun.append(number)
            for _ in range(self._turns):
                await asyncio.sleep(0)
            self.ready += 1
        finally:
            slot.release()


async def test_a_crowd_goes_on_in_the_order_in_which_it_came() -> None:
    crowd = Crowd(Pace())
    await asyncio.gather(*(crowd.one(number) for number in range(CROWD)))
    assert crowd.begun == list(range(CROWD))


async def test_at_any_time_16_of_a_crowd_are_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circadia.gateway.hold.places.SLOT_SECONDS", 3600.0)  # a machine that stalls gives no slot away
    crowd = Crowd(Pace())
    tasks = [asyncio.create_task(crowd.one(number)) for number in range(CROWD)]
    while crowd.ready < CROWD:
        await asyncio.sleep(0)
        assert len(crowd.begun) - crowd.ready <= 16
    await asyncio.gather(*tasks)


async def test_one_that_is_cancelled_takes_no_place_and_holds_up_nobody() -> None:
    crowd = Crowd(Pace())
    tasks = [asyncio.create_task(crowd.one(number)) for number in range(CROWD)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert crowd.ready == CROWD // 2
    assert crowd.begun[-1] == CROWD - 1


async def test_those_that_wait_for_something_else_hold_up_the_others_for_a_tenth_of_a_second() -> None:
    pace, go_on = Pace(), asyncio.Event()

    async def slow() -> None:
        slot = await pace.slot()
        await go_on.wait()
        slot.release()

    waiting = [asyncio.create_task(slot) for slot in (slow() for _ in range(16))]
    crowd = Crowd(pace)
    async with asyncio.timeout(60):
        await asyncio.gather(*(crowd.one(number) for number in range(CROWD)))
    go_on.set()
    await asyncio.gather(*waiting)
    again = Crowd(pace)
    tasks = [asyncio.create_task(again.one(number)) for number in range(CROWD)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(again.begun) == 16, "no slot is given twice"
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("rounds", [3])
async def test_a_later_crowd_goes_on_too(rounds: int) -> None:
    pace = Pace()
    for _ in range(rounds):
        crowd = Crowd(pace)
        async with asyncio.timeout(60):
            await asyncio.gather(*(crowd.one(number) for number in range(CROWD)))
        assert crowd.ready == CROWD


@pytest.mark.spec("GATE-47")
async def test_a_slot_that_is_granted_to_one_that_is_just_cancelled_goes_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("circadia.gateway.hold.places.SLOT_SECONDS", 3600.0)
    pace = Pace()
    taken = [await pace.slot() for _ in range(16)]
    gone = asyncio.create_task(pace.slot())
    await asyncio.sleep(0)
    taken.pop().release()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert gone.cancelled()
    async with asyncio.timeout(30):
        taken.append(await pace.slot())
    for each in taken:
        each.release()
