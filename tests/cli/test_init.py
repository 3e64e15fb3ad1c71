"""`circadia init sleeptime`: two agents on one bank, of which one alone writes the blocks."""

from pathlib import Path

import pytest
import yaml

from circadia.settings import load_settings
from circadia.settings.load import settings_from
from tests.cli.terminal import refused, run


@pytest.mark.spec("SLEEP-27")
async def test_what_is_printed_is_a_configuration_of_two_agents(home: Path) -> None:
    done = await run("init", "sleeptime", "--agent", "writer", "--turns", "8")
    assert done.status == 0, done.err
    settings = settings_from(yaml.safe_load(done.out))
    first, second = settings.agents["writer"], settings.agents["writer-sleeptime"]
    assert (first.bank, second.bank) == ("writer-memory", "writer-memory")
    assert (first.sleeptime_agent, second.sleeptime_agent, second.capture) == (False, True, False)
    policy = settings.sleeptime.policy_of(settings.banks["writer-memory"].policy().sleeptime)
    assert (policy.agent, policy.frequency_turns, policy.is_operation_enabled("rethink")) == (
        "writer-sleeptime",
        8,
        False,
    )
    assert not (home / "circadia.yaml").exists()


@pytest.mark.spec("SLEEP-27")
async def test_the_file_is_written_with_what_stood_there_and_a_copy_is_kept(home: Path) -> None:
    file = home / "circadia.yaml"
    before = "# ours\nupstreams: {openai: {base_url: 'https://api.openai.com'}}\nagents: {writer: {bank: team}}\n"
    file.write_text(before, "utf-8")
    words = ("init", "sleeptime", "--agent", "writer", "--upstream", "openai", "--model", "small", "--write")
    assert (await run(*words)).status == 0
    settings = load_settings(file)
    second = settings.agents["writer-sleeptime"]
    assert (second.bank, second.upstreams, second.models) == ("team", ("openai",), ("small",))
    assert settings.upstreams["openai"].base_url == "https://api.openai.com"
    assert (home / "circadia.yaml.before").read_text("utf-8") == before
    refused(await run(*words), 5, "circadia.yaml.before")
    assert (await run(*words[:-1], "--json")).json["agents"]["writer"] == {"bank": "team"}


@pytest.mark.spec("SLEEP-27")
async def test_a_bank_that_the_file_does_not_know_can_be_named_and_a_guess_is_told(home: Path) -> None:
    guessed = await run("init", "sleeptime", "--agent", "writer")
    assert "the bank of both is 'writer-memory'; if writer is bound to another one" in guessed.err
    named = await run("init", "sleeptime", "--agent", "writer", "--bank", "notes", "--write")
    assert "the bank of both is 'notes'\n" in named.err
    assert "restart the server" in named.err
    settings = load_settings(home / "circadia.yaml")
    assert [settings.agents[name].bank for name in ("writer", "writer-sleeptime")] == ["notes", "notes"]
    assert settings.banks["notes"].sleeptime.agent == "writer-sleeptime"


@pytest.mark.spec("SLEEP-27")
async def test_what_would_not_keep_the_first_agent_from_its_blocks_is_refused(home: Path) -> None:
    file = home / "circadia.yaml"
    file.write_text("agents: {writer: {bank: team}}\nbanks: {team: {hot_edits: true}}\n", "utf-8")
    refused(await run("init", "sleeptime", "--agent", "writer"), 5, "hot_edits")
    file.write_text("agents: {writer: {bank: team}}\nbanks: {team: {sleeptime: {agent: other}}}\n", "utf-8")
    refused(await run("init", "sleeptime", "--agent", "writer"), 5, "sleep-time agent 'other'")
    refused(await run("init", "sleeptime", "--agent", "w", "--upstream", "openai"), 2, "no upstream 'openai'")
    refused(await run("init", "sleeptime", "--agent", "Not Good"), 9, "a name must match")
