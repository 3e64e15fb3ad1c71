"""What is wrong with the members of a cluster together, as `GET /cluster`, `circadia cluster` and the doctor say it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from circadia.clock import SystemClock
from circadia.ids import MemberId
from circadia.settings import settings_from
from circadia.settings.root import fingerprint
from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import run
from tests.interaction.live import ADMIN, KEY, Live, live
from tests.interaction.test_two_servers import seen

pytestmark = pytest.mark.spec("CLU-11")


async def list_conflicts(at: Live) -> list[str]:
    return (await at.rest("GET", "/cluster"))[1]["conflicts"]


async def examine(folder: Path, **sections: Any) -> list[str]:
    """Return what the doctor says of the cluster, with this configuration."""
    file = folder / "circadia.yaml"
    file.write_text(yaml.safe_dump(sections), "utf-8")
    result = await run("doctor", "--config", str(file), "--data", str(folder), "--json")
    return [f"{each['state']} {each['message']}" for each in result.json["checks"] if each["name"] == "cluster"]


async def test_servers_with_different_configurations_are_named_by_the_command_and_the_doctor(
    tmp_path: Path, postgres_url: str
) -> None:
    given: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with MockUpstream(key=KEY) as provider:
        given["provider"] = provider
        async with live(tmp_path / "one", **given) as one, live(tmp_path / "same", **given):
            assert await list_conflicts(one) == []
            told = await examine(tmp_path, server=given["server"])
            assert told == ["warn 2 servers run another configuration than the one that was checked here"]
            given["server"]["readers"] = 2
            async with live(tmp_path / "other", **given) as other:
                (conflict,) = await list_conflicts(one)
                assert conflict.startswith("the servers run different configurations (")
                assert f" at {other.url} on " in conflict
                assert await examine(tmp_path, server=given["server"]) == [f"warn {conflict}"]
                done = await run("cluster", "--url", one.url, "--token", ADMIN)
                assert "warning: the servers run different configurations" in done.out + done.err


async def test_two_live_members_with_one_name_are_named_and_a_dead_predecessor_is_not(
    tmp_path: Path, postgres_url: str
) -> None:
    async with live(tmp_path, server={"database_url": postgres_url}) as at, seen(postgres_url) as store:
        async with store.begin_read() as tx:
            (member,) = await tx.members.find_all(SystemClock().now())
        began = member.started_at
        twin = replace(member, id=MemberId("mem_twin"), started_at=began - timedelta(minutes=1))
        for lease_until, conflicts in ((began + timedelta(seconds=14), 0), (began + timedelta(minutes=1), 1)):
            async with store.begin_write() as tx:
                await tx.members.put(replace(twin, lease_until=lease_until))
            found = await list_conflicts(at)
            assert len(found) == conflicts
        assert found == [f"two servers are {at.url} on {member.host}: give each machine a host name of its own"]


def test_a_configuration_is_told_by_what_it_says_and_not_by_secrets_or_what_each_process_has_of_its_own() -> None:
    def check(**sections: Any) -> str:
        return fingerprint(settings_from(sections))

    own = {"host": "10.0.0.1", "port": 1, "database_url": "postgresql://a:b@c/d"}
    assert check() == check(server=own) == check(server={"readers": 4})
    assert check(server={"readers": 2}) != check()
    launchers = [{"program": {"kind": "subprocess", "command": ["a"], "env": {"A": value}}} for value in ("b", "c")]
    assert check(launchers=launchers[0]) == check(launchers=launchers[1]) != check()
    signals = [check(server=own, signals=f"redis://:{password}@r:6379/0") for password in ("one", "two")]
    assert signals[0] == signals[1] != check()
    assert check(agents={"ann": {}}) != check(agents={"bob": {}})
