"""Read rollouts of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, one file a session.

They contribute the messages of the user and the assistant. Left out are the events that repeat them, reasoning,
developer messages, summaries and what Codex adds to a user turn. The format is that of Codex since September 2025.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from circadia.memory.transfer.transcripts import (
    Speaker,
    TranscriptFacts,
    TranscriptTurn,
    as_list,
    as_mapping,
    as_name,
    as_text,
    join_texts,
    parse_time,
    text_metadata,
    user_text,
)
from circadia.records.episode import EpisodeKind

LINE_KINDS: Final = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_HEADLESS: Final = ("exec", "mcp")
"""Sources of a session that a program starts: `codex exec` and its SDK, and Codex as a tool of another agent."""
_IDE_CONTEXT: Final = "# Context from my IDE setup:"
_IDE_REQUEST: Final = "## My request for Codex:"
"""Between these headings, extensions of editors put open files and the selected text."""


def read_codex_line(line: Mapping[str, Any], number: int, facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    """Yield the turns of a line. Raises InvalidRequest: its time cannot be read."""
    payload = as_mapping(line.get("payload"))
    if line.get("type") not in LINE_KINDS:
        facts.unknown_lines += 1
    elif line["type"] == "session_meta" and facts.root is None:  # a fork also contains that of its origin
        facts.session = as_name(payload.get("id")) or facts.session
        facts.root = as_text(payload.get("cwd"))
        facts.started_by = _starter(payload)
    elif line["type"] == "response_item":
        for speaker, text, kind in _texts(payload, facts):
            if text:
                yield TranscriptTurn(
                    line=number,
                    speaker=speaker,
                    text=text,
                    at=parse_time(line.get("timestamp"), number),
                    conversation=facts.session,
                    key=f"codex:{facts.session[:100]}:{number}",
                    kind=kind,
                    metadata=text_metadata(cwd=facts.root),
                )


def find_rolled_back_lines(lines: Iterable[tuple[int, bytes]]) -> frozenset[int]:
    """Return the numbers of the lines that a person has taken back: an event says how many of the last turns go."""
    begins: list[int] = []
    gone: set[int] = set()
    for number, raw in lines:
        if b'"user"' not in raw and b"thread_rolled_back" not in raw:
            continue
        try:
            payload = as_mapping(as_mapping(orjson.loads(raw)).get("payload"))
        except ValueError:
            continue
        turns = payload.get("num_turns") if payload.get("type") == "thread_rolled_back" else None
        if isinstance(turns, int) and begins and turns > 0:
            gone.update(range(begins[-turns:][0], number))
            del begins[-turns:]
        elif payload.get("role") == "user" and join_texts(as_list(payload.get("content")), _user_part):
            begins.append(number)
    return frozenset(gone)


def _starter(meta: Mapping[str, Any]) -> str | None:
    """Return what started a session, if not a person: `codex exec`, a sub-agent, Codex's own memory or review."""
    source = meta.get("source")
    if not {"subagent", "internal"}.isdisjoint(as_mapping(source)):
        return "another agent"
    if meta.get("thread_source") not in (None, "user") or meta.get("parent_thread_id") is not None:
        return f"Codex ({meta.get('thread_source') or 'sub-agent'})"
    return f"a program ({source})" if source in _HEADLESS else None


def _texts(item: Mapping[str, Any], facts: TranscriptFacts) -> Iterator[tuple[Speaker, str, EpisodeKind]]:
    match item.get("type"):
        case "message":
            parts = as_list(item.get("content"))
            if item.get("role") == "assistant":
                yield Speaker.ASSISTANT, join_texts(parts), EpisodeKind.TURN
            elif item.get("role") == "user":
                person = Speaker.PERSON if facts.started_by is None else Speaker.PROGRAM
                yield person, join_texts(parts, _user_part), EpisodeKind.TURN
        case "function_call" | "custom_tool_call":
            called = item.get("arguments") or item.get("input")
            yield Speaker.ASSISTANT, f"{item.get('name')}({called})", EpisodeKind.TOOL
        case "function_call_output" | "custom_tool_call_output":
            output: object = item.get("output")
            yield Speaker.TOOL, output if isinstance(output, str) else join_texts(as_list(output)), EpisodeKind.TOOL
        case _:
            pass


def _user_part(text: str) -> str:
    if text.startswith(_IDE_CONTEXT):
        text = text.partition(_IDE_REQUEST)[2]
    return "" if text.strip() in ("<image>", "</image>") or text.startswith("<image name=") else user_text(text)
