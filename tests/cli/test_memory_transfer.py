"""`circadia banks export` and `import`: out of one bank, into another, from other systems, and from bad files."""

import json
import sqlite3
import zipfile
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.api.service import ADMIN, Service, serving
from tests.cli.terminal import refused, run
from tests.memory.transfer.test_memory_exports import CHROMA

KEY = "sk-" + "a1B2" * 8


@pytest.fixture
async def service(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Service]:
    """A server in this process, where the environment leads commands to it as the operator."""
    (home / "data").mkdir()
    async with serving(home / "data") as running:
        monkeypatch.setenv("CIRCADIA_URL", running.url)
        monkeypatch.setenv("CIRCADIA_ADMIN_TOKEN", ADMIN)
        yield running


def lines(bank: str, count: int) -> str:
    """Return an export of so many episodes."""
    said = [{"type": "episode", "id": f"epi_{bank}{n}", "text": f"said {n}", "speaker": "ann"} for n in range(count)]
    first = {"type": "bank", "version": 1, "name": bank, "exported_at": "2026-01-01T00:00:00Z"}
    return "".join(json.dumps(each) + "\n" for each in (first, *said, {"type": "end", "lines": count + 1}))


async def brought(*words: str) -> Any:
    """Return what an import tells."""
    return (await run("banks", "import", *words, "--json")).json


@pytest.mark.spec("MEM-16")
async def test_a_bank_goes_out_and_comes_in_again_and_nothing_is_doubled(service: Service, home: Path) -> None:
    (home / "first.jsonl").write_text(lines("first", 250), "utf-8")
    told = await brought("first.jsonl")
    counts = {"episodes": 250, "notes": 0, "versions": 0, "known": 0, "skipped": 0, "damaged": 0}
    assert told == {"banks": ["first"], "files": 1, "passes": [], **counts}
    assert (await brought("first.jsonl"))["known"] == 250
    exported = await run("banks", "export", "first", "--out", "out.jsonl")
    assert exported.err == "exported 252 lines of bank first to 'out.jsonl'\n"
    assert (await run("banks", "export", "first")).out.splitlines()[1:] == (
        home / "out.jsonl"
    ).read_text().splitlines()[1:]
    assert not (home / "out.jsonl.part").exists()
    assert (await brought("out.jsonl", "--into", "second"))["episodes"] == 250
    shown = (await run("banks", "import", "out.jsonl", "--into", "second")).out
    assert shown == "second: 0 episodes, 0 notes, 0 versions of blocks are new; 250 lines were known\n"
    refused(await run("banks", "export", "first", "--out", "out.jsonl"), 5, "exists")
    refused(await run("banks", "export", "nowhere"), 4, "no bank 'nowhere'")


@pytest.mark.spec("MEM-16")
@pytest.mark.parametrize("before", ["", "\n\n"])
async def test_lines_of_ones_own_make_the_bank_that_is_named(service: Service, home: Path, before: str) -> None:
    said = "".join(json.dumps({"type": "episode", "speaker": "ann", "text": f"tea {n}"}) + "\n" for n in range(3))
    (home / "crm.jsonl").write_text(before + said, "utf-8")
    assert (await brought("crm.jsonl", "--into", "crm"))["episodes"] == 3
    assert (await brought("crm.jsonl", "--into", "crm"))["known"] == 3
    (home / "bad.jsonl").write_text(f'{before}{said}{{"type": "episode"}}\n', "utf-8")
    number = 4 + len(before)
    refused(await run("banks", "import", "bad.jsonl", "--into", "other", "--format", "jsonl"), 2, f"line {number}")
    refused(await run("banks", "import", "crm.jsonl"), 2, "names no bank")


@pytest.mark.spec("MEM-16")
async def test_transcripts_of_a_folder_come_in_without_secrets(service: Service, home: Path) -> None:
    for number in range(2):
        folder = home / "projects" / f"app{number}"
        folder.mkdir(parents=True)
        turn = {
            "type": "user", "uuid": f"u{number}", "sessionId": f"s{number}", "timestamp": "2025-01-20T11:57:17.716Z",
            "message": {"role": "user", "content": f"I live in Bern, my key is {KEY}"},
        }  # fmt: skip
        (folder / "s.jsonl").write_text(json.dumps(turn) + "\n", "utf-8")
    told = await brought("projects", "--into", "me", "--person", "ann")
    assert (told["files"], told["episodes"]) == (2, 2)
    assert (await brought("projects", "--into", "me", "--person", "ann"))["known"] == 2
    text = (await run("banks", "export", "me")).out
    assert ("Bern" in text, KEY in text, '"speaker":"ann"' in text) == (True, False, True)


@pytest.mark.spec("MEM-16")
async def test_transcripts_of_several_programs_in_a_folder_come_in_each_by_its_format(
    service: Service, home: Path
) -> None:
    at = "2025-01-20T11:57:17.716Z"
    spoken = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "I live in Bern."}]}
    files: dict[str, list[dict[str, object]]] = {
        "codex/2025/01/20/rollout.jsonl": [
            {"timestamp": at, "type": "session_meta", "payload": {"id": "t-1", "cwd": "/app", "source": "cli"}},
            {"timestamp": at, "type": "response_item", "payload": spoken},
            {"timestamp": at, "type": "new_kind", "payload": {}},
        ],
        "openclaw/o-1.jsonl": [
            {"type": "session", "version": 3, "id": "o-1", "cwd": "/app"},
            {"type": "message", "id": "m", "timestamp": at, "message": {"role": "user", "content": "I like Porto."}},
        ],
        "chat.jsonl": [{"at": at, "speaker": "bea", "text": "I like tea.", "session": "p-1"}],
        "other.jsonl": [{"of": "no format"}],
    }
    for name, entries in files.items():
        file = home / "logs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    (home / "logs" / "2025-01-21.md").write_text("- Ann prefers trains.\n", "utf-8")
    shown = await run("banks", "import", "logs", "--into", "me", "--person", "ann")
    assert shown.out == (
        "me: 4 episodes, 0 notes, 0 versions of blocks are new; 0 lines were known"
        "; 1 lines of unknown kinds were skipped\n"
    )
    exported = (await run("banks", "export", "me")).out.splitlines()
    episodes = [line for line in map(json.loads, exported) if line["type"] == "episode"]
    assert {(each["speaker"], each["trust"], each["text"], each["conversation"]) for each in episodes} == {
        ("ann", "person", "I live in Bern.", "t-1"),
        ("ann", "person", "I like Porto.", "o-1"),
        ("bea", "person", "I like tea.", "p-1"),
        ("assistant", "agent", "- Ann prefers trains.", "2025-01-21"),
    }
    assert (await brought("logs", "--into", "me"))["known"] == 4
    assert (await brought("logs/codex", "--into", "codex", "--format", "codex"))["episodes"] == 1
    assert (await brought("logs", "--into", "claw", "--format", "openclaw"))["skipped"] > 0


@pytest.mark.spec("MEM-16", "MEM-17")
async def test_bad_files_are_told_with_file_and_line(service: Service, home: Path) -> None:
    whole = lines("bad", 250)
    (home / "empty").mkdir()
    files = {
        "cut.jsonl": (whole[:-40], "line 251 is not JSON"),
        "short.jsonl": ("".join(whole.splitlines(keepends=True)[:-1]), "the export is cut"),
        "late.jsonl": (lines("late", 250).replace("said 230", ""), "line 232: an episode needs a text"),
        "version.jsonl": (whole.replace('"version": 1', '"version": 9'), "version 9"),
        "long.jsonl": (lines("bad", 1) + "x" * 5_000_000, "line 4 has more than"),
    }
    for name, (content, told) in files.items():
        (home / name).write_text(content, "utf-8")
        refused(await run("banks", "import", name), 2, name, told)
    (home / "bytes.jsonl").write_bytes(b'{"type":"bank","version":1,"name":"bad"}\n{"type":"episode","text":"\xff"}')
    refused(await run("banks", "import", "bytes.jsonl"), 2, "line 2 is not JSON in UTF-8")
    (home / "part.json").write_text('[{"id": "1", "memory": "a"}, {"id": "2"}]')
    partly = await run("banks", "import", "part.json", "--into", "part")
    assert (partly.status, "damaged and skipped: 1 (part.json: 2)" in partly.out) == (0, True), partly
    shown = await run("episodes", "part", "--json")
    assert [each["text"] for each in shown.json["episodes"]] == ["a"], shown
    (home / "mem0.json").write_text('[{"id": "1", "memory": "a"}]')
    refused(await run("banks", "import", "mem0.json"), 2, "--into")
    refused(await run("banks", "import", "nowhere.json"), 2, "nowhere.json")
    refused(await run("banks", "import", "empty"), 2, "no file to import")
    refused(await run("banks", "import", "mem0.json", "--into", "Bad Name"), 2, "Bad Name")
    assert (await brought("mem0.json", "--into", "facts"))["episodes"] == 1


@pytest.mark.spec("MEM-16")
async def test_a_person_sees_how_far_a_long_import_is(
    service: Service, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "long.jsonl").write_text(lines("long", 250), "utf-8")
    assert (await run("banks", "import", "long.jsonl")).err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal does
    shown = await run("banks", "import", "long.jsonl")
    size = (home / "long.jsonl").stat().st_size / 1000
    assert "long.jsonl" in shown.err
    assert f"{size:.1f}/{size:.1f} kB" in shown.err
    assert shown.out == "long: 0 episodes, 0 notes, 0 versions of blocks are new; 250 lines were known\n"


@pytest.mark.spec("MEM-40")
async def test_openmemory_letta_and_chroma_come_in_and_nothing_is_doubled(service: Service, home: Path) -> None:
    memory = {"id": "m-1", "content": "Ann deploys on Fridays.", "created_at": "2025-08-28T00:00:00Z"}
    with zipfile.ZipFile(home / "memories_export_ann.zip", "w") as archive:
        archive.writestr("memories.json", json.dumps({"memories": [memory, 5], "export_meta": {"version": "1"}}))
    block = {"id": "block-0", "label": "human", "value": f"Ann lives in Bern. {KEY}", "limit": 5000}
    said = {"role": "user", "content": "Hello.", "created_at": "2025-08-28T00:00:00Z"}
    agent = {"name": "helper", "block_ids": ["block-0"], "messages": [said, {"role": "user", "created_at": 5}]}
    letta = home / "helper.af"
    letta.write_text(json.dumps({"agents": [agent], "blocks": [block], "created_at": None}), "utf-8")
    (home / "store" / "chroma").mkdir(parents=True)
    with closing(sqlite3.connect(home / "store" / "chroma" / "chroma.sqlite3")) as database:
        database.executescript(CHROMA)
    files = ("memories_export_ann.zip", "helper.af", "store", "--into", "me")
    told = await brought(*files)
    assert [told[name] for name in ("files", "episodes", "versions", "skipped", "damaged")] == [3, 4, 1, 1, 3]
    shown = (await run("banks", "import", *files)).out
    assert "0 episodes, 0 notes, 0 versions of blocks are new; 5 lines were known" in shown
    assert "(memories_export_ann.zip: 2; helper.af: message 2; chroma.sqlite3: prefs: p2)" in shown
    block["value"] = "Ann lives in Porto."
    letta.write_text(json.dumps({"agents": [agent], "blocks": [block], "created_at": None}), "utf-8")
    assert (await brought("helper.af", "--into", "me"))["versions"] == 1
    exported = map(json.loads, (await run("banks", "export", "me")).out.splitlines())
    versions = [(each["version"], each["parent"], each["value"]) for each in exported if each["type"] == "block"]
    assert versions == [(1, None, "Ann lives in Bern. [redacted: key]"), (2, 1, "Ann lives in Porto.")]


@pytest.mark.spec("MEM-16", "MEM-40")
async def test_a_line_of_a_block_has_a_version_as_a_whole_or_none(service: Service, home: Path) -> None:
    for part in ('"version": 1', '"at": "2025-01-01T00:00:00Z"', '"parent": null'):
        line = '{"type": "block", "label": "human", "value": "Ann", "limit": 9, "by": "me", ' + part + "}\n"
        (home / "bad.jsonl").write_text(line, "utf-8")
        refused(await run("banks", "import", "bad.jsonl", "--into", "me", "--format", "jsonl"), 2, "belong together")
