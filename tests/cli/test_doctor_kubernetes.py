"""`circadia doctor` on launchers of Jobs."""

from pathlib import Path

import pytest

from tests.cli.test_doctor import examined, written
from tests.fixtures.kubernetes_api import kubernetes_cluster


@pytest.mark.spec("SHIP-05")
async def test_a_launcher_of_jobs_is_told_what_its_token_lacks_and_that_its_pods_need_an_address(home: Path) -> None:
    async with kubernetes_cluster(home) as cluster:
        pods = cluster.settings()
        server = {"port": 0, "gateway_url": "http://circadia:4114"}
        for sections, forbidden, state, problem in (
            ({"server": server}, set[tuple[str, str]](), "ok", "grants all that Jobs in 'agents' need"),
            ({}, set[tuple[str, str]](), "warn", "its pods reach no gateway"),
            ({}, {("create", "secrets"), ("watch", "pods")}, "fail", "may not create secrets, watch pods in 'agents'"),
        ):
            cluster.forbidden = forbidden
            written(home, launchers={"pods": pods, "far": {**pods, "api_url": None}}, **sections)
            _, checks = await examined()
            assert checks["launcher pods"]["state"] == state
            assert problem in checks["launcher pods"]["message"]
            assert "this server runs in no pod" in checks["launcher far"]["message"]
        cluster.rotate_token(in_file=False)
        _, checks = await examined()
        assert "the token is not accepted" in checks["launcher pods"]["message"]
        await cluster.stop()
        _, checks = await examined()
        assert "nothing listens there" in checks["launcher pods"]["message"]
