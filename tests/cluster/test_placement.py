"""A balancer that sends each token to one gateway places the banks: no other gateway loads them."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.scene import two_servers
from tests.fixtures.balancer import GATEWAY_HEADER, balance
from tests.interaction.live import Live
from tests.interaction.test_loaded_banks import loaded

PAGE: Final = Path(__file__).parents[2] / "docs" / "operations" / "cluster.md"
BY_TOKEN: Final = {
    "    balance roundrobin\n": PAGE.read_text("utf-8")
    .split("## Banks in memory")[1]
    .split("```haproxy\n")[1]
    .split("```")[0]
}
"""The documented configuration."""
MOST_AGENTS: Final = 40


async def search(server: Live, url: str, name: str, token: str, *, by_key: bool = False) -> tuple[list[str], str]:
    """Search an agent's bank with its token; return the texts found, and the gateway that answered."""
    headers = {"x-api-key": token} if by_key else {"authorization": f"Bearer {token}"}
    async with server.http.get(f"{url}/api/v1/banks/{name}/search?q=harbour", headers=headers) as response:
        document: dict[str, Any] = await response.json()
        assert response.status == 200, document
        return [hit["text"] for hit in document["hits"]], response.headers[GATEWAY_HEADER]


@pytest.mark.spec("CLU-15")
async def test_a_balancer_by_token_lets_one_gateway_load_each_bank_and_each_sees_what_others_write(
    tmp_path: Path, postgres_url: str
) -> None:
    async with two_servers(tmp_path, postgres_url) as servers:
        here, there = servers
        places: dict[str, set[str]] = {}
        async with balance(tmp_path, [server.url for server in servers], changes=BY_TOKEN) as url:
            while len(places) < 6 or len({gateway for gateways in places.values() for gateway in gateways}) < 2:
                assert len(places) < MOST_AGENTS, "one gateway gets all agents"
                name = f"agent{len(places)}"
                token = await here.agent(name, bank=name)
                for number in range(3):
                    text = f"We met Bob at the harbour of town {number}."
                    status, answer = await there.rest("POST", f"/banks/{name}/episodes", {"text": text})
                    assert status == 201, answer
                    texts, gateway = await search(here, url, name, token, by_key=number == 2)
                    assert len(texts) == number + 1, "a gateway reads what another one has written"
                    places.setdefault(name, set()).add(gateway)
        assert {len(gateways) for gateways in places.values()} == {1}
        banks = [(await loaded(server))[0] for server in servers]
        assert banks == [sum(gateways == {str(number)} for gateways in places.values()) for number in range(2)]
