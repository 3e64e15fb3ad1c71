"""What a connection to PostgreSQL keeps prepared."""

from sqlalchemy import Connection

from circadia.stores.postgres import open_postgres
from circadia.stores.sql.statement import BATCH_EXECUTOR, BatchExecutor, BoundWrite


async def test_a_connection_keeps_no_more_than_500_statements_whatever_is_written_together(postgres_url: str) -> None:
    def write(connection: Connection) -> None:
        run: BatchExecutor = connection.info[BATCH_EXECUTOR]
        for number in range(1_500):
            run([BoundWrite(f"UPDATE banks SET id = id WHERE {number} = $1::int", [[-1]], True)])

    def count(connection: Connection) -> int:
        return connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()

    store = await open_postgres(postgres_url)
    async with store.writer.begin(()) as block:
        await block.run(write)
        assert await block.run(count) <= 510, "and a few of the driver's own"
    await store.close()
