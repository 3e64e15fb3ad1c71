"""`circadia dream` over folders as the coding agents keep them (DREAM-40 … DREAM-42)."""

import json
import os
import re
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from circadia.clock import SystemClock
from circadia.records.dream_job import DreamMode
from circadia.sleeptime.markdown.dream_state import load_state, save_state
from circadia.sleeptime.markdown.folder_edits import FolderAnswer
from circadia.sleeptime.markdown.folder_lock import lock_memory_folder
from circadia.sleeptime.publish.claim_verifier import ClaimVerdicts
from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import refused, run
from tests.sleeptime.markdown.dream_stand import DreamStand, EditScript, prompt_of
from tests.sleeptime.markdown.git_folder import git, make_repository
from tests.sleeptime.markdown.transcript_files import write_openclaw_sessions

SAID = "The staging database of the project Heron is on port 5499 now."
TEXT = "The staging database of the project Heron is on port 5499."
HOOK = """#!/bin/sh
# As Letta Code installs it: front matter may have these keys alone.
for file in $(git diff --cached --name-only --diff-filter=ACM | grep '^system/.*\\.md$'); do
  git show ":$file" | sed -n '2,/^---$/p' | grep -v '^---$' | grep -qv '^\\(description\\|limit\\): ' \\
    && echo "$file: unknown frontmatter key" && exit 1
done
exit 0
"""
INDEX_HOOK = """#!/bin/sh
# As Letta Code 0.32 installs it for a folder with MEMORY.md: each folder has one, without front matter; each other
# file has name and description alone.
for file in $(git diff --cached --name-only --diff-filter=ACM | grep '\\.md$'); do
  [ -e "$(dirname "$file")/MEMORY.md" ] || { echo "$file: missing required index"; exit 1; }
  keys=$(git show ":$file" | sed -n '1{/^---$/!q};2,/^---$/s/^\\([a-z]*\\):.*/\\1/p' | tr '\\n' ' ')
  case "$file" in *MEMORY.md) wanted="";; *) wanted="name description ";; esac
  [ "$keys" = "$wanted" ] || { echo "$file: unknown frontmatter key in $keys"; exit 1; }
done
exit 0
"""


class Provider:
    """A model over HTTP whose edits a test sets."""

    def __init__(self) -> None:
        self.script = EditScript()
        self.asked = 0

    def answer(self, request: Mapping[str, Any]) -> str:
        self.asked += 1
        prompt = prompt_of(request)
        output = ClaimVerdicts if re.search("^## Claims", prompt.data, re.M) else FolderAnswer
        return self.script(prompt, output).model_dump_json()


@pytest_asyncio.fixture
async def provider(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Provider]:
    provider = Provider()
    async with MockUpstream(key="KEY", reply=provider.answer) as upstream:
        monkeypatch.setenv("KEY", "KEY")
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
        model = {"upstream": "own", "name": "gpt-5-nano"}
        upstreams = {"own": {"base_url": upstream.base_url, "key_env": "KEY"}}
        settings = json.dumps({"upstreams": upstreams, "sleeptime": {"model": model}})
        (home / "circadia.yaml").write_text(settings, "utf-8")
        yield provider


@pytest.fixture
def stand(home: Path, provider: Provider) -> DreamStand:
    stand = DreamStand(home)
    stand.session("s1", SAID)
    return stand


async def dream(provider: Provider, *edits: Mapping[str, str], folder: str = "memory") -> dict[str, Any]:
    """Dream with these edits, accept, and return what the dream printed."""
    provider.script = EditScript(*edits)
    report = (await run("dream", folder, "--transcripts", "sessions", "--yes", "--json")).json
    if report["state"] == "proposed":
        await run("dream", "accept", folder)
    return report


@pytest.mark.spec("DREAM-40")
async def test_in_a_letta_folder_a_new_file_has_its_keys_so_that_the_agent_can_go_on_to_commit(
    stand: DreamStand, provider: Provider
) -> None:
    """D1"""
    folder = stand.root.with_name("letta")
    make_repository(folder, {"system/human.md": b"---\ndescription: The person\nlimit: 5000\n---\n\n- Ann.\n"})
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    new = {"file": "system/heron.md", "said": "5499", "text": TEXT, "description": "Ports of the project Heron"}
    await dream(provider, new, folder="letta")
    written = (folder / "system" / "heron.md").read_text("utf-8")
    assert written.startswith("---\ndescription: Ports of the project Heron\n---\n\n- The staging database")
    assert not (folder / "MEMORY.md").exists(), "Letta shows its agent a tree"
    assert git(folder, "log", "-1", "--format=%s") == "Dream: 1 added, 0 replaced, 0 retired"
    (folder / "system" / "human.md").write_text("---\ndescription: The person\nlimit: 5000\n---\n\n- Ann. Tea.\n")
    git(folder, "commit", "-qam", "the agent's")
    hook.write_text("#!/bin/sh\necho 'the folder is frozen'\nexit 1\n")
    stand.session("s2", "Redis of Heron is on port 6380.")
    await dream(provider, {"file": "system/heron.md", "said": "6380", "text": "Redis is on port 6380."}, folder="letta")
    assert (folder / "system" / "heron.md").read_text("utf-8") == written
    accepted = (await run("dream", "accept", "letta", "--json")).json
    assert (accepted["state"], "the folder is frozen" in accepted["detail"]) == ("proposed", True)


@pytest.mark.spec("DREAM-42")
async def test_a_filter_that_git_requires_and_that_fails_is_told_before_the_model_is_paid(
    stand: DreamStand, provider: Provider
) -> None:
    folder = stand.root.with_name("locked")
    make_repository(folder, {"MEMORY.md": b"# Memory\n\n- Ann likes tea.\n"})
    (folder / ".gitattributes").write_text("*.md filter=crypt\n")
    git(folder, "config", "filter.crypt.clean", "false")
    git(folder, "config", "filter.crypt.required", "true")
    provider.script = EditScript({"file": "MEMORY.md", "said": "5499", "text": TEXT})
    failed = await run("dream", "locked", "--transcripts", "sessions", "--yes")
    assert failed.status == 7
    assert "clean filter 'crypt' failed" in " ".join(failed.err.split())
    assert provider.asked == 0
    git(folder, "config", "filter.crypt.clean", "cat")
    assert (await dream(provider, {"file": "MEMORY.md", "said": "5499", "text": TEXT}, folder="locked"))["added"] == 1


@pytest.mark.spec("DREAM-40")
async def test_in_a_letta_folder_with_indexes_new_files_have_its_keys_and_lie_in_a_folder_that_has_one(
    stand: DreamStand, provider: Provider
) -> None:
    """D1: as Letta Code 0.32 keeps a folder on its servers."""
    folder = stand.root.with_name("letta")
    described = b"---\nname: %s\ndescription: %s\n---\n\n- Ann.\n"
    index = b"# Memory\n\n- [%s](%s.md)\n"
    make_repository(folder, {
        "MEMORY.md": index % (b"Ann", b"ann") + b"- [Work](work/MEMORY.md)\n", "ann.md": described % (b"ann", b"her"),
        "work/MEMORY.md": index % (b"Heron", b"heron"), "work/heron.md": described % (b"heron", b"ports"),
        "home/MEMORY.md": b"# Home\n", "trips/MEMORY.md": b"# Trips\n", "people/MEMORY.md": b"# People\n",
    })  # fmt: skip
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.write_text(INDEX_HOOK)
    hook.chmod(0o755)
    edits = (
        {"file": "work/redis.md", "said": "6380", "text": "Redis is on port 6380.", "description": "Redis"},
        {"file": "ports/heron.md", "said": "5499", "text": TEXT, "description": "Ports"},
    )
    stand.session("s1", "Redis of Heron is on port 6380.", SAID)
    await dream(provider, *edits, folder="letta")
    assert git(folder, "log", "-1", "--format=%s") == "Dream: 2 added, 0 replaced, 0 retired"
    assert (folder / "work" / "redis.md").read_text("utf-8").startswith("---\nname: redis\ndescription: Redis\n---\n")
    assert TEXT in (folder / "heron.md").read_text("utf-8")
    listed = (folder / "MEMORY.md").read_text("utf-8")
    assert "(heron.md)" in listed
    assert "(work/redis.md)" in listed


@pytest.mark.spec("DREAM-41")
async def test_a_repository_is_no_memory_folder_unless_it_is_named_as_such(
    stand: DreamStand, home: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2"""
    files = {
        "README.md": b"# Heron\n", "docs/ports.md": b"- The staging database is on port 5433.\n",
        "system/README.md": b"# The system of Heron\n",
    }  # fmt: skip
    make_repository(home / "heron", files)
    (home / "heron" / "src").mkdir()
    looked_for = f".claude/projects/{re.sub('[^A-Za-z0-9]', '-', str((home / 'heron').resolve()))}/memory"
    for command in (("dream",), ("dream", "status"), ("dream", "watch")):
        for name in ("heron", "heron/src", "heron/docs"):
            refused(await run(*command, name), 2, looked_for)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "config"))
    refused(await run("dream", "status", "heron"), 2, looked_for.replace(".claude", "config"))
    assert not (home / "heron" / ".circadia").exists()
    kept = home / looked_for.replace(".claude", "config")
    kept.mkdir(parents=True)
    assert (await run("dream", "status", "heron", "--json")).json["files"] == 0
    assert (await run("dream", "status", "heron", "--repository", "--json")).json["files"] == 3


@pytest.mark.spec("DREAM-40", "DREAM-41")
@pytest.mark.parametrize("index", [None, "", "# Memory\n\n- Ann likes tea.\n", "- [Database](database.md) — ports\n"])
async def test_a_new_fact_goes_where_the_agent_reads_it_with_and_without_an_index(
    stand: DreamStand, provider: Provider, index: str | None
) -> None:
    """D3"""
    (stand.root / "MEMORY.md").unlink()
    if index is not None:
        stand.write("MEMORY.md", index)
    new = {"file": "project_heron.md", "said": "5499", "text": TEXT, "description": "Ports of Heron"}
    await dream(provider, new)
    read = stand.read("MEMORY.md")
    assert "- [Project heron](project_heron.md) — Ports of Heron\n" in read
    assert TEXT in stand.read("project_heron.md")
    assert (index or "") in read


@pytest.mark.spec("DREAM-40")
@pytest.mark.parametrize("description", ["", "Facts"])
async def test_an_empty_folder_gets_an_index_with_the_fact(
    stand: DreamStand, home: Path, provider: Provider, description: str
) -> None:
    (home / "empty").mkdir()
    await dream(
        provider, {"file": "MEMORY.md", "said": "5499", "text": TEXT, "description": description}, folder="empty"
    )
    (file,) = (path for path in (home / "empty").iterdir() if path.is_file())
    assert file.read_text("utf-8").startswith(f"# Memory\n\n- {TEXT} <!-- circadia: session s1")


@pytest.mark.spec("DREAM-40")
async def test_a_folder_whose_index_holds_the_facts_gets_them_there(stand: DreamStand, provider: Provider) -> None:
    """D3, D4: as OpenClaw's workspace and Codex's handbook."""
    (stand.root / "database.md").unlink()
    stand.write("MEMORY.md", "# Long-term memory\n\n* Ann likes tea.\n")
    stand.write("AGENTS.md", "# Agents\n")
    log = stand.write("memory/2026-11-20.md", "- Looked at the staging database of the project Heron.\n")
    new = {"file": "memory/2026-11-20.md", "said": "5499", "text": TEXT, "description": "Ports"}
    await dream(provider, new)
    assert f"* Ann likes tea.\n* {TEXT} <!-- circadia: session s1" in stand.read("MEMORY.md")
    assert log.read_text("utf-8") == "- Looked at the staging database of the project Heron.\n"
    assert sorted(stand.contents()) == ["AGENTS.md", "MEMORY.md", "memory/2026-11-20.md"]


@pytest.mark.spec("DREAM-32", "DREAM-44")
@pytest.mark.parametrize(
    ("stands", "kind", "file", "left_out"),
    [
        ("MEMORY.md", "link", "heron.md", ""),
        ("Memory.md", "file", "heron.md", ""),
        ("MEMORY.md", "large", "heron.md", ""),
        ("heron.md", "link", "heron.md", ""),
        ("database.md", "file", "database.md/heron.md", ""),
        ("ports", "link", "ports/heron.md", ""),
        ("MEMORY.md", "file", f"{'鷺' * 100}.md", ""),
    ],
)
async def test_what_is_in_the_way_of_a_file_is_said_and_keeps_no_other_from_being_written(
    stand: DreamStand, home: Path, provider: Provider, stands: str, kind: str, file: str, left_out: str
) -> None:
    path = stand.root / stands
    if kind == "link":
        path.unlink(missing_ok=True)
        (home / "outside").mkdir()
        path.symlink_to(home / "outside")
    elif kind == "large":
        path.write_text("- x\n" * 300_000)
    elif stands == "Memory.md":
        path.with_name("MEMORY.md").rename(path)
    before = {name: data for name, data in stand.contents().items() if name not in ("database.md", "MEMORY.md")}
    new = {"file": file, "said": "5499", "text": TEXT, "description": "Ports of Heron"}
    moved = {"file": "database.md", "said": "5499", "replaces": "5432", "text": "Production, on 5432, is beside it."}
    report = await dream(provider, new, moved)
    assert (report["state"], report["replaced"]) == ("proposed", 1)
    assert [left_out in text for text in report["left_out"]][:1] == [True] * bool(left_out)
    assert "Production, on 5432, is beside it." in stand.read("database.md")
    assert before.items() <= stand.contents().items()
    if not left_out:
        assert any(TEXT in data.decode() for data in stand.contents().values())


@pytest.mark.spec("DREAM-41")
async def test_the_sessions_of_worktrees_count_and_those_of_programs_by_a_switch(
    stand: DreamStand, home: Path, provider: Provider
) -> None:
    """D5"""
    project, tree = home / "heron", home / "elsewhere"
    make_repository(project, {"code.py": b"pass\n"})
    git(project, "worktree", "add", "-q", str(tree))
    projects = home / ".claude" / "projects"
    around, beside = (projects / re.sub("[^A-Za-z0-9]", "-", str(path.resolve())) for path in (project, tree))
    stand.project = tree
    stand.transcripts.joinpath("s1.jsonl").unlink()
    stand.session("s2", SAID)
    stand.session("s3", "Redis of Heron is on port 6380.", entrypoint="sdk-cli")
    projects.mkdir(parents=True)
    stand.transcripts.rename(beside)
    around.mkdir()
    stand.root.rename(around / "memory")
    (beside / "memory").mkdir()
    (beside / "memory" / "MEMORY.md").write_text("- Ann likes tea.\n")
    status = (await run("dream", "status", "heron", "--json")).json
    assert (status["sessions"], status["worktrees"]) == (1, [str(beside)])
    assert any("memory of a worktree" in text and str(beside) in text for text in status["findings"])
    assert "1 folder with sessions of worktrees" in (await run("dream", "status", "heron")).out
    assert list(status["excluded"]) == ["it was started by a program (sdk-cli)"]
    assert (await run("dream", "status", "elsewhere", "--programs", "--json")).json["sessions"] == 2
    edits = (
        {"file": "database.md", "said": "5499", "replaces": "5433", "text": TEXT},
        {"file": "database.md", "said": "6380", "text": "Redis of Heron is on port 6380."},
    )
    provider.script = EditScript(*edits)
    report = (await run("dream", "elsewhere", "--programs", "--yes", "--json")).json
    assert (report["sessions"], report["added"], report["replaced"]) == (2, 1, 1)


@pytest.mark.spec("DREAM-30", "DREAM-40")
async def test_the_sessions_of_an_openclaw_workspace_are_found_in_its_database(
    stand: DreamStand, home: Path, provider: Provider
) -> None:
    workspace, agent = home / ".openclaw" / "workspace", home / ".openclaw" / "agents" / "main" / "agent"
    agent.mkdir(parents=True)
    stand.root.rename(workspace)
    workspace.joinpath("AGENTS.md").write_text("# Agents\n")
    workspace.joinpath("MEMORY.md").write_text("# Long-term memory\n\n- Ann likes tea.\n")
    provider.script = EditScript({"file": "MEMORY.md", "said": "6007", "text": "Service 7 is on port 6007."})
    with closing(sqlite3.connect(agent / "openclaw-agent.sqlite", isolation_level=None)) as database:
        write_openclaw_sessions(database)
        assert (await run("dream", "status", ".openclaw/workspace", "--json")).json["sessions"] == 2
        report = (await run("dream", ".openclaw/workspace", "--yes", "--json")).json
    assert (report["state"], report["sessions"], report["added"]) == ("proposed", 2, 1)
    assert (await run("dream", "status", ".openclaw/workspace", "--json")).json["sessions"] == 0


@pytest.mark.spec("DREAM-42")
async def test_turns_that_a_person_has_rewound_are_no_evidence(stand: DreamStand, provider: Provider) -> None:
    """D7"""
    path = stand.session("s1", "Hello.", "Use port 7001 for staging.", SAID)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for line, parent in zip(lines, (None, "s1-0", "s1-0"), strict=True):
        line["parentUuid"] = parent
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    stand.age(path)
    edits = (
        {"file": "database.md", "said": "7001", "text": "Staging is on port 7001."},
        {"file": "database.md", "said": "5499", "replaces": "5433", "text": TEXT},
    )
    report = await dream(provider, *edits)
    assert (report["turns"], report["added"], report["replaced"]) == (2, 0, 1)
    assert "7001" not in stand.read("database.md")


NOW = datetime.now(UTC)
SITUATIONS: Mapping[str, tuple[Mapping[str, object], int, str, str]] = {
    "not switched on": ({"enabled_at": None}, 5, "no: dreams are not switched on", "reads 5 sessions; it proposes"),
    "few sessions": ({}, 1, "no: 1 new session, of 5 that make a dream due", "reads 1 session; it proposes, since you"),
    "due": ({"is_accepted": True, "mode": DreamMode.AUTO}, 5, "yes, at the next look", "reads 5 sessions; it writes"),
    "a day has not passed": (
        {"dreamed_at": NOW, "is_accepted": True}, 5, "no: the last dream is less than 24 hours ago", "it proposes",
    ),
    "failed": (
        {"failures": 3, "failed_at": NOW, "trouble": "no answer"}, 5, "no: 3 dreams in a row failed", "it proposes",
    ),
    "a proposal waits": ({}, 5, "no: the changes of a dream wait for a person", "nothing: the changes of pas_"),
    "another process dreams": (
        {"is_accepted": True}, 5, "no: process {pid} on ", "UTC, dreams over the folder now",
    ),
    "no model": ({}, 5, "yes, at the next look", "reads no session without a model, and only tidies the folder"),
}  # fmt: skip


@pytest.mark.spec("DREAM-01", "DREAM-41")
@pytest.mark.parametrize("name", SITUATIONS)
async def test_the_status_says_what_will_happen_and_why_not(
    stand: DreamStand, home: Path, provider: Provider, name: str
) -> None:
    changes, number, by_itself, by_hand = SITUATIONS[name]
    for session in range(2, number + 1):
        stand.session(f"s{session}", SAID)
    if name == "a proposal waits":
        provider.script = EditScript({"file": "database.md", "said": "5499", "replaces": "5433", "text": TEXT})
        assert (await run("dream", "memory", "--transcripts", "sessions", "--yes", "--json")).json[
            "state"
        ] == "proposed"
        for session in range(5):
            stand.session(f"t{session}", SAID)
        changes = {"dreamed_at": SystemClock().now() - timedelta(hours=25)}
    if name == "no model":
        (home / "circadia.yaml").write_text("{}", "utf-8")
    save_state(stand.root, load_state(stand.root), **changes)
    with ExitStack() as held:
        if name == "another process dreams":
            held.enter_context(lock_memory_folder(stand.root, SystemClock()))
        before = {path: path.stat().st_mtime_ns for path in stand.root.rglob("*")}
        table = (await run("dream", "status", "memory", "--transcripts", "sessions")).out
        found = (await run("dream", "status", "memory", "--transcripts", "sessions", "--json")).json
        assert {path: path.stat().st_mtime_ns for path in stand.root.rglob("*")} == before
    shown = " ".join(re.sub("[│|]", " ", table).split())
    assert by_itself.format(pid=os.getpid()) in shown
    assert by_hand in found["outlook"]
