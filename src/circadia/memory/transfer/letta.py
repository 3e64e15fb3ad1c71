"""Letta's agent file (`.af`): what an agent and its people said, and its memory blocks (MEM-40).

A file has either `agents`, which name their `blocks`, or, before Letta 0.8, one agent with its `core_memory`. What an
agent says, it may say by calling `send_message`; then its other text is thought. These files have no archival memory.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from circadia.errors import InvalidRequest
from circadia.memory.blocks import DEFAULT_LIMIT, MAX_LIMIT, require_valid_version
from circadia.memory.redaction import redact
from circadia.memory.transfer.lines import new_block_line
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
    user_text,
)
from circadia.records.episode import EpisodeKind

_SPEAKS: Final = "send_message"
_SILENT_ROLES: Final = ("system", "approval")


def load_letta(document: object) -> Mapping[str, Any] | None:
    """Return an agent file, also one that was saved as a text in JSON; None if it is none."""
    if isinstance(document, str):
        try:
            document = orjson.loads(document)
        except ValueError:
            return None
    file = as_mapping(document)
    return file if file.keys() >= {"agents", "blocks"} or file.keys() >= {"core_memory", "messages"} else None


def read_letta_turns(file: Mapping[str, Any], facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    """Yield what was said, without what agents for memory read and wrote; damaged messages are counted and named."""
    number = 0
    for agent in _agents(file):
        name, messages = as_name(agent.get("name")) or facts.session, as_list(agent.get("messages"))
        calls = [call for message in messages for call in _calls(as_mapping(message)) if _names(call) == _SPEAKS]
        spoken_calls = {as_text(call.get("id")) for call in calls}
        for raw in messages:
            number += 1
            try:
                yield from list(_read_message(as_mapping(raw), number, name, spoken_calls, facts))
            except InvalidRequest:
                facts.count_broken(f"message {number}")


def read_letta_blocks(file: Mapping[str, Any], facts: TranscriptFacts) -> Iterator[bytes]:
    """Yield a line for each block that says something; damaged ones are counted and named."""
    labels: set[str] = set()
    for owner, number, raw in _list_blocks(file):
        label, value, limit = (raw.get(name) for name in ("label", "value", "limit"))
        try:
            if not isinstance(label, str) or not isinstance(value, str):
                raise InvalidRequest(f"block {number} needs `label` and `value`")
            if not value.strip():
                continue
            value = redact(value.replace("\0", ""))
            size = max(limit if isinstance(limit, int) else DEFAULT_LIMIT, len(value))
            limit = size if len(value) > MAX_LIMIT else min(size, MAX_LIMIT)
            label = f"{label} ({owner})" if label in labels else label
            require_valid_version(label, value, limit)
        except InvalidRequest:
            facts.count_broken(f"block {number}")
            continue
        labels.add(label)
        description = as_text(raw.get("description")) or ""
        yield new_block_line(
            label=label, value=value, limit=limit, description=description[:10_000],
            read_only=raw.get("read_only") is True, by="letta",
        )  # fmt: skip


def _agents(file: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the agents that speak with people; those that work on the memory of others, if there are no others."""
    every = [as_mapping(agent) for agent in as_list(file.get("agents"))] if "agents" in file else [file]
    return [agent for agent in every if "sleeptime" not in str(agent.get("agent_type"))] or every


def _list_blocks(file: Mapping[str, Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield each block of these agents once, with its first agent's name and its place in the file."""
    blocks = [as_mapping(block) for block in as_list(file.get("blocks" if "agents" in file else "core_memory"))]
    if "agents" not in file:
        yield from ((str(number), number, block) for number, block in enumerate(blocks, 1))
        return
    places = {as_text(block.get("id")): number for number, block in enumerate(blocks, 1)}
    shown: set[int] = set()
    for agent in _agents(file):
        for number in (places.get(as_text(block_id)) for block_id in as_list(agent.get("block_ids"))):
            if number is not None and number not in shown:
                shown.add(number)
                yield str(agent.get("name")), number, blocks[number - 1]


def _read_message(
    message: Mapping[str, Any], number: int, agent: str, spoken_calls: set[str | None], facts: TranscriptFacts
) -> Iterator[TranscriptTurn]:
    role, content = message.get("role"), message.get("content")
    text = content if isinstance(content, str) else join_texts(as_list(content))
    at = parse_time(message.get("created_at"), number)
    match role:
        case "user":
            said = user_text(_unwrap(text))
            yield from _turn(said, Speaker.PERSON, number, agent, at, name=as_name(message.get("name")))
        case "assistant":
            calls = _calls(message)
            if not spoken_calls:
                yield from _turn(text, Speaker.ASSISTANT, number, agent, at)
            for call in calls:
                arguments = as_text(as_mapping(call.get("function")).get("arguments")) or ""
                if _names(call) == _SPEAKS:
                    yield from _turn(_find_message(arguments, number), Speaker.ASSISTANT, number, agent, at)
                else:
                    yield from _turn(f"{_names(call)}({arguments})", Speaker.TOOL, number, agent, at)
        case "tool":
            if as_text(message.get("tool_call_id")) not in spoken_calls:
                yield from _turn(text, Speaker.TOOL, number, agent, at)
        case None:
            raise InvalidRequest(f"message {number} has no role")
        case _:
            facts.unknown_lines += role not in _SILENT_ROLES


def _turn(
    text: str, speaker: Speaker, number: int, agent: str, at: datetime | None, *, name: str | None = None
) -> Iterator[TranscriptTurn]:
    """Yield a turn. Its ids in a file count from 0 in each, so its time and text are its key."""
    if text.strip():
        digest = hashlib.sha256("\0".join((agent, str(at), speaker, text)).encode("utf-8", "surrogatepass")).hexdigest()
        yield TranscriptTurn(
            line=number, speaker=speaker, text=text, at=at, conversation=agent, key=f"letta:{digest[:40]}", name=name,
            kind=EpisodeKind.TOOL if speaker is Speaker.TOOL else EpisodeKind.TURN,
        )  # fmt: skip


def _unwrap(text: str) -> str:
    """Return what a person said in Letta's JSON around it; empty if Letta itself speaks in it, as of a login."""
    try:
        wrapped = as_mapping(orjson.loads(text))
    except ValueError:
        return text
    if not wrapped.keys() >= {"type", "time"}:
        return text
    return as_text(wrapped.get("message")) or "" if wrapped["type"] == "user_message" else ""


def _calls(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [as_mapping(call) for call in as_list(message.get("tool_calls"))]


def _names(call: Mapping[str, Any]) -> str:
    """Return the name of the tool that is called."""
    return str(as_mapping(call.get("function")).get("name"))


def _find_message(arguments: str, number: int) -> str:
    """Return the message in the arguments of `send_message`. Raises InvalidRequest: it has none."""
    try:
        message = as_mapping(orjson.loads(arguments)).get("message")
    except ValueError:
        message = None
    if not isinstance(message, str):
        raise InvalidRequest(f"message {number} calls `{_SPEAKS}` without a message")
    return message
