"""PostgreSQL cuts its connections and restarts under load: nothing acknowledged is lost, and all goes on by itself."""

from pathlib import Path
from typing import Final

import pytest

from tests.cluster.four_processes import four_processes
from tests.cluster.load import under_load
from tests.cluster.test_kills import draw_seed
from tests.fixtures.postgres import PostgresServer

BACK_SECONDS: Final = 5.0
CUT_ALL: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'circadia%' AND"
    " datname = '{database}'"
)


@pytest.mark.timeout(300)  # on a busy machine
@pytest.mark.spec("CLU-21")
async def test_after_cut_connections_and_a_restart_of_postgresql_all_goes_on_within_five_seconds(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    cut_all = CUT_ALL.format(database=postgres_url.rpartition("?")[0].rpartition("/")[2])
    async with four_processes(tmp_path, postgres_url) as cluster, under_load(cluster, draw_seed()) as load:
        for _ in range(3):
            await load.wait_for_more(20)
            await postgres_server.execute(cut_all)
            await load.wait_until_back(BACK_SECONDS)
        await load.wait_for_more(20)
        postgres_server.stop()
        try:
            await load.wait_for_refusal()
        finally:
            postgres_server.start()
        await load.wait_until_back(BACK_SECONDS)
        await load.wait_for_more(20)
