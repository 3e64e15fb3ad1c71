"""What is read of other systems' files: what was said, by whom, when; and what is left out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from circadia.errors import CircadiaError, InvalidRequest, TooLarge
from circadia.memory.transfer.formats import detect_format, import_lines
from circadia.memory.transfer.import_format import ImportFormat
from circadia.memory.transfer.transcripts import TranscriptFacts

MAX_CHARACTERS = 100_000

KEY = "sk-" + "a1B2" * 8
WHEN = "2026-01-20T11:57:17.716Z"


def turn(kind: str, content: object, **more: object) -> dict[str, Any]:
    """Return a line of a transcript, as Claude Code 2.1 writes it."""
    return {
        "parentUuid": None, "isSidechain": False, "userType": "external", "cwd": "/home/ann/app", "sessionId": "s-1",
        "version": "2.1.12", "gitBranch": "main", "type": kind, "message": {"role": kind, "content": content},
        "uuid": "u-1", "timestamp": WHEN, **more,
    }  # fmt: skip


TRANSCRIPT: Sequence[object] = (
    {"type": "queue-operation", "operation": "dequeue", "timestamp": WHEN, "sessionId": "s-1"},
    {"type": "summary", "summary": "An app", "leafUuid": "u-9"},
    turn("user", "Please deploy to Bern."),
    turn("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Doing it."}], uuid="u-2"),
    turn("assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}], uuid="u-3"),
    turn("user", [{"type": "tool_result", "tool_use_id": "t", "content": f"app.py {KEY}"}], uuid="u-4"),
    turn("user", f"my key is {KEY}", uuid="u-5"),
    turn("user", "Stop hook feedback", isMeta=True, uuid="u-6"),
    turn("assistant", [{"type": "text", "text": "sub-agent"}], isSidechain=True, uuid="u-7"),
    turn("user", "This session is continued", isCompactSummary=True, uuid="u-8"),
    turn("user", "<command-name>/clear</command-name>", uuid="u-9"),
    turn("user", "[Request interrupted by user]", uuid="u-10"),
    turn("user", "<system-reminder>\nread me\n</system-reminder>\nand go on", uuid="u-12"),
    turn("user", [{"type": "image"}, {"type": "text", "text": "see picture"}], uuid="u-11"),
    {"type": "file-history-snapshot", "messageId": "m"},
)


def read(file: Path, kind: ImportFormat, **given: Any) -> list[dict[str, Any]]:
    """Return the episodes that a file stands for."""
    options: dict[str, Any] = {"person": "user", "tools": False, **given}
    size: list[int] = []
    lines = [
        orjson.loads(each) for each in import_lines(file, kind, "bank", saw=size.append, **options) if each.strip()
    ]
    assert sum(size) == file.stat().st_size
    return [line for line in lines if line["type"] == "episode"]


def transcript(folder: Path, lines: Sequence[object] = TRANSCRIPT) -> Path:
    file = folder / "s-1.jsonl"
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file


@pytest.mark.spec("MEM-16")
def test_of_a_transcript_what_people_and_the_agent_said_is_taken_and_secrets_are_not(tmp_path: Path) -> None:
    file = transcript(tmp_path)
    assert detect_format(file) is ImportFormat.CLAUDE_CODE
    found = read(file, ImportFormat.CLAUDE_CODE, person="ann")
    assert [(each["speaker"], each["trust"], each["text"]) for each in found] == [
        ("ann", "person", "Please deploy to Bern."),
        ("assistant", "agent", "Doing it."),
        ("ann", "person", "my key is [redacted: key]"),
        ("ann", "person", "and go on"),
        ("ann", "person", "see picture"),
    ]
    first = found[0]
    assert (first["key"], first["conversation"], first["kind"]) == ("claude-code:u-1", "s-1", "turn")
    assert (first["at"], first["metadata"]["cwd"]) == ("2026-01-20T11:57:17.716000+00:00", "/home/ann/app")


@pytest.mark.spec("MEM-16")
def test_tools_are_taken_if_asked_for_and_trusted_less(tmp_path: Path) -> None:
    found = read(transcript(tmp_path), ImportFormat.CLAUDE_CODE, tools=True)
    tools = [(each["speaker"], each["trust"], each["text"]) for each in found if each["kind"] == "tool"]
    assert tools == [("assistant", "agent", 'Bash({"command":"ls"})'), ("tool", "tool", "app.py [redacted: key]")]


@pytest.mark.spec("MEM-16")
def test_a_transcript_whose_last_line_is_not_whole_yet_is_taken_as_far_as_it_goes(tmp_path: Path) -> None:
    file = transcript(tmp_path, [turn("user", "one"), turn("assistant", "two", uuid="u-2")])
    whole = file.read_bytes()
    for cut in (whole[:-20], whole + b'{"type":"us'):
        file.write_bytes(cut)
        assert [each["text"] for each in read(file, ImportFormat.CLAUDE_CODE)] == ["one", "two"][: cut.count(b"\n")]
    file.write_bytes(b'{"type":"us\n' + whole)
    assert [each["text"] for each in read(file, ImportFormat.CLAUDE_CODE)] == ["one", "two"], "a torn line is skipped"


@pytest.mark.spec("MEM-16")
def test_a_transcript_is_known_whatever_its_first_lines_are_and_what_the_program_wrote_is_left_out(
    tmp_path: Path,
) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        turn("user", "<task-notification>it ended</task-notification>"),
        turn("user", [{"type": "text", "text": "<ide_selection>x</ide_selection>"}, {"type": "text", "text": "this?"}]),
        turn("assistant", "No response requested.", uuid="u-3"),
    ]
    lines[-1]["message"]["model"] = "<synthetic>"
    file = transcript(tmp_path, lines)
    assert detect_format(file) is ImportFormat.CLAUDE_CODE
    assert [each["text"] for each in read(file, ImportFormat.CLAUDE_CODE)] == ["this?"]


@pytest.mark.spec("MEM-16")
def test_an_export_of_mem0_without_memories_is_one(tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    file.write_text('{"results": [], "relations": []}')
    assert detect_format(file) is ImportFormat.MEM0
    assert read(file, ImportFormat.MEM0) == []


@pytest.mark.spec("MEM-16", "MEM-17")
def test_a_long_text_becomes_several_episodes_and_one_without_text_none(tmp_path: Path) -> None:
    long = "x" * (MAX_CHARACTERS - 100) + "\n" + "y" * MAX_CHARACTERS + "\0"
    file = transcript(tmp_path, [turn("user", long), turn("user", " \n", uuid="u-2"), turn("user", None, uuid="u-3")])
    found = read(file, ImportFormat.CLAUDE_CODE)
    assert [len(each["text"]) for each in found] == [MAX_CHARACTERS - 100, MAX_CHARACTERS]
    assert [each["key"] for each in found] == ["claude-code:u-1", "claude-code:u-1:2"]


MEMORIES = [
    {
        "id": "892db2ae", "memory": f"Likes pizza; key {KEY}", "hash": "c7a2", "metadata": {"topic": "food"},
        "created_at": "2025-02-06T18:54:32.568595-08:00", "updated_at": None, "user_id": "ann",
    },
    {"id": "c0ffee00", "memory": "Lives in Bern", "created_at": "2025-02-06T18:54:32", "agent_id": "helper"},
]  # fmt: skip


@pytest.mark.spec("MEM-16")
@pytest.mark.parametrize("document", [{"results": MEMORIES, "relations": []}, MEMORIES])
def test_memories_of_mem0_become_facts(tmp_path: Path, document: object) -> None:
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(document, indent=2), "utf-8")
    assert detect_format(file) is ImportFormat.MEM0
    first, second = read(file, ImportFormat.MEM0)
    assert (first["text"], first["speaker"], first["kind"], first["trust"]) == (
        "Likes pizza; key [redacted: key]", "ann", "fact", "agent",
    )  # fmt: skip
    assert (first["metadata"]["mem0"], first["at"]) == ({"topic": "food"}, "2025-02-06T18:54:32.568595-08:00")
    assert (second["speaker"], second["at"]) == ("helper", "2025-02-06T18:54:32+00:00")
    changed = [{**MEMORIES[0], "memory": "Likes pasta"}, MEMORIES[1]]
    file.write_text(json.dumps(changed), "utf-8")
    keys = [each["key"] for each in read(file, ImportFormat.MEM0)]
    assert (keys[0] == first["key"], keys[1] == second["key"]) == (False, True)


@pytest.mark.spec("MEM-16")
def test_items_of_langmem_become_facts(tmp_path: Path) -> None:
    item = {"namespace": ["memories", "ann"], "key": "0145905e", "created_at": WHEN, "updated_at": WHEN, "score": None}
    values = [
        {"kind": "Memory", "content": {"content": "User likes dogs as pets"}},
        {"kind": "Memory", "content": "User lives in Bern"},
        {"kind": "Profile", "content": {"name": "Ann"}},
        {"rating": 5},
    ]
    file = tmp_path / "langmem.json"
    items = [{**item, "key": str(number), "value": value} for number, value in enumerate(values)]
    for document in (items, {"items": items}):
        file.write_text(json.dumps(document), "utf-8")
        assert detect_format(file) is ImportFormat.LANGMEM
        found = read(file, ImportFormat.LANGMEM)
        texts = ["User likes dogs as pets", "User lives in Bern", '{"name":"Ann"}', '{"rating":5}']
        assert [each["text"] for each in found] == texts
        assert ({each["speaker"] for each in found}, len({each["key"] for each in found})) == ({"ann"}, 4)


@pytest.mark.spec("MEM-16", "MEM-17")
@pytest.mark.parametrize(
    ("kind", "content", "told"),
    [
        (ImportFormat.MEM0, b'{"results":[{"id":"1","mem', "not JSON"),
        (ImportFormat.MEM0, b'{"memories":[]}', "not an export of mem0"),
        (ImportFormat.CHATGPT, b'[{"chat_messages":[]}]', "not an export of chatgpt"),
        (ImportFormat.LANGMEM, b"5", "not an export of langmem"),
        (ImportFormat.JSONL, b"x" * 5_000_000, "line 1 has more than"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_told(
    tmp_path: Path, kind: ImportFormat, content: bytes, told: str
) -> None:
    file = tmp_path / "bad"
    file.write_bytes(content)
    with pytest.raises((InvalidRequest, TooLarge), match=told):
        read(file, kind)


@pytest.mark.spec("MEM-16", "MEM-17", "MEM-40")
@pytest.mark.parametrize(
    ("kind", "content", "left", "damaged"),
    [
        (ImportFormat.CLAUDE_CODE, b'{"type":"summary"}\n{"type":"user","mess\n', [], [2]),
        (ImportFormat.CLAUDE_CODE, b"\n\xff\xfe{}\n", [], [2]),
        (ImportFormat.CLAUDE_CODE, b'{"type":"user","message":{"content":"a"}}\n', [], [1]),
        (
            ImportFormat.CLAUDE_CODE,
            b'{"type":"user","uuid":"u","timestamp":"now","message":{"content":"a"}}\n',
            [],
            [1],
        ),
        (ImportFormat.MEM0, b'{"results":[{"memory":5,"id":"1"},{"memory":"tea","id":"2"},4]}', ["tea"], [1, 3]),
        (ImportFormat.MEM0, b'[null,{"memory":"tea","id":"2"}]', ["tea"], [1]),
        (ImportFormat.LANGMEM, b'[{"namespace":[],"key":1,"value":{}}]', [], [1]),
        (ImportFormat.LANGMEM, b'["x",{"namespace":["u"],"key":"k","value":{"content":"tea"}}]', ["tea"], [1]),
        (ImportFormat.PLAIN, b"".join(b'{"speaker":"a","text":%d}\n' % at for at in range(12)), [], list(range(1, 13))),
    ],
)
def test_damaged_lines_and_entries_are_skipped_counted_and_named(
    tmp_path: Path, kind: ImportFormat, content: bytes, left: list[str], damaged: list[int]
) -> None:
    file = tmp_path / "damaged"
    file.write_bytes(content)
    facts = TranscriptFacts(session="s")
    assert [each["text"] for each in read(file, kind, facts=facts)] == left
    assert (facts.broken_lines, facts.first_broken) == (len(damaged), damaged[:10])


@pytest.mark.spec("MEM-16", "MEM-40")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_in_another_encoding_or_with_a_mark_is_read_as_one_in_utf_8(tmp_path: Path, encoding: str) -> None:
    texts = ["Ich wohne in Zürich.", "私は京都に住んでいます。"]
    lines = "".join(json.dumps({"speaker": "ann", "text": text}, ensure_ascii=False) + "\n" for text in texts)
    document = json.dumps([{"memory": text, "id": text} for text in texts], ensure_ascii=False)
    bank = json.dumps({"type": "bank", "version": 1, "name": "a"}) + "\n"
    for content, kind in ((lines, ImportFormat.PLAIN), (document, ImportFormat.MEM0), (bank, ImportFormat.JSONL)):
        file = tmp_path / "other"
        file.write_bytes(content.encode(encoding))
        assert detect_format(file) is kind
        imported = import_lines(file, kind, "bank", person="ann", tools=False, saw=lambda _: None)
        read_texts = [orjson.loads(line).get("text") for line in imported]
        assert [text for text in read_texts if text] == (texts if kind is not ImportFormat.JSONL else [])


@pytest.mark.spec("MEM-16", "MEM-17")
@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe", b"[]", b"5", b'{"type":"dream"}'])
def test_a_file_of_no_known_format_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    with pytest.raises(CircadiaError):
        detect_format(file)
    assert read(file, ImportFormat.MEM0) == [] if content == b"[]" else True


@pytest.mark.spec("MEM-16")
def test_an_export_is_known_by_its_first_line_and_comes_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "bank.jsonl"
    text = (
        b'{"type":"bank","version":1,"name":"a"}\n\n{"type":"episode","text":"' + KEY.encode() + b'","speaker":"a"}\n'
    )
    file.write_bytes(text)
    assert detect_format(file) is ImportFormat.JSONL
    assert b"".join(import_lines(file, ImportFormat.JSONL, "b", person="", tools=False, saw=lambda _: None)) == text
