"""Each role starts without the secrets that only the other one needs."""

from pathlib import Path
from typing import Any

import pytest

from circadia.errors import ConfigError
from circadia.records.member import Role
from tests.interaction.live import live
from tests.interaction.test_cluster import list_members

pytestmark = pytest.mark.spec("CLU-10")
LAUNCHERS: dict[str, Any] = {
    "hook": {"kind": "webhook", "url": "https://agent.example.com", "secret_env": "HOOK_SECRET"},
    "pods": {"kind": "kubernetes", "image": "agent:1"},
}
SERVERS: dict[str, Any] = {
    "far": {"url": "https://tools.example.com/mcp", "headers_env": {"authorization": "TOOLS_KEY"}},
    "near": {"command": ["tools"], "env_from": ["TOOLS_KEY"]},
}


async def test_a_gateway_needs_no_secret_of_a_launcher_and_a_worker_none_of_what_only_calls_need(
    tmp_path: Path, postgres_url: str
) -> None:
    server = {"database_url": postgres_url}
    keys = {"TOOLS_KEY": "Bearer t"}
    for_gateways: dict[str, Any] = {
        "server": server,
        "environment": keys,
        "mcp_servers": SERVERS,
        "launchers": LAUNCHERS,
    }
    for_workers: dict[str, Any] = {
        "server": server,
        "environment": {"KEY": ""},
        "mcp_servers": SERVERS,
        "sleeptime": {"model": "none"},
    }
    async with live(tmp_path / "gateway", role=Role.GATEWAY, **for_gateways) as gateway:
        async with live(tmp_path / "worker", role=Role.WORKER, **for_workers):
            assert [member["role"] for member in await list_members(gateway)] == ["gateway", "worker"]


@pytest.mark.parametrize(
    ("role", "missing", "sections"),
    [
        (Role.GATEWAY, "KEY", {}),
        (Role.GATEWAY, "TOOLS_KEY", {"mcp_servers": SERVERS}),
        (Role.WORKER, "HOOK_SECRET", {"launchers": LAUNCHERS}),
        (Role.WORKER, "KEY", {"sleeptime": {"model": {"upstream": "openai", "name": "small"}}}),
    ],
)
async def test_a_process_does_not_start_without_a_secret_that_its_role_needs(
    tmp_path: Path, postgres_url: str, role: Role, missing: str, sections: dict[str, Any]
) -> None:
    environment = {} if missing != "KEY" else {"KEY": ""}
    with pytest.raises(ConfigError, match=f"no '{missing}'|{missing} is not set"):
        async with live(
            tmp_path, role=role, server={"database_url": postgres_url}, environment=environment, **sections
        ):
            pass
