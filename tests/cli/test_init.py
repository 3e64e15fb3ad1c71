"""`circadia init`: the first configuration, and two agents on one bank, of which one alone writes the blocks."""

import asyncio
import os
import pty
from pathlib import Path

import pytest
import yaml

from circadia.settings import load_settings
from circadia.settings.load import settings_from
from tests.cli.terminal import PROGRAM, refused, run, started


@pytest.fixture
def no_keys(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and an environment without a provider's key."""
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    return home


async def test_the_first_file_names_the_providers_whose_keys_are_there(
    no_keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-another")
    done = await run("init")
    assert done.status == 0, done.err
    text = (no_keys / "circadia.yaml").read_text("utf-8")
    upstreams = load_settings(no_keys / "circadia.yaml").upstreams
    assert {name: (each.base_url, each.api, each.key_env) for name, each in upstreams.items()} == {
        "openai": ("https://api.openai.com/v1", "openai", "OPENAI_API_KEY"),
        "anthropic": ("https://api.anthropic.com", "anthropic", "ANTHROPIC_API_KEY"),
    }
    assert "sk-" not in text + done.out + done.err
    assert "circadia doctor" in done.err
    assert "circadia serve" in done.err
    assert "circadia agents add helper" in done.err
    assert "export" not in done.err


async def test_its_comments_are_settings_that_the_program_takes(no_keys: Path) -> None:
    assert (await run("init", "--upstream", "openai")).status == 0
    lines = (no_keys / "circadia.yaml").read_text("utf-8").splitlines()
    whole = "\n".join(lines[:1] + [line.removeprefix("# ") for line in lines[1:]])
    settings = settings_from(yaml.safe_load(whole))
    assert settings.agents["helper"].bank == "support"
    coordination = settings.agents["helper"].coordination
    assert coordination.wake_guardrails.max_wakes_per_day == 12
    assert settings.sleeptime.model is not None


async def test_other_providers_are_named_and_their_keys_asked_for(no_keys: Path) -> None:
    words = ("--upstream", "groq", "--upstream", "vllm=http://127.0.0.1:8000/v1", "--config", "other.yaml")
    done = await run("init", *words)
    assert done.status == 0, done.err
    upstreams = load_settings(no_keys / "other.yaml").upstreams
    assert (upstreams["groq"].key_env, upstreams["vllm"].key_env) == ("GROQ_API_KEY", None)
    assert upstreams["vllm"].base_url == "http://127.0.0.1:8000/v1"
    assert "export GROQ_API_KEY=…" in done.err
    assert "circadia serve --config other.yaml" in done.err


async def test_a_file_that_is_there_stays_and_an_unknown_provider_is_refused(no_keys: Path) -> None:
    (no_keys / "circadia.yaml").write_text("# mine\n", "utf-8")
    refused(await run("init", "--upstream", "openai"), 5, "circadia.yaml", "already exists")
    assert (no_keys / "circadia.yaml").read_text("utf-8") == "# mine\n"
    refused(await run("init", "--upstream", "nosuch", "--config", "new.yaml"), 2, "'nosuch'", "mistral", "NAME=URL")
    refused(await run("init", "--upstream", "mine=ftp://x", "--config", "new.yaml"), 9, "http://")
    refused(await run("init", "--config", "nowhere/new.yaml", "--upstream", "openai"), 2, "cannot write")
    assert not (no_keys / "new.yaml").exists()


async def test_a_program_without_a_key_is_told_to_name_a_provider(no_keys: Path) -> None:
    async with started("init", env={"HOME": str(no_keys)}) as program:
        refused(await program.ended(), 2, "--upstream", "ollama")


async def test_a_person_without_a_key_is_asked_for_a_provider(no_keys: Path) -> None:
    keyboard, terminal = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(*PROGRAM, "init", stdin=terminal, stderr=asyncio.subprocess.PIPE)
        os.write(keyboard, b"mistral\n")
        assert process.stderr is not None
        said = await process.stderr.read()
        assert await process.wait() == 0, said
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert b"Provider (openai, anthropic" in said
    assert b"export MISTRAL_API_KEY=" in said
    assert list(load_settings(no_keys / "circadia.yaml").upstreams) == ["mistral"]


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
    bad = await run("init", "sleeptime", "--agent", "Not Good")
    assert (bad.status, bad.out, "a name must match" in bad.err) == (9, "", True)
