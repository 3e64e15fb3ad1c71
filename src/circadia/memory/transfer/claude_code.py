"""Read transcripts of Claude Code: the JSON Lines in its folder `projects`, one file a session (MEM-16).

They contribute what a person and the agent said. Left out are thinking, sub-agents (`isSidechain`), what Claude Code
wrote itself (`isMeta`, the model `<synthetic>`, summaries after a compaction, output of local commands, API errors)
and, by default, tools. The format has no specification; lines of unknown kinds are skipped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from circadia.errors import InvalidRequest
from circadia.memory.capture.harness import strip_harness_text
from circadia.memory.episodes import MAX_NAME, NewEpisode
from circadia.memory.redaction import redact
from circadia.memory.transfer.values import as_list, as_mapping, as_name, parse_time, split_text
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind

_NOT_SAID: Final = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


def read_claude_code(lines: Iterable[tuple[int, bytes]], *, person: str, tools: bool) -> Iterator[NewEpisode]:
    """Yield the episodes in numbered lines of transcripts; `person` is the speaker of the person's turns.

    An incomplete last line is skipped: the session may still be running. Raises InvalidRequest: a line is not JSON.
    """
    for number, raw in lines:
        if not raw.strip():
            continue
        try:
            line = as_mapping(orjson.loads(raw))
        except ValueError as error:
            if raw.startswith(b"{") and not raw.endswith(b"\n"):
                return
            raise InvalidRequest(f"line {number} is not JSON in UTF-8: {error}") from error
        if line.get("type") in ("user", "assistant") and not any(line.get(flag) is True for flag in _NOT_SAID):
            yield from _episodes(line, number, person=person, tools=tools)


def _episodes(line: Mapping[str, Any], number: int, *, person: str, tools: bool) -> Iterator[NewEpisode]:
    message = as_mapping(line.get("message"))
    if message.get("model") == "<synthetic>":
        return
    agent = line["type"] == "assistant"
    uuid = line.get("uuid")
    if not isinstance(uuid, str) or not 0 < len(uuid) <= 100:
        raise InvalidRequest(f"line {number}: a message without `uuid` is not from Claude Code")
    texts = [(text, kind) for text, kind in _texts(message.get("content")) if tools or kind is EpisodeKind.TURN]
    place = 0
    for whole, kind in texts:
        for text in split_text(redact(whole)):
            place += 1
            tool = kind is EpisodeKind.TOOL
            yield NewEpisode(
                text=text,
                speaker="assistant" if agent else "tool" if tool else person,
                trust=Trust.TOOL if tool and not agent else Trust.AGENT if agent else Trust.PERSON,
                at=parse_time(line.get("timestamp"), number),
                kind=kind,
                conversation=as_name(line.get("sessionId")),
                metadata={"source": "claude-code", **_place_metadata(line)},
                key=f"claude-code:{uuid}" + (f":{place}" if place > 1 else ""),
            )


def _texts(content: object) -> Iterator[tuple[str, EpisodeKind]]:
    """Yield the spoken text of a message as one, then each tool call and tool result."""
    if isinstance(content, str):
        yield strip_harness_text(content), EpisodeKind.TURN
        return
    parts = [as_mapping(part) for part in as_list(content)]
    yield _join_texts(parts), EpisodeKind.TURN
    for part in parts:
        if part.get("type") == "tool_use":
            called = orjson.dumps(part.get("input"), default=str).decode()
            yield f"{part.get('name')}({called})", EpisodeKind.TOOL
        elif part.get("type") == "tool_result":
            result: object = part.get("content")
            yield (
                result if isinstance(result, str) else _join_texts([as_mapping(e) for e in as_list(result)]),
                EpisodeKind.TOOL,
            )


def _join_texts(parts: Sequence[Mapping[str, Any]]) -> str:
    texts: list[Any] = [part.get("text") for part in parts if part.get("type") == "text"]
    return "\n\n".join(part for text in texts if isinstance(text, str) and (part := strip_harness_text(text)))


def _place_metadata(line: Mapping[str, Any]) -> dict[str, str]:
    metadata = {"cwd": line.get("cwd"), "git_branch": line.get("gitBranch")}
    return {key: value[:MAX_NAME] for key, value in metadata.items() if isinstance(value, str) and value}
