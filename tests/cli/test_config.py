"""`circadia config`, and the page about the configuration."""

from pathlib import Path

import pytest

from circadia.settings import load_settings
from tests.cli import config_page
from tests.cli.terminal import refused, run
from tests.house.tree import REFERENCE, blocks, parts

FILE = """
server: {database_url: "postgresql://user:hunter2@host/db"}
upstreams:
  openai: {base_url: "https://api.openai.com", key_env: OPENAI_API_KEY}
mcp_servers:
  files: {command: [python, -m, files], env: {SECRET: hunter2}}
defaults: {max_calls_per_day: 100}
agents:
  writer: {on_wake: forward}
"""


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "circadia.yaml"
    path.write_text(FILE, "utf-8")
    return path


async def test_a_good_file_is_summed_up(file: Path) -> None:
    result = await run("config", "check")
    assert result.status == 0
    assert "upstreams: openai; mcp_servers: files; agents: writer" in result.out
    checked = (await run("config", "check", str(file), "--json")).json
    assert checked == {"file": str(file), "upstreams": ["openai"], "mcp_servers": ["files"], "agents": ["writer"]}


async def test_without_a_file_the_defaults_are_good(home: Path) -> None:
    assert (await run("config", "check", "--json")).json["file"] is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("limits: {max_hold: 3}", ("'limits.max_hold'", "'max_holds'")),
        ("upstreams: {openai: {base_ulr: x}}", ("'upstreams.openai.base_ulr'", "'base_url'")),
        ("limits: {max_holds: many}", ("limits.max_holds", "'many'")),
        ("agents: {Writer: {}}", ("agents.Writer",)),
        ("limits: [", ("not YAML",)),
        ("agents: {a: {pulse_one_offs: [2026-02-30]}}", ("not YAML", "day ")),
        ("- a", ("keys and values",)),
    ],
)
async def test_a_wrong_key_or_value_is_named_with_its_path(home: Path, text: str, words: tuple[str, ...]) -> None:
    (home / "bad.yaml").write_text(text, "utf-8")
    for command in (("config", "check", "bad.yaml"), ("config", "show", "bad.yaml")):
        result = await run(*command)
        assert (result.status, result.out) == (9, "")
        assert all(word in result.err for word in words), result.err


async def test_a_file_that_is_missing_is_named(home: Path) -> None:
    refused(await run("config", "check", "nowhere.yaml"), 9, "'nowhere.yaml'", "--config")


async def test_each_value_is_shown_with_its_source(file: Path) -> None:
    listed = (await run("config", "show", "--json")).json["settings"]
    found = {each["key"]: (each["value"], each["source"]) for each in listed}
    assert found["server.port"] == (4114, "built in")
    assert found["upstreams.openai.key_env"] == ("OPENAI_API_KEY", "file")
    assert found["upstreams.openai.retries"] == (2, "built in")
    assert found["defaults.max_calls_per_day"] == (100, "file")
    assert found["agents.writer.max_calls_per_day"] == (100, "defaults")
    assert found["agents.writer.on_wake"] == ("forward", "file")
    assert found["agents.writer.description"] == ("", "built in")
    lines = (await run("config", "show")).out.splitlines()
    assert ["agents.writer.max_calls_per_day", "100", "defaults"] in [line.split() for line in lines]


async def test_what_may_be_a_secret_is_not_shown(file: Path) -> None:
    for words in (("config", "show"), ("config", "show", "--json")):
        out = (await run(*words)).out
        assert "hunter2" not in out
        assert "postgresql://user:(hidden)@host/db" in out


async def test_the_pages_whole_example_is_a_configuration(home: Path) -> None:
    example, *_ = [block for block in blocks(REFERENCE / "config.md") if "circadia" in block.flags]
    (home / "circadia.yaml").write_text(example.body, "utf-8")
    settings = load_settings(home / "circadia.yaml")
    given = settings.model_fields_set
    assert given == set(type(settings).model_fields) - {"signals", "signals_env"}, "the example uses each section"
    assert (await run("config", "check")).status == 0


@pytest.mark.parametrize("section", config_page.SECTIONS)
async def test_the_pages_tables_say_what_the_settings_say(section: str) -> None:
    (part,) = [part.text for part in parts(REFERENCE / "config.md") if part.heading == f"`{section}`"]
    assert [line for line in part.splitlines() if line.startswith("|")] == config_page.table(section)
