"""What other memories export as JSON, as facts: mem0, mem0's OpenMemory, and LangMem (MEM-16, MEM-40).

A model worded these memories, so their trust is that of an agent.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from circadia.errors import InvalidRequest
from circadia.memory.episodes import MAX_METADATA, NewEpisode
from circadia.memory.redaction import redact
from circadia.memory.transfer.transcripts import (
    TranscriptFacts,
    as_list,
    as_mapping,
    as_name,
    as_text,
    parse_time,
    split_text,
    text_metadata,
)
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind

_LONGEST_VALUE: Final = 4_000
"""Bytes of a value of another system's metadata, as JSON; larger ones are left out."""

ReadEntry = Callable[[Mapping[str, Any], int], Iterator[NewEpisode]]


def read_entries(entries: Sequence[object], read: ReadEntry, facts: TranscriptFacts) -> Iterator[NewEpisode]:
    """Yield the episodes of each entry; those that cannot be read are counted and named by their place."""
    for number, entry in enumerate(entries, 1):
        try:
            yield from list(read(as_mapping(entry), number))
        except InvalidRequest:
            facts.count_broken(number)


def build_facts(
    source: str, text: str, identity: str, *, trust: Trust = Trust.AGENT, **fields: Any
) -> Iterator[NewEpisode]:
    """Yield a memory as facts; a changed memory is a new fact."""
    for part in split_text(redact(text)):
        digest = hashlib.sha256(f"{identity}{part}".encode("utf-8", "surrogatepass")).hexdigest()
        key = f"{source}:{digest[:40]}"
        yield NewEpisode(text=part, trust=trust, kind=EpisodeKind.FACT, key=key, **fields)


def merge_metadata(own: Mapping[str, object], others: Mapping[str, object]) -> dict[str, object]:
    """Return both, those of the other system first if names are the same, without values that are too large."""
    kept, size = dict(own), len(orjson.dumps(own))
    for name, value in others.items():
        cost = len(orjson.dumps({name: value}))
        if value is not None and cost <= _LONGEST_VALUE and size + cost <= MAX_METADATA:
            kept[name] = value
            size += cost
    return kept


def mem0_entries(document: object) -> Sequence[object] | None:
    """Return the memories of a list or of `{"results": […]}`; None if it is not from mem0."""
    entries = as_list(document) or as_list(as_mapping(document).get("results"))
    return entries if any("memory" in as_mapping(entry) for entry in entries) else None


def read_mem0_memory(entry: Mapping[str, Any], number: int) -> Iterator[NewEpisode]:
    """Yield a memory as facts. Raises InvalidRequest: it is none."""
    text, identity = entry.get("memory"), entry.get("id")
    if not isinstance(text, str) or not isinstance(identity, str):
        raise InvalidRequest(f"entry {number} is not a memory of mem0: it needs `id` and `memory`")
    extra = {"mem0": entry.get("metadata"), "categories": entry.get("categories")}
    yield from build_facts(
        "mem0", text, f"{identity} ",
        speaker=as_name(entry.get("user_id")) or as_name(entry.get("agent_id")) or "mem0",
        at=parse_time(entry.get("updated_at") or entry.get("created_at"), number),
        conversation=as_name(entry.get("run_id")),
        metadata=merge_metadata(
            {"source": "mem0", "mem0_id": identity[:200]}, {name: value for name, value in extra.items() if value}
        ),
    )  # fmt: skip


def openmemory_entries(document: object) -> Sequence[object] | None:
    """Return the memories of OpenMemory's `memories.json`; None if it is not from OpenMemory."""
    parts = as_mapping(document)
    return as_list(parts["memories"]) if parts.keys() >= {"memories", "export_meta"} else None


def openmemory_reader(document: object) -> ReadEntry:
    """Return what reads the memories of a document, with the names of its user, apps and categories."""
    user = as_mapping(as_mapping(document).get("user"))
    speaker = as_name(user.get("user_id")) or as_name(user.get("name")) or "openmemory"
    apps, categories = (
        {as_text(each.get("id")): each.get("name") for each in map(as_mapping, as_list(as_mapping(document).get(part)))}
        for part in ("apps", "categories")
    )

    def read(entry: Mapping[str, Any], number: int) -> Iterator[NewEpisode]:
        text, identity = entry.get("content"), entry.get("id")
        if not isinstance(text, str) or not isinstance(identity, str):
            raise InvalidRequest(f"entry {number} is not a memory of OpenMemory: it needs `id` and `content`")
        if entry.get("state") == "deleted":
            return
        tags = [categories.get(as_text(category)) for category in as_list(entry.get("category_ids"))]
        own: dict[str, object] = {
            "source": "openmemory", "item": identity[:200],
            **text_metadata(app=apps.get(as_text(entry.get("app_id"))), state=entry.get("state")),
        }  # fmt: skip
        if names := [tag for tag in tags if isinstance(tag, str)]:
            own["tags"] = names
        yield from build_facts(
            "openmemory", text, f"{identity} ", speaker=speaker,
            at=parse_time(entry.get("updated_at") or entry.get("created_at"), number),
            metadata=merge_metadata(own, as_mapping(entry.get("metadata"))),
        )  # fmt: skip

    return read


def langmem_entries(document: object) -> Sequence[object] | None:
    """Return the items of a list or of `{"items": […]}`, as its REST API returns; None if it is not from LangMem."""
    entries = as_list(document) or as_list(as_mapping(document).get("items"))
    return entries if any(as_mapping(entry).keys() >= {"namespace", "key", "value"} for entry in entries) else None


def read_langmem_item(item: Mapping[str, Any], number: int) -> Iterator[NewEpisode]:
    """Yield an item as facts. Raises InvalidRequest: it is none."""
    value, key = item.get("value"), item.get("key")
    if not isinstance(value, dict) or not isinstance(key, str):
        raise InvalidRequest(f"entry {number} is not an item of a store: it needs `key` and `value`")
    namespace = [str(part) for part in as_list(item.get("namespace"))]
    yield from build_facts(
        "langmem", _item_text(as_mapping(item["value"])), "\0".join((*namespace, key, "")),
        speaker=(as_name(namespace[-1]) if namespace else None) or "langmem",  # LangMem puts the user last
        at=parse_time(item.get("updated_at") or item.get("created_at"), number),
        metadata={"source": "langmem", "namespace": "/".join(namespace)[:1000], "item": key[:200]},
    )  # fmt: skip


def _item_text(value: Mapping[str, Any]) -> str:
    """Return the text of an item: LangMem's `content`, nested once or twice; else the item as JSON."""
    content: object = value.get("content", value)
    inner = as_mapping(content).get("content", content)
    return inner if isinstance(inner, str) else orjson.dumps(inner, default=str).decode()
