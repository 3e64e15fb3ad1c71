"""What is read of OpenMemory's backup, Letta's agent file and a folder of Chroma, made up in their published shapes."""

import json
import sqlite3
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from circadia.errors import InvalidRequest
from circadia.memory.transfer.formats import detect_format, import_lines
from circadia.memory.transfer.import_format import ImportFormat
from circadia.memory.transfer.transcripts import TranscriptFacts

pytestmark = pytest.mark.spec("MEM-40")

KEY = "sk-" + "a1B2" * 8
WHEN = "2025-08-28T00:57:44.890070+00:00"

OPENMEMORY: dict[str, Any] = {
    "user": {"id": "u-1", "user_id": "ann", "name": None, "email": None, "metadata": {}},
    "apps": [{"id": "a-1", "name": "cursor", "is_active": True}],
    "categories": [{"id": "c-1", "name": "work"}, {"id": "c-2", "name": "food"}],
    "memories": [
        {"id": "m-1", "user_id": "u-1", "app_id": "a-1", "content": f"Deploys on Fridays; key {KEY}", "state": "active",
         "metadata": {"team": "red", "note": "x" * 5_000}, "created_at": WHEN, "category_ids": ["c-1", "gone"]},
        {"id": "m-2", "content": "Likes pizza", "state": "paused", "created_at": WHEN, "category_ids": ["c-2"]},
        {"id": "m-3", "content": "Was a mistake", "state": "deleted", "created_at": WHEN},
        {"id": "m-4", "content": 5},
        {"id": "m-5", "content": "Has no day", "created_at": "once"},
    ],
    "memory_categories": [], "status_history": [], "access_controls": [], "export_meta": {"version": "1"},
}  # fmt: skip


def read(file: Path, kind: ImportFormat, *, tools: bool = False) -> tuple[list[dict[str, Any]], TranscriptFacts]:
    """Return the lines that a file stands for, without the bank's."""
    facts = TranscriptFacts(session=file.stem)
    sizes: list[int] = []
    found = import_lines(file, kind, "me", person="ann", tools=tools, saw=sizes.append, facts=facts)
    lines = [line for line in map(orjson.loads, found) if line["type"] != "bank"]
    assert sum(sizes) == file.stat().st_size
    return lines, facts


@pytest.mark.parametrize("packed", [False, True])
def test_memories_of_openmemory_become_facts_with_their_categories_as_tags(tmp_path: Path, packed: bool) -> None:
    file = tmp_path / "memories_export_ann.zip"
    if packed:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("memories.json", json.dumps(OPENMEMORY, indent=2))
            archive.writestr("memories.jsonl.gz", b"\x1f\x8b")
    else:
        file.write_text(json.dumps(OPENMEMORY, indent=2), "utf-8")
    assert detect_format(file) is ImportFormat.OPENMEMORY
    found, facts = read(file, ImportFormat.OPENMEMORY)
    assert [(each["text"], each["speaker"], each["kind"], each["trust"], each["at"]) for each in found] == [
        ("Deploys on Fridays; key [redacted: key]", "ann", "fact", "agent", WHEN),
        ("Likes pizza", "ann", "fact", "agent", WHEN),
    ]
    first, second = (each["metadata"] for each in found)
    assert first == {
        "source": "openmemory", "item": "m-1", "app": "cursor", "state": "active", "tags": ["work"], "team": "red",
    }  # fmt: skip
    assert (second["tags"], second["state"]) == (["food"], "paused")
    assert (facts.broken_lines, facts.first_broken) == (2, [4, 5])
    assert [each["key"] for each in read(file, ImportFormat.OPENMEMORY)[0]] == [each["key"] for each in found]


def test_an_export_of_chats_is_read_in_its_zip_file_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    chat = {"uuid": "c", "chat_messages": [{"uuid": "m", "sender": "human", "created_at": WHEN, "text": "Tea."}]}
    file = tmp_path / "data.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("memories.json", "[]")
        archive.writestr("data/conversations.json", json.dumps([chat]))
    assert detect_format(file) is ImportFormat.CLAUDE_AI
    assert [each["text"] for each in read(file, ImportFormat.CLAUDE_AI)[0]] == ["Tea."]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidRequest, match="cannot be unpacked"):
        detect_format(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("other.json", "[]")
    with pytest.raises(InvalidRequest, match="has none of"):
        detect_format(file)


def message(role: str, text: str, **more: object) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], "id": "message-0", "created_at": WHEN, **more}


def call(name: str, arguments: object, key: str = "call-1") -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def block(number: int, label: object, value: object, **more: object) -> dict[str, Any]:
    return {"id": f"block-{number}", "label": label, "value": value, "limit": 5000, "read_only": False, **more}


SPOKEN = json.dumps({"type": "user_message", "message": "I live in Bern.", "time": "2025-08-28"})
AGENT: dict[str, Any] = {
    "name": "helper", "agent_type": "memgpt_v2_agent", "block_ids": ["block-0", "block-1", "block-3", "block-4"],
    "messages": [
        message("system", "You are Letta."),
        message("user", json.dumps({"type": "login", "last_login": "never", "time": "2025-08-28"})),
        message("user", SPOKEN, name="ann b"),
        message("assistant", "They live in Bern, noted.", tool_calls=[
            call("memory_insert", {"label": "human"}), call("send_message", {"message": "Bern it is."}, "call-2"),
        ]),
        message("tool", '{"status": "OK"}', tool_call_id="call-2"),
        message("tool", "inserted", tool_call_id="call-1"),
        message("assistant", "", tool_calls=[call("send_message", {"text": 5}, "call-3")]),
        message("user", "Yes?", created_at="soon"),
        message("approval", "yes"),
        message("weather", "sun"),
        5,
    ],
}  # fmt: skip
BLOCKS: Sequence[dict[str, Any]] = [
    block(1, "human", f"Lives in Bern. {KEY}", description="The person.", read_only=True),
    block(0, "persona", "x" * 6_000),
    block(2, "persona", "I watch over memory."),
    block(3, "empty", " "),
    block(4, 5, "no label"),
]
SLEEPER: dict[str, Any] = {
    "name": "sleeper", "agent_type": "sleeptime_agent", "block_ids": ["block-1", "block-2"],
    "messages": [message("user", "They said they live in Bern.")],
}  # fmt: skip


@pytest.mark.parametrize("saved", ["pretty", "one line", "as a text"])
def test_of_lettas_agent_file_what_was_said_and_the_blocks_are_taken(tmp_path: Path, saved: str) -> None:
    file = tmp_path / "helper.af"
    document: Any = {"agents": [AGENT, SLEEPER], "groups": [], "blocks": BLOCKS, "tools": [], "created_at": WHEN}
    document = json.dumps(document) if saved == "as a text" else document
    file.write_text(json.dumps(document, indent=2 if saved == "pretty" else None), "utf-8")
    assert detect_format(file) is ImportFormat.LETTA
    found, facts = read(file, ImportFormat.LETTA)
    said = [each for each in found if each["type"] == "episode"]
    assert [(each["speaker"], each["trust"], each["text"]) for each in said] == [
        ("ann b", "person", "I live in Bern."), ("assistant", "agent", "Bern it is."),
    ]  # fmt: skip
    assert {(each["conversation"], each["at"]) for each in said} == {("helper", WHEN)}
    blocks = {each["label"]: each for each in found if each["type"] == "block"}
    assert {name: (len(each["value"]), each["limit"], each["read_only"]) for name, each in blocks.items()} == {
        "persona": (6_000, 6_000, False), "human": (len("Lives in Bern. [redacted: key]"), 5_000, True),
    }  # fmt: skip
    assert blocks["human"]["description"] == "The person."
    assert facts.broken_places == "message 7, message 8, message 11, block 5"
    assert facts.unknown_lines == 1
    with_tools, _ = read(file, ImportFormat.LETTA, tools=True)
    assert [each["text"] for each in with_tools if each.get("kind") == "tool"] == [
        'memory_insert({"label": "human"})', "inserted",
    ]  # fmt: skip


def test_of_an_agent_file_before_letta_0_8_messages_and_core_memory_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "old.af"
    messages = [message("user", "Hello."), message("assistant", "Good morning.")]
    document = {
        "agent_type": "memgpt_agent", "name": "old", "version": "0.6.47",
        "core_memory": [block(0, "human", "Lives in Porto."), block(1, "human", "Another.")],
        "messages": messages,
    }  # fmt: skip
    file.write_text(json.dumps(document), "utf-8")
    assert detect_format(file) is ImportFormat.LETTA
    found, _ = read(file, ImportFormat.LETTA)
    assert [each.get("text") or each["label"] for each in found] == ["Hello.", "Good morning.", "human", "human (2)"]
    again = {**document, "messages": [message("user", "Bye."), *messages]}  # ids count from 0 in each file
    file.write_text(json.dumps(again), "utf-8")
    keys = {each["key"] for each in found if each["type"] == "episode"}
    assert keys < {each["key"] for each in read(file, ImportFormat.LETTA)[0] if each["type"] == "episode"}


# The columns of Chroma 1.5 that an import reads; `python -m benchmarks search_peers` installs the real one.
CHROMA = """
CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL, dimension INTEGER, database_id TEXT NOT NULL);
CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT NOT NULL);
CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL,
    seq_id BLOB NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE embedding_metadata (id INTEGER, key TEXT NOT NULL, string_value TEXT, int_value INTEGER,
    float_value REAL, bool_value INTEGER, PRIMARY KEY (id, key));
CREATE TABLE embedding_metadata_array (id INTEGER NOT NULL, key TEXT NOT NULL, string_value TEXT, int_value INTEGER,
    float_value REAL, bool_value INTEGER);
INSERT INTO collections VALUES ('c-1', 'prefs', 3, 'd'), ('c-2', 'work', 3, 'd');
INSERT INTO segments VALUES ('v-1', 'hnsw', 'VECTOR', 'c-1'), ('s-1', 'sqlite', 'METADATA', 'c-1'),
    ('s-2', 'sqlite', 'METADATA', 'c-2');
INSERT INTO embeddings VALUES (1, 's-1', 'p1', 1, '2025-01-02 03:04:05'), (3, 's-1', 'p2', 2, 'never'),
    (4, 's-2', 'w1', 3, '2025-01-02 03:04:06'), (9, 's-2', 'w2', 4, '2025-01-02 03:04:07');
INSERT INTO embedding_metadata VALUES (1, 'chroma:document', 'Likes tea.', NULL, NULL, NULL),
    (1, 'team', 'red', NULL, NULL, NULL), (1, 'score', NULL, NULL, 0.5, NULL), (1, 'n', NULL, 3, NULL, NULL),
    (1, 'ok', NULL, NULL, NULL, 0), (3, 'chroma:document', 'Has no day.', NULL, NULL, NULL),
    (4, 'chroma:document', 'Is due in May.', NULL, NULL, NULL), (9, 'only', 'metadata', NULL, NULL, NULL);
INSERT INTO embedding_metadata_array VALUES (1, 'tags', 'x', NULL, NULL, NULL), (1, 'tags', 'y', NULL, NULL, NULL);
"""


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_chroma_folder_is_read_while_it_is_written(tmp_path: Path, journal: str) -> None:
    file = tmp_path / "chroma.sqlite3"
    writer = sqlite3.connect(file, timeout=0, isolation_level=None)
    writer.execute(f"PRAGMA journal_mode = {journal}")
    writer.executescript(CHROMA)
    assert detect_format(file) is ImportFormat.CHROMA
    found, facts = read(file, ImportFormat.CHROMA)
    assert [(each["text"], each["speaker"], each["kind"], each["trust"], each["at"]) for each in found] == [
        ("Likes tea.", "prefs", "fact", "external", "2025-01-02T03:04:05+00:00"),
        ("Is due in May.", "work", "fact", "external", "2025-01-02T03:04:06+00:00"),
    ]
    assert found[0]["metadata"] == {
        "source": "chroma", "collection": "prefs", "item": "p1", "team": "red", "score": 0.5, "n": 3, "ok": False,
        "tags": ["x", "y"],
    }  # fmt: skip
    assert (facts.unknown_lines, facts.broken_places) == (1, "prefs: p2")
    before = set(tmp_path.iterdir())
    reading = import_lines(file, ImportFormat.CHROMA, "me", person="", tools=False, saw=lambda _: None)
    next(reading)
    next(reading)  # the writer never waits for the reader
    writer.execute("INSERT INTO embeddings VALUES (10, 's-2', 'w3', 5, '2025-01-02 03:04:08')")
    writer.execute("INSERT INTO embedding_metadata VALUES (10, 'chroma:document', 'New.', NULL, NULL, NULL)")
    assert [orjson.loads(line)["text"] for line in reading][-1] == "New."
    assert set(tmp_path.iterdir()) == before
    writer.close()


def test_a_chroma_folder_of_before_lists_and_truth_values_is_read_and_another_database_is_told(tmp_path: Path) -> None:
    file = tmp_path / "chroma.sqlite3"
    with sqlite3.connect(file) as writer:
        writer.executescript(CHROMA)
        writer.executescript(
            "DROP TABLE embedding_metadata_array; ALTER TABLE embedding_metadata DROP COLUMN bool_value;"
        )
    assert len(read(file, ImportFormat.CHROMA)[0]) == 2
    with sqlite3.connect(file) as writer:
        writer.executescript("DROP TABLE segments;")
    with pytest.raises(InvalidRequest, match="database of Chroma"):
        read(file, ImportFormat.CHROMA)
