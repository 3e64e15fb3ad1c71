"""`circadia doctor`: each check, good and bad."""

import resource
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from circadia.cli.doctor.machine import CheckState, ClockComparison, judge_file_limit, judge_skews
from circadia.cli.doctor.storage import judge_revision, judge_room
from circadia.clock import SystemClock
from circadia.testing.clock import ManualClock
from circadia.testing.mcp_upstream import MockMcpServer
from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import Result, run, started
from tests.fixtures.ports import reserved_port
from tests.fixtures.redis import RedisServer

Checks = dict[str, Mapping[str, str]]


def written(home: Path, **sections: Any) -> None:
    """Write a configuration that takes a free port, so that the tests do not meet a server of this machine."""
    (home / "circadia.yaml").write_text(yaml.safe_dump({"server": {"port": 0}, **sections}), "utf-8")


async def examined(*words: str) -> tuple[Result, Checks]:
    result = await run("doctor", "--json", *words)
    return result, {each["name"]: each for each in result.json["checks"]}


async def test_on_a_fresh_machine_all_is_well(home: Path) -> None:
    written(home)
    result, checks = await examined()
    assert result.status == 0
    assert result.json["ok"] is True
    assert {"python", "configuration", "data folder", "port", "database", "embedder", "file limit", "clock"} == set(
        checks
    )
    assert all(check["state"] != "fail" for check in checks.values())
    assert not (home / ".local").exists(), "it changes nothing"


async def test_in_an_empty_folder_it_says_what_to_do_next(home: Path) -> None:
    done = await run("doctor")
    lines = done.out.splitlines()
    found = next(number for number, line in enumerate(lines) if line.startswith("warn  configuration: "))
    assert lines[found + 1].strip() == "→ circadia init"


async def test_people_see_a_line_for_each_check_and_the_remedy_below(home: Path) -> None:
    written(home, upstreams={"openai": {"base_url": "http://127.0.0.1:1", "key_env": "NO_SUCH_KEY"}})
    result = await run("doctor")
    assert result.status == 10
    lines = result.out.splitlines()
    failed = next(number for number, line in enumerate(lines) if line.startswith("fail  upstream openai: "))
    assert "NO_SUCH_KEY" in lines[failed]
    assert lines[failed + 1].strip().startswith("→ export NO_SUCH_KEY=")
    assert any(line.startswith("ok    python: ") for line in lines)


async def test_a_bad_configuration_is_one_finding_among_others(home: Path) -> None:
    (home / "circadia.yaml").write_text("limits: {max_hold: 3}", "utf-8")
    result, checks = await examined()
    assert result.status == 10
    assert "did you mean 'max_holds'" in checks["configuration"]["message"]
    assert checks["python"]["state"] == "ok"


async def test_an_upstream_that_takes_its_key_is_good(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "key-of-the-provider")
    async with MockUpstream(key="key-of-the-provider") as upstream:
        provider = {"base_url": upstream.base_url, "key_env": "PROVIDER_KEY"}
        written(home, upstreams={"openai": provider, "anthropic": {**provider, "api": "anthropic"}})
        _, checks = await examined()
    for name in ("openai", "anthropic"):
        check = checks[f"upstream {name}"]
        assert check["state"] == "ok"
        assert check["message"].endswith("the key in PROVIDER_KEY is accepted")


async def test_a_key_that_is_refused_or_missing_is_told_and_never_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "wrong-key-of-the-provider")
    async with MockUpstream(key="key-of-the-provider") as upstream:
        keyed = {"base_url": upstream.base_url, "key_env": "PROVIDER_KEY"}
        written(home, upstreams={"keyed": keyed, "bare": {"base_url": upstream.base_url}})
        result, checks = await examined()
    assert result.status == 10
    assert checks["upstream keyed"]["state"] == "fail"
    assert "refuses the key in PROVIDER_KEY (401)" in checks["upstream keyed"]["message"]
    assert checks["upstream bare"]["state"] == "warn"
    assert "wrong-key-of-the-provider" not in result.out + result.err


async def test_a_base_url_with_v1_is_as_good_as_one_without(home: Path) -> None:
    async with MockUpstream(key="key-of-the-provider") as upstream:
        bases = {"with": f"{upstream.base_url}/v1", "slash": f"{upstream.base_url}/v1/", "without": upstream.base_url}
        written(home, upstreams={name: {"base_url": base} for name, base in bases.items()})
        await examined()
    assert [each.path for each in upstream.requests] == ["/v1/models"] * 3


async def test_an_upstream_that_cannot_be_reached_is_told(home: Path, unused_tcp_port: int) -> None:
    written(home, upstreams={"openai": {"base_url": f"http://127.0.0.1:{unused_tcp_port}"}})
    result, checks = await examined()
    assert result.status == 10
    assert "cannot be reached" in checks["upstream openai"]["message"]


async def test_mcp_servers_are_asked_and_programs_looked_for(home: Path, unused_tcp_port: int) -> None:
    async with MockMcpServer() as tools:
        servers = {
            "tools": {"url": tools.url},
            "gone": {"url": f"http://127.0.0.1:{unused_tcp_port}/mcp"},
            "secret": {"url": tools.url, "headers_env": {"authorization": "NO_SUCH_TOKEN"}},
            "child": {"command": ["sh", "-c", "true"]},
            "typo": {"command": ["no-such-program"]},
            "folder": {"command": ["sh"], "cwd": str(home / "nowhere")},
        }
        written(home, mcp_servers=servers)
        _, checks = await examined()
    states = {name: checks[f"MCP server {name}"]["state"] for name in servers}
    assert states == {
        "tools": "ok", "gone": "fail", "secret": "fail", "child": "ok", "typo": "fail", "folder": "fail",
    }  # fmt: skip
    assert "NO_SUCH_TOKEN" in checks["MCP server secret"]["message"]
    assert "'no-such-program'" in checks["MCP server typo"]["message"]


async def test_programs_that_can_read_the_servers_files_are_named(home: Path) -> None:
    program = {"kind": "subprocess", "command": ["true"]}
    servers = {"files": {"command": ["true"]}, "far": {"url": "http://127.0.0.1:1/mcp"}}
    written(home, launchers={"loop": program}, mcp_servers=servers)
    result = await run("doctor", "--json")
    messages = {each["message"]: each["state"] for each in result.json["checks"]}
    warned = [f"{path} runs as the server's own user" for path in ("launchers.loop", "mcp_servers.files")]
    assert [messages.get(each) for each in warned] == ["warn", "warn"]
    assert not [each for each in messages if "mcp_servers.far" in each and "user" in each]


async def test_the_embedder_is_asked_for_a_vector(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDER_KEY", "key-of-the-embedder")
    async with MockUpstream(key="key-of-the-embedder") as up:
        chosen = {"kind": "endpoint", "base_url": f"{up.base_url}/v1", "model": "m", "key_env": "EMBEDDER_KEY"}
        written(home, memory={"embedder": chosen, "previous_embedder": {"kind": "bundled"}})
        _, checks = await examined()
        assert checks["embedder"]["message"].startswith("endpoint:m/")
        assert checks["previous embedder"]["message"].startswith("wordllama@")
        up.next(status=404)
        result, checks = await examined()
        assert (result.status, checks["embedder"]["state"]) == (0, "warn"), "words are found without it"
        assert checks["embedder"]["message"].endswith("answers with status 404")
    monkeypatch.delenv("EMBEDDER_KEY")
    result, checks = await examined()
    assert (result.status, checks["embedder"]["state"]) == (10, "fail")
    assert checks["embedder"]["message"] == "the environment has no EMBEDDER_KEY"


async def test_without_an_embedder_nothing_is_asked(home: Path) -> None:
    written(home, memory={"embedder": {"kind": "none"}})
    _, checks = await examined()
    assert checks["embedder"]["message"] == "none: searches go by words alone"


async def test_an_encoder_that_was_not_fetched_is_told_with_the_command_that_does(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    written(home, memory={"embedder": {"kind": "local"}})
    result, checks = await examined()
    assert (result.status, checks["embedder"]["state"]) == (10, "fail")
    assert str(home / "cache") in checks["embedder"]["message"]
    assert checks["embedder"]["remedy"] == "circadia model fetch minilm"


async def test_variables_with_tokens_must_be_set(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCADIA_ADMIN_TOKEN", "short")
    written(home, agents={"ann": {"token_env": "NO_SUCH_TOKEN"}})
    result, checks = await examined()
    assert "NO_SUCH_TOKEN" in checks["token agents.ann.token_env"]["message"]
    assert checks["admin token"]["state"] == "fail"
    assert "short" not in result.out.replace("shorter", "")


async def test_a_port_that_something_else_has_is_told(home: Path) -> None:
    async def nothing(_: web.Request) -> web.Response:
        return web.Response(text="another program")

    app = web.Application()
    app.router.add_get("/healthz", nothing)
    async with TestServer(app) as other:
        (home / "circadia.yaml").write_text(f"server: {{port: {other.make_url('').port}}}", "utf-8")
        result, checks = await examined()
    assert result.status == 10
    assert "cannot listen on" in checks["port"]["message"]
    assert "--port" in checks["port"]["remedy"]


async def test_a_port_that_is_free_is_good(home: Path) -> None:
    with reserved_port() as port:
        (home / "circadia.yaml").write_text(f"server: {{port: {port}}}", "utf-8")
        _, checks = await examined()
    assert checks["port"]["message"] == f"127.0.0.1:{port} is free"


async def test_a_running_server_is_recognized_by_its_port_and_by_its_folder(home: Path) -> None:
    data = ("--data", str(home / "data"))
    async with started("serve", "--port", "0", *data) as server:
        url = (await server.until("listens")).split()[-1]
        (home / "here.yaml").write_text(f"server: {{port: {url.rpartition(':')[2]}}}", "utf-8")
        result, checks = await examined("--config", "here.yaml", *data)
        assert result.status == 0
        assert f"a Circadia server answers (process {server.pid})" in checks["port"]["message"]
        assert checks["database"]["message"].endswith("the newest")
        with reserved_port() as port:
            (home / "there.yaml").write_text(f"server: {{port: {port}}}", "utf-8")
            lines = (await run("doctor", "--config", "there.yaml", *data)).out.splitlines()
        assert any(line.startswith(f"warn  port: process {server.pid} uses") for line in lines)


async def test_a_folder_that_is_a_file_or_has_an_open_token_is_told(home: Path) -> None:
    written(home)
    (home / "file").write_text("", "utf-8")
    result, checks = await examined("--data", str(home / "file"))
    assert (result.status, checks["data folder"]["state"]) == (10, "fail")
    (home / "data").mkdir()
    (home / "data" / "admin.token").write_text("x" * 16, "utf-8")
    (home / "data" / "admin.token").chmod(0o644)
    _, checks = await examined("--data", str(home / "data"))
    assert checks["admin token"]["state"] == "warn"
    assert "chmod 600" in checks["admin token"]["remedy"]
    (home / "data" / "admin.token").chmod(0o600)
    (home / "data" / "admin.token").write_text("x", "utf-8")
    result, checks = await examined("--data", str(home / "data"))
    assert (result.status, checks["admin token"]["state"]) == (10, "fail")
    assert "remove it" in checks["admin token"]["remedy"]


async def test_a_database_that_is_none_or_newer_is_told(home: Path) -> None:
    written(home)
    file = home / "data" / "circadia.db"
    file.parent.mkdir()
    file.write_bytes(b"this is no database" * 100)
    result, checks = await examined("--data", str(home / "data"))
    assert (result.status, checks["database"]["state"]) == (10, "fail")
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        _, checks = await examined("--data", str(home / "data"))
        assert "empty" in checks["database"]["message"]
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
        connection.commit()
    _, checks = await examined("--data", str(home / "data"))
    assert checks["database"]["state"] == "fail"
    assert "'9999'" in checks["database"]["message"]


async def test_a_database_of_an_older_version_is_brought_up_by_the_next_start(home: Path) -> None:
    check = judge_revision("SQLite", "0001", None, "0002")
    assert check.state is CheckState.OK
    assert "upgrades it to 0002" in check.message


async def test_postgresql_is_asked_for_its_version_and_its_schema(home: Path, postgres_url: str) -> None:
    written(home, server={"port": 0, "database_url": postgres_url})
    _, checks = await examined()
    assert checks["database"]["state"] == "ok"
    assert checks["database"]["message"].startswith("PostgreSQL ")
    assert checks["database"]["message"].endswith("the newest")


@pytest.mark.parametrize(
    ("ahead", "state", "told"),
    [
        (0, "ok", "agrees"),
        (60, "warn", "s ahead of that of the database"),
        (600, "fail", "s ahead of that of the database"),
        (-600, "fail", "s behind that of the database"),
    ],
)
async def test_the_clock_is_compared_with_that_of_the_database(
    home: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, ahead: int, state: str, told: str
) -> None:
    class Ahead(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(seconds=ahead)

    monkeypatch.setattr("circadia.cli.doctor.command.SystemClock", Ahead)
    written(home, server={"port": 0, "database_url": postgres_url})
    _, checks = await examined()
    assert checks["database clock"]["state"] == state
    assert told in checks["database clock"]["message"]


@pytest.mark.parametrize("url", ["postgresql://user:hunter2@127.0.0.1:1/db", "nonsense"])
async def test_a_postgresql_that_cannot_be_reached_is_told_without_its_password(home: Path, url: str) -> None:
    written(home, server={"port": 0, "database_url": url})
    result, checks = await examined()
    assert (result.status, checks["database"]["state"]) == (10, "fail")
    assert "hunter2" not in result.out


@pytest.mark.parametrize(
    ("free", "state"), [(10 * 2**30, CheckState.OK), (500 * 2**20, CheckState.WARN), (50 * 2**20, CheckState.FAIL)]
)
async def test_a_disk_that_fills_up_is_told(free: int, state: CheckState) -> None:
    assert judge_room("it", free).state is state


@pytest.mark.spec("LARGE-07")
@pytest.mark.parametrize(
    ("hard", "state"),
    [
        (resource.RLIM_INFINITY, CheckState.OK),
        (40_064, CheckState.OK),
        (40_063, CheckState.WARN),
        (4_096, CheckState.WARN),
        (64, CheckState.FAIL),
    ],
)
async def test_the_limit_of_open_files_is_set_against_the_holds_that_are_allowed(hard: int, state: CheckState) -> None:
    check = judge_file_limit(1024, hard, 20_000)
    assert check.state is state
    assert state is CheckState.OK or "40064" in check.remedy


@pytest.mark.parametrize(
    ("skews", "state"),
    [
        ({}, CheckState.OK),
        ({"a": 2.0}, CheckState.OK),
        ({"a": 30.0}, CheckState.WARN),
        ({"a": -4000.0}, CheckState.FAIL),
        ({"a": 4000.0, "b": 0.0}, CheckState.OK),
    ],
)
async def test_the_clock_is_compared_with_those_of_others(skews: Mapping[str, float], state: CheckState) -> None:
    (check,) = judge_skews(skews)
    assert check.state is state


@pytest.mark.parametrize(("off", "told"), [(0, "agrees with"), (120, "119 s slow"), (-4000, "3999 s fast")])
async def test_the_date_of_an_answer_tells_how_far_the_clock_is_off(off: int, told: str) -> None:
    clock = ManualClock()
    watch = ClockComparison(clock)
    asked = clock.now()
    clock.advance(1.0)
    theirs = asked + timedelta(seconds=off)
    watch.record_date_header("api.example.com", {"Date": format_datetime(theirs, usegmt=True)}, asked)
    watch.record_date_header("other.example.com", {"Date": "soon"}, asked)
    (check,) = watch.findings()
    assert told in check.message


async def test_a_clock_that_jumps_is_told() -> None:
    class Jumping(SystemClock):
        """A wall clock that was set."""

        ahead = timedelta(0)

        def now(self) -> datetime:
            return super().now() + self.ahead

    clock = Jumping()
    watch = ClockComparison(clock)
    clock.ahead = timedelta(minutes=-5)
    jumped = watch.findings()[0]
    assert jumped.state is CheckState.WARN
    assert "-300" in jumped.message


async def test_each_redis_of_the_settings_is_asked_and_one_that_does_not_answer_is_named_without_its_password(
    home: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str, redis_server: RedisServer, unused_tcp_port: int
) -> None:
    database = {"port": 0, "database_url": postgres_url}
    written(home, server=database, signals=redis_server.url, redis_bridge={"url_env": "BRIDGE_URL"})
    monkeypatch.setenv("BRIDGE_URL", f"redis://:hunter2@127.0.0.1:{unused_tcp_port}/0")
    result, checks = await examined()
    assert result.status == 0
    assert (checks["signals"]["state"], checks["signals"]["message"]) == ("ok", "Redis answers")
    assert checks["redis_bridge"]["state"] == "warn"
    assert "does not answer" in checks["redis_bridge"]["message"]
    assert "hunter2" not in result.out
    monkeypatch.delenv("BRIDGE_URL")
    result, checks = await examined()
    assert result.status == 10
    assert "BRIDGE_URL" in checks["redis_bridge"]["message"]
