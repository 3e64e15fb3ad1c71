"""The demo: its arithmetic, its options, and what it says of a provider that refuses."""

import ast
import re
import signal
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from typer.testing import CliRunner

from circadia.cli.app import app
from circadia.cli.demo import story
from circadia.cli.demo.result import AgentTally, LedgerUsage, RunResult, missing, price_list
from circadia.cli.demo.run import WORKER, environment
from circadia.errors import EXIT_STATUS, CircadiaError, InvalidRequest, UpstreamFailed
from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import started
from tests.house.tree import ROOT

AGENTS = (story.COORDINATOR, *story.SPECIALISTS)
DEMO_SECONDS = 170.0


def tally(*lines: Mapping[str, Any]) -> AgentTally:
    """Return a tally that took `lines`."""
    counted = AgentTally(agent="logs")
    for line in lines:
        counted.count_line(line)
    return counted


def model_line(purpose: str, tokens: tuple[int | None, int | None] = (40, 8)) -> dict[str, Any]:
    return {"event": "model", "purpose": purpose, "input": tokens[0], "output": tokens[1], "cached": 0, "seconds": 1.0}


def test_an_agents_lines_are_counted_by_what_they_were_for() -> None:
    counted = tally(
        {"event": "ready"},
        {"event": "wait", "empty": True, "seconds": 5},
        model_line("empty"),
        {"event": "wait", "empty": False, "seconds": 1},
        model_line("work"),
        {"event": "tool", "name": "send_message"},
        {"event": "done", "incident": "INC-1"},
        {"event": "error", "message": "ConnectError: gone"},
        {"event": "something new"},
    )
    assert (counted.work_calls, counted.empty_calls, counted.model_calls) == (1, 1, 2)
    assert (counted.waits, counted.empty_waits, counted.tool_calls) == (2, 1, 1)
    assert (counted.input_tokens, counted.output_tokens) == (80, 16)
    assert counted.jobs == ["INC-1"]
    assert counted.errors == ["ConnectError: gone"]


def test_usage_that_the_provider_does_not_give_stays_unknown() -> None:
    counted = tally(model_line("work", (None, None)))
    assert (counted.model_calls, counted.unknown_calls, counted.input_tokens) == (1, 1, 0)


def test_sleep_is_counted_between_two_looks_that_both_saw_it() -> None:
    counted = AgentTally(agent="logs")
    for sleeping in (True, True, False, False, True, True):
        counted.record_state(sleeping=sleeping, held=int(sleeping), seconds=0.5)
    assert (counted.asleep_seconds, counted.naps, counted.held) == (1.0, 2, 1)


def run_of(counted: AgentTally, ledger: LedgerUsage) -> RunResult:
    return RunResult(
        name="baseline",
        wall_seconds=60,
        incidents={"INC-1": 20.0, "INC-2": None},
        agents=[counted],
        ledger={counted.agent: ledger},
        warnings=[],
    )


def test_a_difference_between_the_ledger_and_the_agents_is_named() -> None:
    counted = tally(model_line("work"))
    assert run_of(counted, LedgerUsage(calls=1, input_tokens=40, output_tokens=8)).differences() == []
    assert run_of(counted, LedgerUsage(calls=2, input_tokens=40, output_tokens=8)).differences() == [
        "baseline, logs: model calls: the agent counted 1, the ledger 2"
    ]


def test_a_run_with_an_open_incident_is_not_finished() -> None:
    assert not run_of(tally(), LedgerUsage()).finished


def test_two_runs_of_which_the_second_saves_nothing_have_not_shown_their_point() -> None:
    work, nap = (model_line("work"), {"event": "wait", "empty": True, "seconds": 5})
    quiet, loud = tally(work), tally(work, model_line("empty"), nap)
    for sleeping in (False, True):
        quiet.record_state(sleeping=sleeping, held=0, seconds=1)
    runs = [replace(run_of(each, LedgerUsage()), incidents={"INC-1": 2.0}) for each in (loud, quiet)]
    assert missing(*runs) == []
    assert missing(runs[0], replace(runs[1], incidents={"INC-1": None})) == ["each incident solved in both runs"]
    assert missing(runs[0], runs[0]) == [
        "agents that sleep", "the same work with fewer tokens"
    ]  # fmt: skip


def test_the_price_is_the_named_models_list_price() -> None:
    prices = price_list("gpt-4o-mini", required=True)
    assert prices.usd(1_000_000, 1_000_000) == pytest.approx(0.15 + 0.60)


@pytest.mark.spec("SHIP-11")
def test_the_readme_shows_the_month_that_the_demo_prints_for_its_counts() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    def row(what: str) -> list[int]:
        (cells,) = re.findall(rf"(?m)^\| {what} \|(.+)\|$", readme)
        return [int(number) for number in re.findall(r"\d+", cells.replace(",", ""))]

    calls, (first_in, then_in), (first_out, then_out) = row("model calls"), row("tokens in"), row("tokens out")
    work, idle = row("of which for work"), row("of which after an empty wait")
    assert calls == [work[0] + idle[0], work[1] + idle[1]]
    prices = price_list("gpt-5-mini", required=True)
    months = [prices.month_usd(count, out) or 0 for count, out in zip(calls, (first_out, then_out), strict=True)]
    assert row("price of a month of it, 20,000 tokens a prompt") == [round(usd) for usd in months]
    assert f"| ${prices.usd(first_in, first_out):.5f} | ${prices.usd(then_in, then_out):.5f} |" in readme
    assert f"${round(months[0]) - round(months[1])} a month" in readme


@pytest.mark.spec("SHIP-11")
def test_the_readme_begins_with_sleep_wake_and_dream_and_names_version_and_licence() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    first = "\n".join(readme.splitlines()[:60])
    order = [first.index(word) for word in ("**Sleep**", "**Wake**", "**Dream**", "make demo", "make test", "uvx ")]
    assert order == sorted(order)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"Version {project['version']}" in first
    assert project["license"] in first
    assert readme.index("docker run") < readme.index("in five minutes")
    assert len(re.findall(r"\]\(", readme.partition("## Read on")[2])) <= 8


def test_a_model_without_a_price_is_refused_if_it_was_asked_for_and_else_unknown() -> None:
    with pytest.raises(InvalidRequest, match="--price-as"):
        price_list("no-such-model", required=True)
    assert price_list("no-such-model", required=False).usd(1, 1) is None


def test_both_runs_play_the_same_parts_and_differ_only_in_who_may_sleep() -> None:
    awake, sleeping = (story.graph("s", sleeping=value) for value in (False, True))
    assert [agent["name"] for agent in awake["agents"]] == [agent["name"] for agent in sleeping["agents"]]
    assert all(not agent.get("sleep_events") for agent in awake["agents"])
    asleep = {agent["name"] for agent in sleeping["agents"] if "agent_started" in agent.get("sleep_events", [])}
    assert asleep == set(story.SPECIALISTS)


def test_the_story_is_scaled_as_a_whole() -> None:
    scale = story.TimeScale(run_seconds=60, client_wait_seconds=300)
    assert (scale.factor, scale.wait_seconds, scale.seconds(12)) == (60, 5, 12)
    half = story.TimeScale(run_seconds=30, client_wait_seconds=300)
    assert (half.factor, half.wait_seconds, half.seconds(12)) == (120, 2.5, 6)


def test_each_job_of_the_story_is_in_the_part_of_its_agent() -> None:
    scale = story.TimeScale(run_seconds=60, client_wait_seconds=300)
    parts = {agent: story.part(agent, scale, "m", "max_tokens") for agent in AGENTS}
    for incident in story.INCIDENTS:
        steps = parts[story.COORDINATOR]["incidents"][incident.id]
        assert [step["agent"] for step in steps] == [job.agent for job in incident.jobs]
        for job in incident.jobs:
            assert parts[job.agent]["jobs"][incident.id]["seconds"] == job.minutes


def test_an_agents_program_imports_nothing_of_circadia() -> None:
    names: set[str] = set()
    for node in ast.walk(ast.parse(WORKER.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    assert {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) == {"httpx2", "mcp", "openai"}


def test_an_agents_program_gets_two_addresses_its_token_and_no_other_secret() -> None:
    base = {
        "PATH": "/bin",
        "CIRCADIA_ADMIN_TOKEN": "operator",
        "PROVIDER_KEY": "secret",
        "OPENAI_BASE_URL": "https://elsewhere.test",
        "NO_PROXY": "intranet",
    }
    given = environment(base, {"OPENAI_BASE_URL": "http://a", "MCP_URL": "http://b"}, "own")
    assert (given["OPENAI_API_KEY"], given["MCP_TOKEN"], given["PATH"]) == ("own", "own", "/bin")
    assert (given["OPENAI_BASE_URL"], given["MCP_URL"]) == ("http://a", "http://b")
    assert not {"operator", "secret"} & set(given.values())
    assert given["NO_PROXY"] == "intranet,127.0.0.1,localhost"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--upstream", "https://provider.test"), "--upstream needs --model"),
        (("--upstream", "provider.test", "--model", "m"), "must be a URL"),
        (("--key-env", "KEY"), "--key-env goes with --upstream"),
        (("--upstream", "https://p.test", "--model", "m", "--key-env", "NO_SUCH_VARIABLE"), "is not set"),
        (("--price-as", "no-such-model"), "knows no price"),
        (("--model", "no-such-file.gguf"), "neither a known model"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_once(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    refused = CliRunner().invoke(app, ["demo", *arguments])
    assert isinstance(refused.exception, CircadiaError)
    assert message in refused.exception.message
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.timeout(240)
async def test_a_provider_that_refuses_the_key_ends_the_demo_with_what_it_said(tmp_path: Path) -> None:
    async with MockUpstream(key="key-of-the-provider") as provider:
        words = ("--upstream", provider.base_url, "--model", "mock-1", "--key-env", "PROVIDER_KEY")
        env = {"PROVIDER_KEY": "key-of-somebody-else", "TMPDIR": str(tmp_path)}
        async with started("demo", "--seconds", "10", *words, env=env) as demo:
            result = await demo.ended(DEMO_SECONDS)
    assert result.status == EXIT_STATUS[UpstreamFailed]
    assert "no model call was answered" in result.err
    assert "401" in result.err
    assert "Traceback" not in result.err
    assert "key-of-somebody-else" not in result.err
    assert any(tmp_path.glob("circadia-demo-*/server.log")), "the logs stay"


@pytest.mark.timeout(240)
async def test_the_demo_that_stays_signs_its_viewer_in_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    async with MockUpstream() as provider:
        words = ("--seconds", "5", "--stay", "--upstream", provider.base_url, "--model", "mock-1")
        async with started("demo", *words, env={"TMPDIR": str(tmp_path)}) as demo, aiohttp.ClientSession() as page:
            said = await demo.until("stays until Ctrl-C")
            async with page.get(said.split()[-1], allow_redirects=False) as answer:
                assert (answer.status, answer.headers["location"]) == (303, "/ui/")
            demo.signal(signal.SIGINT)
            result = await demo.ended(60)
    assert result.status in (0, 1), result.err  # 1 if the mock provider's answers show a point badly
    assert "Traceback" not in result.err
