"""What each store promises of a glance."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from circadia.records.index_entry import Layer
from circadia.stores.base import NotASingleRead, Store, Tx
from tests.contract.conftest import Opener
from tests.contract.test_store_memory import BANK, OTHER, block, episode

NOTHING_WAITS = dict.fromkeys(Layer, ())


@pytest.fixture
async def banks(store: Store) -> Store:
    async with store.begin_write() as tx:
        await tx.banks.add(BANK)
        await tx.banks.add(OTHER)
        await tx.episodes.add(episode("e1"))
    return store


async def last_number(store: Store) -> int:
    async with store.begin_read() as tx:
        news = await tx.banks.fetch_index_delta(BANK.id, after={}, waiting={}, limit=1)
        return news.heads[Layer.EPISODES]


@pytest.mark.spec("MEM-02")
async def test_a_glance_shows_a_bank_and_that_nothing_of_it_is_new(banks: Store, open_store: Opener) -> None:
    other = await open_store()
    after = {Layer.EPISODES: await last_number(banks), Layer.NOTES: 0}
    for writes in range(3):
        async with banks.begin_single_read() as tx:
            assert await tx.banks.get_by_name("ann") == replace(BANK, generation=writes)
            news = await tx.banks.fetch_index_delta(BANK.id, after=after, waiting=NOTHING_WAITS, limit=10)
            assert (news.entries, news.writes) == ({}, writes)
        async with banks.begin_single_read() as tx:
            assert await tx.banks.get_by_end_user("support-{user}", "bob") == OTHER
        async with other.begin_write() as tx:  # which the next glance sees
            await tx.blocks.add(block(writes + 1, "Ann"))
            await tx.banks.bump_generation(BANK.id)
    async with banks.begin_single_read() as tx:
        assert await tx.banks.get_by_name("nobody") is None


async def new_rows(tx: Tx) -> object:
    return await tx.banks.fetch_index_delta(BANK.id, after=dict.fromkeys(Layer, 0), waiting=NOTHING_WAITS, limit=10)


async def episodes(tx: Tx) -> object:
    return await tx.episodes.find_all(BANK.id)


async def bank_again(tx: Tx) -> object:
    return await tx.banks.get_by_name("ann")


@pytest.mark.parametrize("more", [new_rows, episodes, bank_again])
async def test_what_a_glance_does_not_show_begins_anew_and_the_next_is_as_good(
    banks: Store, more: Callable[[Tx], Awaitable[object]]
) -> None:
    for _ in range(6):  # more than there are connections that read
        async with banks.begin_single_read() as tx:
            assert await tx.banks.get_by_name("ann") == BANK
            with pytest.raises(NotASingleRead):
                await more(tx)
        async with banks.begin_single_read() as tx:
            with pytest.raises(NotASingleRead):
                await episodes(tx)
    async with banks.begin_read() as tx:
        assert await tx.banks.get_by_name("ann") == BANK
        assert await more(tx)
