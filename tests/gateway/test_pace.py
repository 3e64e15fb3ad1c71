"""A crowd goes on a few at a time, and others get their turns in between."""

import asyncio

import pytest

from circadia.gateway.pace import AT_ONCE, Pace

CROWD = 50 * AT_ONCE


async def test_a_crowd_goes_on_in_the_order_in_which_it_came() -> None:
    pace, gone = Pace(), list[int]()

    async def one(number: int) -> None:
        await pace.turn()
        gone.append(number)

    await asyncio.gather(*(one(number) for number in range(CROWD)))
    assert gone == list(range(CROWD))


async def test_others_get_their_turns_while_a_crowd_goes_on() -> None:
    pace, gone = Pace(), 0

    async def one() -> None:
        nonlocal gone
        await pace.turn()
        gone += 1

    crowd = [asyncio.create_task(one()) for _ in range(CROWD)]
    await asyncio.sleep(0)  # all stand in the queue now
    for _ in range(10):  # an answer of the control API takes some ten turns
        await asyncio.sleep(0)
    assert 0 < gone <= 12 * AT_ONCE < CROWD
    await asyncio.gather(*crowd)
    assert gone == CROWD


async def test_one_that_is_cancelled_takes_no_place_and_holds_up_nobody() -> None:
    pace, gone = Pace(), list[int]()

    async def one(number: int) -> None:
        await pace.turn()
        gone.append(number)

    crowd = [asyncio.create_task(one(number)) for number in range(CROWD)]
    await asyncio.sleep(0)
    for task in crowd[::2]:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    assert gone == list(range(1, CROWD, 2))


@pytest.mark.parametrize("rounds", [3])
async def test_a_later_crowd_goes_on_too(rounds: int) -> None:
    pace = Pace()
    for _ in range(rounds):
        async with asyncio.timeout(60):
            await asyncio.gather(*(pace.turn() for _ in range(CROWD)))
