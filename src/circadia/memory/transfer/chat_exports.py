"""The data exports of ChatGPT and claude.ai: `conversations.json`, a list of conversations.

ChatGPT's is a tree of messages, of which the branch that was shown last counts. Of both, a person's attachments and a
model's thoughts are left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from circadia.errors import InvalidRequest
from circadia.memory.transfer.import_format import ImportFormat
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

_CHATGPT_SPEAKERS: Final = {"user": Speaker.PERSON, "assistant": Speaker.ASSISTANT, "tool": Speaker.TOOL}
_CHATGPT_TEXTS: Final = frozenset({"text", "multimodal_text", "execution_output", "code"})
"""Kinds of contents that somebody said; the others are thoughts, settings and what a browser has read."""
_CLAUDE_SPEAKERS: Final = {"human": Speaker.PERSON, "user": Speaker.PERSON, "assistant": Speaker.ASSISTANT}

ReadConversation = Callable[[Mapping[str, Any], int, TranscriptFacts], Iterator[TranscriptTurn]]


def find_conversations(document: object) -> tuple[ImportFormat, Sequence[object]] | None:
    """Return the format and the conversations of an export; None if it is neither's."""
    conversations = as_list(document) or as_list(as_mapping(document).get("conversations"))
    for conversation in map(as_mapping, conversations):  # the first ones may be damaged
        if "mapping" in conversation:
            return ImportFormat.CHATGPT, conversations
        if "chat_messages" in conversation:
            return ImportFormat.CLAUDE_AI, conversations
    return None


def read_conversations(
    conversations: Sequence[object], kind: ImportFormat, facts: TranscriptFacts
) -> Iterator[TranscriptTurn]:
    """Yield the turns of all conversations; those that cannot be read are counted and named by their place."""
    read: ReadConversation = _read_chatgpt if kind is ImportFormat.CHATGPT else _read_claude_ai
    for number, raw in enumerate(conversations, 1):
        try:
            yield from list(read(as_mapping(raw), number, facts))
        except InvalidRequest:
            facts.count_broken(number)


def _read_chatgpt(raw: Mapping[str, Any], number: int, facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    nodes = as_mapping(raw.get("mapping"))
    if not nodes:
        raise InvalidRequest(f"conversation {number} has no messages")
    conversation = as_name(raw.get("conversation_id")) or as_name(raw.get("id")) or facts.session
    for place, node in enumerate(_shown_branch(nodes, raw.get("current_node"))):
        message = as_mapping(node.get("message"))
        content, author = as_mapping(message.get("content")), as_mapping(message.get("author"))
        speaker = _CHATGPT_SPEAKERS.get(str(author.get("role")))
        is_hidden = bool(as_mapping(message.get("metadata")).get("is_visually_hidden_from_conversation"))
        if speaker is None or is_hidden or content.get("content_type") not in _CHATGPT_TEXTS:
            continue
        parts = [part for part in as_list(content.get("parts")) if isinstance(part, str)]
        calls = message.get("recipient") not in (None, "all")  # what the model asks a tool for
        yield from _turn(
            f"chatgpt:{as_text(message.get('id')) or f'{conversation}:{place}'}", number,
            Speaker.TOOL if calls else speaker, "\n\n".join(parts) or as_text(content.get("text")) or "",
            _parse_seconds(message.get("create_time") or raw.get("create_time"), number), conversation,
            text_metadata(title=raw.get("title")),
        )  # fmt: skip


def _shown_branch(nodes: Mapping[str, Any], last: object) -> Sequence[Mapping[str, Any]]:
    """Return the messages from the first to the last that was shown; all in their order if that is not known."""
    branch: dict[str, Mapping[str, Any]] = {}
    while isinstance(last, str) and last in nodes and last not in branch:
        branch[last] = as_mapping(nodes[last])
        last = branch[last].get("parent")
    return list(reversed(branch.values())) or [as_mapping(node) for node in nodes.values()]


def _read_claude_ai(raw: Mapping[str, Any], number: int, facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    if "chat_messages" not in raw:  # an empty list is a chat that nobody began
        raise InvalidRequest(f"conversation {number} has no messages")
    conversation = as_name(raw.get("uuid")) or facts.session
    for place, message in enumerate(map(as_mapping, as_list(raw.get("chat_messages")))):
        speaker = _CLAUDE_SPEAKERS.get(str(message.get("sender")))
        if speaker is None:
            facts.unknown_lines += 1
            continue
        texts = [part for part in as_list(message.get("content")) if as_mapping(part).get("type") == "text"]
        yield from _turn(
            f"claude-ai:{as_text(message.get('uuid')) or f'{conversation}:{place}'}", number, speaker,
            join_texts(texts) or as_text(message.get("text")) or "",
            parse_time(message.get("created_at") or raw.get("created_at"), number), conversation,
            text_metadata(title=raw.get("name")),
        )  # fmt: skip


def _turn(
    key: str, number: int, speaker: Speaker, text: str, at: datetime | None, conversation: str,
    metadata: Mapping[str, str],
) -> Iterator[TranscriptTurn]:  # fmt: skip
    said = user_text(text) if speaker is Speaker.PERSON else text
    if said.strip():
        yield TranscriptTurn(
            line=number, speaker=speaker, text=said, at=at, conversation=conversation, key=key, metadata=metadata,
            kind=EpisodeKind.TOOL if speaker is Speaker.TOOL else EpisodeKind.TURN,
        )  # fmt: skip


def _parse_seconds(value: object, number: int) -> datetime | None:
    """Return a time in seconds since 1970. Raises InvalidRequest: it is none."""
    if value is None:
        return None
    try:
        return datetime.fromtimestamp(float(value), UTC)  # pyright: ignore[reportArgumentType] - what is no number is caught
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise InvalidRequest(f"conversation {number}: {value!r:.80} is no time in seconds since 1970") from error
