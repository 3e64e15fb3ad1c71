"""Two organisations have a cluster each on one PostgreSQL server: nothing of one is known to the other."""

from pathlib import Path

import pytest

from tests.interaction.live import Live, live


async def get_status(server: Live, host: str, token: str) -> int:
    headers = {"host": host, "authorization": f"Bearer {token}"}
    async with server.http.get(f"{server.url}/api/v1/agents/ann/inbox", headers=headers) as response:
        await response.read()
        return response.status


@pytest.mark.spec("CLU-33")
async def test_a_token_a_name_and_a_host_of_one_organisation_mean_nothing_at_another(
    tmp_path: Path, postgres_url: str, empty_postgres_url: str
) -> None:
    acme_server = {"database_url": postgres_url, "allowed_hosts": ["acme.circadia.internal"]}
    bolt_server = {"database_url": empty_postgres_url, "allowed_hosts": ["bolt.circadia.internal"]}
    async with live(tmp_path / "acme", server=acme_server) as acme, live(tmp_path / "bolt", server=bolt_server) as bolt:
        token = await acme.agent("ann")
        await bolt.agent("bob")
        assert await get_status(acme, "acme.circadia.internal", token) == 200
        assert await get_status(bolt, "bolt.circadia.internal", token) == 401
        assert await get_status(bolt, "acme.circadia.internal", token) == 421, "the balancer sent it the wrong way"
        status, problem = await acme.rest("POST", "/messages", {"to": "bob", "content": "hello"}, token=token)
        assert status == 404
        assert problem["detail"].startswith("no agent 'bob' in session 'default'")
