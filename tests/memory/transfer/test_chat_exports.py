"""What is read of the data exports of ChatGPT and claude.ai, made up in their published shape."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from circadia.memory.transfer.formats import detect_format, import_lines
from circadia.memory.transfer.import_format import ImportFormat
from circadia.memory.transfer.transcripts import TranscriptFacts

pytestmark = pytest.mark.spec("MEM-40")


def node(key: str, parent: str | None, role: str, text: object, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    message = {"id": key, "author": {"role": role}, "create_time": 1735689600.5, "content": content, **more}
    return {"id": key, "parent": parent, "children": [], "message": message}


TREE = [
    {"id": "root", "parent": None, "children": ["s"], "message": None},
    node("s", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
    node("u1", "s", "user", "My key is sk-proj-abcdefghij0123456789 and I live in Bern."),
    node("a0", "u1", "assistant", "An answer that was made again."),
    node("a1", "u1", "assistant", "Bern is fine.", recipient="all"),
    node("t1", "a1", "assistant", "search(bears)", recipient="browser"),
    node("r1", "t1", "tool", "bears since 1513"),
    node("h1", "r1", "assistant", "", content={"content_type": "thoughts", "thoughts": [{"content": "hm"}]}),
    node(
        "u2", "h1", "user", "", content={"content_type": "multimodal_text", "parts": [{"asset_pointer": "x"}, "See."]}
    ),
]
CHATGPT = {
    "conversation_id": "c-1", "title": "Bears", "create_time": 1735689600.0, "current_node": "u2",
    "mapping": {each["id"]: each for each in TREE},
}  # fmt: skip
CLAUDE: dict[str, Any] = {
    "uuid": "c-2", "name": "Tea", "created_at": "2026-01-01T00:00:00Z",
    "chat_messages": [
        {"uuid": "m-1", "sender": "human", "created_at": "2026-01-02T03:04:05Z", "text": "I like tea.", "content": []},
        {"uuid": "m-2", "sender": "assistant", "created_at": "2026-01-02T03:04:06Z", "text": "ignored",
         "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Noted."}, {"type": "tool_use"}]},
        {"uuid": "m-3", "sender": "weather"},
    ],
}  # fmt: skip


def read(file: Path, kind: ImportFormat, *, tools: bool = False) -> tuple[list[dict[str, Any]], TranscriptFacts]:
    facts = TranscriptFacts(session=file.stem)
    found = import_lines(file, kind, "me", person="ann", tools=tools, saw=lambda _: None, facts=facts)
    return [line for line in map(orjson.loads, found) if line["type"] == "episode"], facts


def test_of_chatgpts_export_the_branch_that_was_shown_last_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([CHATGPT, {"mapping": {}}, 5]), "utf-8")
    assert detect_format(file) is ImportFormat.CHATGPT
    found, facts = read(file, ImportFormat.CHATGPT)
    assert [(each["speaker"], each["trust"], each["text"]) for each in found] == [
        ("ann", "person", "My key is [redacted: key] and I live in Bern."),
        ("assistant", "agent", "Bern is fine."),
        ("ann", "person", "See."),
    ]
    assert {each["conversation"] for each in found} == {"c-1"}
    assert (found[0]["key"], found[0]["at"]) == ("chatgpt:u1", "2025-01-01T00:00:00.500000+00:00")
    assert found[0]["metadata"]["title"] == "Bears"
    assert (facts.broken_lines, facts.first_broken) == (2, [2, 3])
    with_tools, _ = read(file, ImportFormat.CHATGPT, tools=True)
    assert {each["key"] for each in found} < {each["key"] for each in with_tools}  # known when it is imported again
    assert [each["text"] for each in with_tools if each["kind"] == "tool"] == ["search(bears)", "bears since 1513"]


def test_a_tree_that_names_no_last_message_or_goes_in_a_circle_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    circle = {"a": node("a", "b", "user", "One."), "b": node("b", "a", "assistant", "Two.")}
    for last, texts in (("a", ["Two.", "One."]), ("gone", ["One.", "Two."])):
        file.write_text(json.dumps([{"id": "c", "current_node": last, "mapping": circle}]), "utf-8")
        assert [each["text"] for each in read(file, ImportFormat.CHATGPT)[0]] == texts


@pytest.mark.parametrize("wrapped", [False, True])
def test_of_claude_ais_export_texts_are_taken_and_thoughts_are_not(tmp_path: Path, wrapped: bool) -> None:
    file = tmp_path / "conversations.json"
    damaged = {**CLAUDE, "chat_messages": [{"sender": "human", "text": "x", "created_at": "soon"}]}
    every = [CLAUDE, damaged]
    file.write_text(json.dumps({"conversations": every} if wrapped else every), "utf-8")
    assert detect_format(file) is ImportFormat.CLAUDE_AI
    found, facts = read(file, ImportFormat.CLAUDE_AI)
    assert [(each["speaker"], each["text"], each["at"]) for each in found] == [
        ("ann", "I like tea.", "2026-01-02T03:04:05+00:00"), ("assistant", "Noted.", "2026-01-02T03:04:06+00:00"),
    ]  # fmt: skip
    assert (facts.unknown_lines, facts.first_broken) == (1, [2])


@pytest.mark.parametrize(("kind", "whole"), [(ImportFormat.CHATGPT, CHATGPT), (ImportFormat.CLAUDE_AI, CLAUDE)])
def test_an_export_whose_first_conversation_is_damaged_is_read_on(
    tmp_path: Path, kind: ImportFormat, whole: dict[str, Any]
) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([None, whole]), "utf-8")
    assert detect_format(file) is kind
    found, facts = read(file, kind)
    assert (len(found) > 1, facts.first_broken) == (True, [1])


def test_messages_without_ids_are_different_ones(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    nodes = {"a": node("a", None, "user", "One."), "b": node("b", "a", "assistant", "Two.")}
    for each in nodes.values():
        del each["message"]["id"]
    file.write_text(json.dumps([{"id": "c", "current_node": "b", "mapping": nodes}]), "utf-8")
    found, _ = read(file, ImportFormat.CHATGPT)
    assert [each["key"] for each in found] == ["chatgpt:c:0", "chatgpt:c:1"]
