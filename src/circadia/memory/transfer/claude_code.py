"""Read transcripts of Claude Code: the JSON Lines in its folder `projects`, one file a session (MEM-16).

They contribute what a person and the agent said. Left out are thinking, sub-agents (`isSidechain`), and what Claude
Code wrote itself: `isMeta`, the model `<synthetic>`, summaries after a compaction, output of local commands, API
errors, notifications and scheduled prompts. The format has no specification.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from circadia.errors import InvalidRequest
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

_NOT_SAID: Final = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_OTHER_KINDS: Final = (
    "agent-name", "agent-setting", "ai-title", "attachment", "custom-title", "file-history-snapshot", "last-prompt",
    "mode", "permission-mode", "pr-link", "progress", "queue-operation", "summary", "system", "tag", "worktree-state",
)  # fmt: skip
"""Kinds of lines that say nothing."""
_HEADLESS: Final = ("mcp", "claude-code-github-action")
"""Entry points without a person, besides those of the SDK: `sdk-cli` is `claude -p`."""


def read_claude_code_line(line: Mapping[str, Any], number: int, facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    """Yield the turns of a line. Raises InvalidRequest: a message has no `uuid`, or its time cannot be read."""
    kind = line.get("type")
    message = as_mapping(line.get("message"))
    attachment = as_mapping(line.get("attachment"))
    if kind in ("user", "assistant"):
        prompt, content = line, message.get("content")
    elif attachment.get("type") == "queued_command" and attachment.get("commandMode") == "prompt":
        prompt, content = attachment, attachment.get("prompt")  # a person typed it while the agent was at work
    else:
        facts.unknown_lines += kind not in _OTHER_KINDS
        return
    facts.root = facts.root or as_text(line.get("cwd"))
    if line.get("isSidechain") is True:
        facts.started_by = facts.started_by or "another agent"
    if any(line.get(flag) is True for flag in _NOT_SAID) or message.get("model") == "<synthetic>":
        return
    uuid = line.get("uuid")
    if not isinstance(uuid, str) or not 0 < len(uuid) <= 100:
        raise InvalidRequest(f"line {number}: a message without `uuid` is not from Claude Code")
    speaker = Speaker.ASSISTANT if kind == "assistant" else _find_prompter(prompt, line.get("entrypoint"), facts)
    at = parse_time(line.get("timestamp"), number)
    for text, text_kind in _texts(content):
        tool_result = text_kind is EpisodeKind.TOOL and kind == "user"
        said_by = Speaker.TOOL if tool_result else speaker
        if text and said_by is not None:
            yield TranscriptTurn(
                line=number,
                speaker=said_by,
                text=text,
                at=at,
                conversation=as_name(line.get("sessionId")) or facts.session,
                key=f"claude-code:{uuid}",
                kind=text_kind,
                metadata=text_metadata(cwd=line.get("cwd"), git_branch=line.get("gitBranch")),
            )


def find_rewound_lines(lines: Iterable[tuple[int, bytes]]) -> frozenset[int]:
    """Return the numbers of the lines that a person has taken back: a later prompt continues what is before them.

    A prompt whose `parentUuid` has been continued before is such a return; what came after that parent is rewound.
    """
    children: dict[int, list[tuple[int, int]]] = {}
    rewound: set[int] = set()
    for number, raw in lines:
        try:
            line = as_mapping(orjson.loads(raw))
        except ValueError:
            continue
        uuid, parent = line.get("uuid"), line.get("parentUuid")
        if not isinstance(uuid, str) or not isinstance(parent, str) or line.get("isSidechain") is True:
            continue
        siblings = children.setdefault(hash(parent), [])
        if siblings and _is_prompt(line):
            ahead = list(siblings)
            while ahead:
                at, key = ahead.pop()
                rewound.add(at)
                ahead += children.pop(key, ())
            siblings.clear()
        siblings.append((number, hash(uuid)))
    return frozenset(rewound)


def _is_prompt(line: Mapping[str, Any]) -> bool:
    """Return whether a line is what a person asks, and no result of a tool."""
    content = as_mapping(line.get("message")).get("content")
    is_result = any(as_mapping(part).get("type") == "tool_result" for part in as_list(content))
    return line.get("type") == "user" and line.get("isMeta") is not True and not is_result


def _find_prompter(prompt: Mapping[str, Any], entry_point: object, facts: TranscriptFacts) -> Speaker | None:
    """Return who wrote a user turn; None for Claude Code itself, such as a notification or a scheduled task.

    The origin is more exact than the entry point: desktop apps, which a person uses, start Claude Code with its SDK.
    """
    origin = as_mapping(prompt.get("origin")).get("kind")
    if origin == "human":
        return Speaker.PERSON
    if origin is not None or prompt.get("promptSource") == "system":
        return None
    if isinstance(entry_point, str) and (entry_point.startswith("sdk") or entry_point in _HEADLESS):
        facts.started_by = f"a program ({entry_point:.50})"
        return Speaker.PROGRAM
    return Speaker.PERSON


def _texts(content: object) -> Iterator[tuple[str, EpisodeKind]]:
    """Yield the spoken text of a message as one, then each tool call and tool result."""
    if isinstance(content, str):
        yield user_text(content), EpisodeKind.TURN
        return
    parts = [as_mapping(part) for part in as_list(content)]
    yield _join_spoken(parts), EpisodeKind.TURN
    for part in parts:
        if part.get("type") == "tool_use":
            called = orjson.dumps(part.get("input"), default=str).decode()
            yield f"{part.get('name')}({called})", EpisodeKind.TOOL
        elif part.get("type") == "tool_result":
            result: object = part.get("content")
            yield result if isinstance(result, str) else _join_spoken(as_list(result)), EpisodeKind.TOOL


def _join_spoken(parts: Iterable[object]) -> str:
    return join_texts((part for part in parts if as_mapping(part).get("type") == "text"), user_text)
