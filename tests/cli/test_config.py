"""`circadia config`, and the page about the configuration."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from circadia.settings import load_settings, settings_from
from circadia.testing.upstream import MockUpstream
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


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
async def test_a_file_that_is_not_utf_8_is_told_how_to_save_it(home: Path, encoding: str) -> None:
    (home / "circadia.yaml").write_text("agents: {ann: {description: Grüße}}\n", encoding)
    refused(await run("config", "check"), 9, "'circadia.yaml' is not UTF-8; save it as UTF-8")


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


@pytest.mark.spec("SHIP-12")
async def test_a_check_prints_each_mistake_on_a_line_and_what_only_a_start_would_find(home: Path) -> None:
    file = home / "circadia.yaml"
    file.write_text("server: {prot: 1}\nport: 2\nserver: {}\n", "utf-8")
    result = await run("config", "check")
    assert (result.status, result.out) == (9, "")
    assert result.err.splitlines() == [
        "error: 3 mistakes in the configuration:",
        "  the key 'server' appears on lines 1 and 3; join them",
        "  unknown key 'server.prot'; did you mean 'port'?",
        "  unknown key 'port'; move it under `server`",
    ]
    upstream = "{base_url: 'http://a?key=1', paths: [FETCH /x]}"
    file.write_text(f"{{upstreams: {{a: {upstream}}}, sleeptime: {{model: {{upstream: a}}}}}}", "utf-8")
    result = await run("config", "check")
    assert (result.status, result.out) == (9, "")
    places = [line.split()[0] for line in result.err.splitlines()[1:]]
    assert places == ["upstreams.a.paths:", "upstreams.a.base_url", "sleeptime.model.name:"]


@pytest.mark.spec("SHIP-12")
async def test_a_live_check_finds_variables_programs_folders_and_addresses_that_are_not_there(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEAK_SECRET", "c2hvcnQ=")
    async with MockUpstream() as provider, TestServer(web.Application()) as empty:
        sections = {
            "upstreams": {
                "good": {"base_url": provider.base_url},
                "deep": {"base_url": str(empty.make_url("/openai"))},
                "unset": {"base_url": provider.base_url, "key_env": "NO_SUCH_KEY"},
            },
            "launchers": {
                "typo": {"kind": "subprocess", "command": ["no-such-program"]},
                "folder": {"kind": "subprocess", "command": ["sh"], "cwd": str(home / "nowhere")},
                "variable": {"kind": "subprocess", "command": ["sh"], "env_from": ["NO_SUCH_VARIABLE"]},
                "fine": {"kind": "subprocess", "command": ["sh"]},
                "box": {"kind": "container", "image": "i", "engine": f"unix://{home}/no.sock"},
                "hook": {"kind": "webhook", "url": "https://a", "secret_env": "NO_SUCH_SECRET"},
                "weak": {"kind": "webhook", "url": "https://a", "secret_env": "WEAK_SECRET"},
                "code": {"kind": "callable", "function": "no_such_module:run"},
            },
            "agents": {"ann": {"token_env": "NO_SUCH_TOKEN"}},
            "dreams": {"notes": {"folder": str(home / "no-notes")}},
        }
        (home / "circadia.yaml").write_text(yaml.safe_dump(sections), "utf-8")
        assert (await run("config", "check")).status == 0
        result = await run("config", "check", "--live", "--json")
        found = {each["name"]: each["state"] for each in (await run("doctor", "--json")).json["checks"]}
    assert result.status == 10
    checks = {each["name"]: each for each in result.json["checks"] if each["name"] != "programs"}
    states = {name: each["state"] for name, each in checks.items()}
    assert states == {
        "upstream good": "ok", "upstream deep": "warn", "upstream unset": "fail", "embedder": "ok",
        "launcher typo": "fail", "launcher folder": "fail", "launcher variable": "fail", "launcher fine": "ok",
        "launcher box": "fail", "launcher hook": "fail", "launcher weak": "fail", "launcher code": "fail",
        "token agents.ann.token_env": "fail", "dream notes": "fail",
    }  # fmt: skip
    assert "/openai answers, but has no /v1/models (404)" in checks["upstream deep"]["message"]
    assert states.items() <= found.items(), "the doctor finds the same"


@pytest.mark.spec("SHIP-12")
async def test_a_live_check_of_a_file_with_mistakes_names_them_and_checks_the_rest(home: Path) -> None:
    text = "launchers: {typo: {kind: subprocess, command: [no-such-program]}}\nlimits: {max_hold: 3}"
    (home / "circadia.yaml").write_text(text, "utf-8")
    result = await run("config", "check", "--live")
    assert result.status == 9
    assert "did you mean 'max_holds'" in result.err
    assert "fail  launcher typo: the program 'no-such-program' is not found" in result.out


@pytest.mark.spec("SHIP-12")
async def test_secrets_in_addresses_are_not_shown(home: Path) -> None:
    sections = {
        "server": {"port": 0},
        "mcp_servers": {"zap": {"url": "http://127.0.0.1:1/mcp/s/Zm9vMTIzYmFyNDU2/mcp?key=hunter2"}},
        "fleet": {"alert_webhook_url": "https://hooks.example/services/T0123/aBcDeFgHiJkL01234567"},
    }
    (home / "circadia.yaml").write_text(yaml.safe_dump(sections), "utf-8")
    for words in (("doctor",), ("config", "show"), ("config", "check", "--live")):
        result = await run(*words)
        for secret in ("Zm9vMTIzYmFyNDU2", "hunter2", "aBcDeFgHiJkL01234567"):
            assert secret not in result.out + result.err, words
    assert "http://127.0.0.1:1/mcp/s/(hidden)/mcp?(hidden)" in (await run("config", "show")).out


async def test_the_pages_whole_example_is_a_configuration(home: Path) -> None:
    example, *_ = [block for block in blocks(REFERENCE / "config.md") if "circadia" in block.flags]
    (home / "circadia.yaml").write_text(example.body, "utf-8")
    settings = load_settings(home / "circadia.yaml")
    given = settings.model_fields_set
    assert given == set(type(settings).model_fields) - {"signals", "signals_env"}, "the example uses each section"
    assert (await run("config", "check")).status == 0


@pytest.mark.spec("SHIP-13")
def test_the_page_opens_with_fifteen_keys_each_of_which_is_a_setting() -> None:
    first, second, *_ = [part for part in parts(REFERENCE / "config.md") if part.heading]
    opening = next(part for part in (first, second) if "fifteen keys" in part.heading)
    rows = [line.split("|") for line in opening.text.splitlines() if line.startswith("| `")]
    assert len(rows) == 15
    for _, key, value, *_ in rows:
        path = key.strip(" `").replace("NAME", "name").split(".")
        for written in value.replace("`, `", "`|`").split("|"):
            stated: Any = yaml.safe_load(written.strip().strip("`"))
            for part in reversed(path):
                stated = {part: stated}
            if path[0] == "upstreams":
                stated["upstreams"]["name"].setdefault("base_url", "http://127.0.0.1:1")
            extra = {"launchers": {"nightly": {"kind": "subprocess", "command": ["true"]}}}
            extra["upstreams"] = {"openai": {"base_url": "http://127.0.0.1:1"}}
            settings_from({**extra, **stated})


@pytest.mark.parametrize("section", config_page.SECTIONS)
async def test_the_pages_tables_say_what_the_settings_say(section: str) -> None:
    (part,) = [part.text for part in parts(REFERENCE / "config.md") if part.heading == f"`{section}`"]
    assert [line for line in part.splitlines() if line.startswith("|")] == config_page.table(section)
