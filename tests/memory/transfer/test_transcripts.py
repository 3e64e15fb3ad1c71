"""What is read of transcripts of Codex, OpenClaw and the plain format, and what is left out."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from circadia.errors import InvalidRequest
from circadia.memory.transfer.formats import detect_format, import_lines, read_turns
from circadia.memory.transfer.import_format import ImportFormat
from circadia.memory.transfer.transcripts import TranscriptFacts, read_episodes

KEY = "sk-" + "a1B2" * 8
WHEN = "2026-11-20T09:00:00Z"


def read(
    file: Path, kind: ImportFormat, *, person: str = "ann", tools: bool = False, facts: TranscriptFacts | None = None
) -> list[dict[str, Any]]:
    """Return the episodes that a file stands for."""
    assert detect_format(file) is kind
    lines = import_lines(file, kind, "bank", person=person, tools=tools, saw=lambda _: None, facts=facts)
    return [line for line in map(orjson.loads, lines) if line["type"] == "episode"]


def spoken(episodes: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(each["speaker"], each["trust"], each["text"]) for each in episodes]


def write(file: Path, lines: Sequence[object]) -> Path:
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file


def codex_line(kind: str, **payload: object) -> dict[str, object]:
    return {"timestamp": WHEN, "type": kind, "payload": payload}


def codex_message(role: str, *texts: str) -> dict[str, object]:
    return codex_line("response_item", type="message", role=role, content=[{"type": "text", "text": t} for t in texts])


COMPACTED = "Another language model started to solve this problem and produced a summary of its thinking process: a"
META = codex_line(
    "session_meta", id="t-1", cwd="/home/ann/app", originator="codex-tui", source="cli", thread_source="user"
)


@pytest.mark.spec("MEM-16")
def test_a_rollout_of_codex_contributes_what_was_said_and_neither_context_nor_events(tmp_path: Path) -> None:
    file = write(
        tmp_path / "rollout-2026-11-20T09-00-00-t-1.jsonl",
        [
            META,
            codex_message("developer", "<permissions instructions>be careful</permissions instructions>"),
            codex_message(
                "user",
                "# AGENTS.md instructions for /home/ann/app\n\n<INSTRUCTIONS>\nuse tabs\n</INSTRUCTIONS>",
                "<environment_context><cwd>/home/ann/app</cwd></environment_context>",
            ),
            codex_line("turn_context", cwd="/home/ann/app", model="m"),
            codex_message("user", f"Deploy to Bern. The key is {KEY}"),
            codex_line("event_msg", type="user_message", message="Deploy to Bern."),
            codex_line("response_item", type="reasoning", summary=[]),
            codex_line("response_item", type="function_call", name="shell", arguments='{"command":"ls"}', call_id="c"),
            codex_line("response_item", type="function_call_output", call_id="c", output=f"app.py {KEY}"),
            codex_message("assistant", "Done."),
            codex_message(
                "user", "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nGo on"
            ),
            codex_message("user", "<image name=[Image #1]>", "</image>", "see picture"),
            codex_message("user", "<skill>\n<name>x</name>\nbody\n</skill>"),
            codex_message(
                "user",
                "Another language model started to solve this problem and produced a summary of its thinking process",
            ),
            codex_line("compacted", message="a summary"),
            codex_line("world_state", state={}),
        ],
    )
    facts = TranscriptFacts(session=file.stem)
    episodes = read(file, ImportFormat.CODEX, facts=facts)
    assert spoken(episodes) == [
        ("ann", "person", "Deploy to Bern. The key is [redacted: key]"),
        ("assistant", "agent", "Done."),
        ("ann", "person", "Go on"),
        ("ann", "person", "see picture"),
    ]
    assert episodes[0]["metadata"] == {"source": "codex", "session": "t-1", "line": 5, "cwd": "/home/ann/app"}
    assert (episodes[0]["conversation"], episodes[0]["key"]) == ("t-1", "codex:t-1:5")
    assert episodes[0]["at"] == "2026-11-20T09:00:00+00:00"
    assert (facts.unknown_lines, facts.broken_lines) == (1, 0)
    tools = [each for each in read(file, ImportFormat.CODEX, tools=True) if each["kind"] == "tool"]
    assert spoken(tools) == [
        ("assistant", "agent", 'shell({"command":"ls"})'),
        ("tool", "tool", "app.py [redacted: key]"),
    ]


@pytest.mark.spec("MEM-16")
@pytest.mark.parametrize(
    "meta",
    [
        {"source": "exec", "originator": "codex_exec"},
        {"source": "mcp"},
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": "t-0", "depth": 1}}}},
        {"source": {"internal": "memory_consolidation"}},
        {"source": "cli", "thread_source": "memory_consolidation"},
        {"source": "cli", "parent_thread_id": "t-0"},
    ],
)
def test_what_a_program_asks_codex_has_the_trust_of_an_agent(tmp_path: Path, meta: dict[str, object]) -> None:
    file = write(
        tmp_path / "r.jsonl", [codex_line("session_meta", id="t-1", cwd="/a", **meta), codex_message("user", "Go")]
    )
    assert spoken(read(file, ImportFormat.CODEX)) == [("program", "agent", "Go")]


def openclaw_message(role: str, text: str, number: int = 1, **more: object) -> dict[str, object]:
    message = {"role": role, "content": [{"type": "text", "text": text}], **more}
    return {"type": "message", "id": f"m{number}", "parentId": None, "timestamp": WHEN, "message": message}


MEMORY = (
    "<relevant-memories>lives in Bern</relevant-memories>\n"
    "Context:\n<active_memory_plugin>likes tea</active_memory_plugin>"
)
SENDER = 'Sender (untrusted metadata):\n```json\n{\n  "label": "Ann (1)"\n}\n```\n\n'
REPLY = 'Replied message \u27e6openclaw:ctx\u27e7\n```json\n{\n  "body": "what Bob wrote"\n}\n```\n\n'


@pytest.mark.spec("MEM-16", "GATE-97")
def test_a_session_of_openclaw_contributes_what_was_said_and_not_its_own_context_or_memory(tmp_path: Path) -> None:
    file = write(
        tmp_path / "o-1.jsonl",
        [
            {"type": "session", "version": 3, "id": "o-1", "timestamp": WHEN, "cwd": "/home/ann/clawd"},
            {"type": "model_change", "id": "x", "timestamp": WHEN},
            openclaw_message("user", f"{SENDER}{REPLY}[Fri 2026-11-20 09:00 GMT+1] I moved to Porto.\n[message_id: 7]"),
            openclaw_message("user", MEMORY + "\nAnd my cat too.", 2),
            openclaw_message("assistant", "Noted.", 3),
            openclaw_message("assistant", "NO_REPLY", 4),
            openclaw_message("assistant", "mirrored", 5, model="delivery-mirror"),
            openclaw_message("toolResult", "output", 6),
            openclaw_message("user", "A new session was started via /new or /reset. Say hi.", 7),
            openclaw_message("assistant", "Hi, I am Molty.", 71),
            openclaw_message("user", "[Fri 2026-11-20 09:00 GMT+1] Read HEARTBEAT.md if it exists (workspace", 72),
            openclaw_message("assistant", "Nothing is due.", 73),
            openclaw_message("user", "You are running a boot check. Follow BOOT.md instructions exactly.\n\nGo", 74),
            openclaw_message("user", "Pre-compaction memory flush. Store durable memories only in", 75),
            openclaw_message("assistant", "Stored.", 76),
            openclaw_message("user", "[Fri 2026-11-20 09:00 GMT+1] [cron:j-1 daily] Check the mail.", 8),
            openclaw_message("user", "It ended.", 9, provenance={"kind": "inter_session"}),
            openclaw_message("user", "Thanks!", 10, provenance={"kind": "external_user"}),
            {"type": "something_new", "id": "y"},
        ],
    )
    facts = TranscriptFacts(session=file.stem)
    episodes = read(file, ImportFormat.OPENCLAW, facts=facts)
    assert spoken(episodes) == [
        ("ann", "person", "I moved to Porto."),
        ("ann", "person", "And my cat too."),
        ("assistant", "agent", "Noted."),
        ("program", "agent", "[cron:j-1 daily] Check the mail."),
        ("program", "agent", "It ended."),
        ("ann", "person", "Thanks!"),
    ]
    assert (episodes[0]["key"], episodes[0]["conversation"]) == ("openclaw:o-1:m1", "o-1")
    assert (facts.root, facts.unknown_lines) == ("/home/ann/clawd", 1)


@pytest.mark.spec("MEM-16")
def test_each_paragraph_and_list_item_of_a_daily_note_is_a_fact_of_its_day_that_the_agent_wrote(tmp_path: Path) -> None:
    file = tmp_path / "2026-11-20-porto.md"
    text = f"# 2026-11-20\n\nAnn moved.\nTo Porto.\n\n- one {KEY}\n- two\n  - inner\n\n```\ncode\n```\n"
    file.write_bytes(text.replace("\n", "\r\n").encode())
    episodes = read(file, ImportFormat.OPENCLAW)
    assert spoken(episodes) == [
        ("assistant", "agent", "Ann moved.\nTo Porto."),
        ("assistant", "agent", "- one [redacted: key]"),
        ("assistant", "agent", "- two\n  - inner"),
    ]
    assert {(each["kind"], each["at"]) for each in episodes} == {("fact", "2026-11-20T12:00:00+00:00")}
    assert [each["metadata"]["line"] for each in episodes] == [3, 6, 7]
    assert len({each["key"] for each in episodes}) == 3
    (tmp_path / "README.md").write_text("Ann moved.")
    with pytest.raises(InvalidRequest, match="no known format"):
        detect_format(tmp_path / "README.md")


@pytest.mark.spec("MEM-16")
def test_lines_of_the_plain_format_name_speaker_time_and_session(tmp_path: Path) -> None:
    lines = [
        {"at": WHEN, "speaker": "bea", "text": f"I moved, {KEY}", "session": "a"},
        {"at": "2026-11-20T10:00:00+01:00", "speaker": "assistant", "text": "Noted.", "session": "a"},
        {"speaker": "tool", "text": "output", "session": "b"},
        {"speaker": "bea", "text": "again"},
        {"note": "not a turn"},
    ]
    file = write(tmp_path / "chat.jsonl", lines)
    facts = TranscriptFacts(session=file.stem)
    episodes = read(file, ImportFormat.PLAIN, tools=True, facts=facts)
    assert spoken(episodes) == [
        ("bea", "person", "I moved, [redacted: key]"),
        ("assistant", "agent", "Noted."),
        ("tool", "tool", "output"),
        ("bea", "person", "again"),
    ]
    assert [each["conversation"] for each in episodes] == ["a", "a", "b", "chat"]
    assert facts.unknown_lines == 1
    assert [each["key"] for each in episodes] == [each["key"] for each in read(file, ImportFormat.PLAIN, tools=True)]


@pytest.mark.spec("MEM-16", "MEM-17")
@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (ImportFormat.PLAIN, {"speaker": "bea", "text": 5}),
        (ImportFormat.PLAIN, {"speaker": "bea", "text": "a", "at": "yesterday"}),
        (ImportFormat.CODEX, {**codex_message("user", "a"), "timestamp": "now"}),
        (ImportFormat.OPENCLAW, {"type": "message", "message": {"role": "user", "content": "a"}}),
    ],
)
def test_an_import_and_a_reader_of_sessions_count_a_malformed_line(
    tmp_path: Path, kind: ImportFormat, line: object
) -> None:
    file = write(tmp_path / "bad.jsonl", [line])
    facts = TranscriptFacts(session="bad")
    assert list(read_turns(file, kind, [(1, file.read_bytes())], facts)) == []
    assert (facts.broken_lines, facts.first_broken) == (1, [1])


CLAUDE_LINES: Sequence[dict[str, Any]] = (
    {
        "type": "user", "uuid": "u-1", "sessionId": "s", "timestamp": WHEN, "cwd": "/a", "origin": {"kind": "human"},
        "entrypoint": "cli", "isMeta": False, "promptSource": "typed", "gitBranch": "main",
        "message": {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "tool_result"}]},
    },
    {
        "type": "attachment", "uuid": "u-2", "timestamp": WHEN,
        "attachment": {"type": "queued_command", "commandMode": "prompt", "prompt": "a", "origin": {"kind": "human"}},
    },
    {
        "type": "assistant", "uuid": "u-3", "timestamp": WHEN,
        "message": {"model": "m", "content": [{"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}]},
    },
)  # fmt: skip
LINES: dict[ImportFormat, Sequence[dict[str, Any]]] = {
    ImportFormat.CLAUDE_CODE: CLAUDE_LINES,
    ImportFormat.CODEX: [
        META,
        codex_message("user", "# Context from my IDE setup:", "b"),
        codex_line("response_item", type="function_call_output", output=[{"text": "a"}]),
        codex_line("response_item", type="function_call", name="a", arguments="{}"),
    ],
    ImportFormat.OPENCLAW: [
        {"type": "session", "id": "o", "cwd": "/a"},
        openclaw_message("user", SENDER + "a", provenance={"kind": "external_user"}, timestamp=1),
        openclaw_message("assistant", "a", model="m"),
    ],
    ImportFormat.PLAIN: [{"at": WHEN, "speaker": "bea", "text": "a", "session": "b"}],
}


@pytest.mark.spec("MEM-17")
@pytest.mark.parametrize("kind", LINES)
def test_whatever_value_a_line_has_it_is_at_most_counted_as_broken(tmp_path: Path, kind: ImportFormat) -> None:
    chance = random.Random(7)
    values: list[object] = [
        None,
        True,
        10**18,
        0.5,
        "",
        "\0",
        "\ud800",
        WHEN,
        [],
        {},
        [[{"text": 1}]],
        {"text": {"a": []}},
    ]

    def spoil(value: object) -> object:
        if chance.random() < 0.15:
            return chance.choice(values)
        if isinstance(value, dict):
            items = cast("dict[str, object]", value).items()
            return {key: spoil(each) for key, each in items if chance.random() > 0.05}
        return [spoil(each) for each in cast("list[object]", value)] if isinstance(value, list) else value

    lines = [json.dumps(spoil(chance.choice(LINES[kind]))).encode() + b"\n" for _ in range(2_000)]
    facts = TranscriptFacts(session="s")
    turns = list(read_turns(tmp_path / "s.jsonl", kind, enumerate(lines, 1), facts))
    assert turns
    assert facts.broken_lines
    assert list(read_episodes(turns, kind, person="ann", tools=True))
