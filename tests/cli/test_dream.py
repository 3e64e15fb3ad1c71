"""`circadia dream`, with a provider over HTTP as its model."""

import json
import re
import signal
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from circadia.clock import SystemClock
from circadia.sleeptime.markdown.dream_state import load_state, save_state
from circadia.sleeptime.markdown.folder_edits import FolderAnswer
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer
from circadia.sleeptime.operations.contradictions import ComparisonAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdicts
from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import refused, run, started
from tests.sleeptime.markdown.dream_stand import DreamStand, FactScript, prompt_of

MOVED = "The staging database of the project Heron is on port 5499 since 2026-11-26; before, it was on port 5433."
SAID = "The staging database of the project Heron moved to port 5499 on 2026-11-26."


def answer(request: dict[str, Any]) -> str:
    prompt = prompt_of(request)
    output = FolderAnswer if "## File " in prompt.data else ConsolidationAnswer
    output = ClaimVerdicts if re.search("^## Claims", prompt.data, re.M) else output
    if output is ConsolidationAnswer and "## Said now" not in prompt.data:  # another operation, of a pass over a bank
        return ComparisonAnswer(found=[]).model_dump_json()
    return FactScript({"staging database": MOVED})(prompt, output).model_dump_json()


@pytest_asyncio.fixture
async def provider() -> AsyncGenerator[MockUpstream]:
    async with MockUpstream(key="KEY", reply=answer) as running:
        yield running


@pytest.fixture
def stand(home: Path, provider: MockUpstream, monkeypatch: pytest.MonkeyPatch) -> DreamStand:
    """A folder that dreams are not switched on for, and a configuration with the provider's model."""
    stand = DreamStand(home)
    save_state(stand.root, load_state(stand.root), enabled_at=None)
    monkeypatch.setenv("KEY", "KEY")
    model = {"upstream": "own", "name": "gpt-5-nano"}
    upstreams = {"own": {"base_url": provider.base_url, "key_env": "KEY"}}
    (home / "circadia.yaml").write_text(json.dumps({"upstreams": upstreams, "sleeptime": {"model": model}}), "utf-8")
    return stand


@pytest.mark.spec("DREAM-01")
async def test_the_first_dream_needs_a_persons_consent(stand: DreamStand, provider: MockUpstream) -> None:
    stand.session("s1", SAID)
    refused(await run("dream", "memory", "--transcripts", "sessions", "--json"), 2, "--yes", "sleep-time model")
    assert not provider.requests
    assert (await run("dream", "memory", "--transcripts", "sessions", "--yes", "--json")).json["state"] == "proposed"
    assert provider.requests
    assert (await run("dream", "status", "memory", "--json")).json["enabled_at"] is not None


@pytest.mark.spec("DREAM-22", "DREAM-23", "DREAM-24")
async def test_a_person_dreams_looks_accepts_and_takes_it_back(stand: DreamStand) -> None:
    before = stand.contents()
    stand.session("s1", SAID)
    dreamt = await run("dream", "memory", "--transcripts", "sessions", "--yes")
    assert dreamt.status == 0
    assert dreamt.out.startswith("proposed: read 1 turn of 1 session; 0 facts added, 1 replaced, 0 retired in 1 file;")
    assert "2 calls" in dreamt.out
    assert "circadia dream accept memory" in dreamt.err
    shown = (await run("dream", "diff", "memory")).out
    assert "-- The staging database of the project Heron is on port 5433." in shown.replace("\n-", "\n--")
    assert f"+- {MOVED}" in shown
    assert (await run("dream", "accept", "memory", "--json")).json["state"] == "published"
    assert MOVED in stand.read("database.md")
    log = (await run("dream", "log", "memory", "--json")).json
    assert [each["title"] for each in log["dreams"]] == ["Dream: 0 added, 1 replaced, 0 retired"]
    assert any("2 calls" in line for line in log["diary"])
    assert datetime.fromisoformat(log["dreams"][0]["at"]).tzinfo is not None
    undone = (await run("dream", "undo", "memory", "--json")).json
    assert (undone["files"], undone["left_out"]) == (["database.md"], [])
    assert stand.contents() == before
    refused(await run("dream", "accept", "memory"), 4, "no dream waits")


@pytest.mark.spec("DREAM-22", "DREAM-23")
async def test_an_undo_names_what_it_did_not_restore(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    await run("dream", "memory", "--transcripts", "sessions", "--yes")
    await run("dream", "accept", "memory")
    (stand.root / "database.md").chmod(0o444)
    undone = await run("dream", "undo", "memory")
    assert undone.status == 1
    assert "no file" in undone.out
    assert "database.md: read-only" in undone.err
    assert MOVED in stand.read("database.md")


@pytest.mark.spec("DREAM-22", "DREAM-25")
async def test_a_person_refuses_the_upkeep_of_a_file(stand: DreamStand) -> None:
    stand.write("user.md", "- Ann writes short messages.\n- Ann writes short messages.\n")
    assert (await run("dream", "memory", "--yes", "--json")).json["retired"] == 1
    assert (await run("dream", "refuse", "memory", "--file", "user.md")).out == "refused 1 change\n"
    assert "user.md\n" not in (await run("dream", "diff", "memory")).out
    refused(await run("dream", "refuse", "memory", "--file", "user.md"), 4, "user.md")


@pytest.mark.spec("DREAM-01")
async def test_the_status_says_what_the_next_dream_waits_for_will_read_and_will_cost(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    stand.session("s2", SAID, entrypoint="sdk-cli")
    found = (await run("dream", "status", "memory", "--transcripts", "sessions", "--json")).json
    assert (found["due"], found["sessions"], found["entries"], found["files"]) == (False, 1, 2, 2)
    assert "not switched on" in found["next"]
    assert sum(found["excluded"].values()) == 1
    assert 20 <= found["tokens"] <= 200
    assert found["model"] == "gpt-5-nano"
    table = (await run("dream", "status", "memory", "--transcripts", "sessions")).out
    assert "gpt-5-nano" in table
    refused(await run("dream", "status", "nowhere"), 2, "nowhere")


@pytest.mark.spec("DREAM-01")
async def test_a_watch_dreams_when_there_are_five_new_sessions_and_ends_with_sigterm(stand: DreamStand) -> None:
    yesterday = SystemClock().now() - timedelta(hours=25)
    save_state(stand.root, load_state(stand.root), enabled_at=yesterday, dreamed_at=yesterday)
    for number in range(5):
        stand.session(f"s{number}", SAID)
    async with started("dream", "watch", "memory", "--transcripts", "sessions") as watching:
        await watching.until("proposed: read 5 turns of 5 sessions")
        watching.signal(signal.SIGTERM)
        assert (await watching.ended()).status == 0
    assert load_state(stand.root).dreamed_at != yesterday


@pytest.mark.spec("DREAM-03")
async def test_a_project_means_its_folder_and_the_sessions_around_it(
    stand: DreamStand, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    stand.session("s1", SAID)
    around = home / ".claude" / "projects" / re.sub("[^A-Za-z0-9]", "-", str(stand.project.resolve()))
    around.parent.mkdir(parents=True)
    stand.transcripts.rename(around)
    stand.root.rename(around / "memory")
    dreamt = (await run("dream", "project", "--yes", "--json")).json
    assert (dreamt["state"], dreamt["sessions"], dreamt["replaced"]) == ("proposed", 1, 1)
    assert (await run("dream", "accept", "project", "--json")).json["state"] == "published"
    assert MOVED in (around / "memory" / "database.md").read_text("utf-8")
