"""What every store promises of cursors in the event log."""

from circadia.stores.base import Store


async def test_a_cursor_is_where_it_was_saved_last(store: Store) -> None:
    async with store.begin_read() as tx:
        assert await tx.cursors.get("bridge") is None
    for number in (7, 2**40):
        async with store.begin_write() as tx:
            await tx.cursors.save("bridge", number)
    async with store.begin_write() as tx:
        await tx.cursors.save("other", 1)
    async with store.begin_read() as tx:
        assert await tx.cursors.get("bridge") == 2**40
        assert await tx.cursors.get("other") == 1
